"""One run as a comparison sees it, whatever tool made it: figures in one unit, what each means, what was asked, and samples where the file has
them."""

from typing import Any, NamedTuple

import msgspec

from loadstone.compare.estimate import Floats, Series

MS_METRICS = (
    "ttft", "ttfot", "tpot", "itl", "icl", "e2el", "response_ttft", "response_e2el", "queue_delay", "connect", "tls", "s_ttft", "s_itl", "s_e2el"
)  # fmt: skip
HIGHER = ("requests", "output", "total", "goodput", "s_decode")
"""What is better when it is more; everything else is better when it is less."""

FACTS = {"model": "model", "load": "load", "data": "data set", "lengths": "lengths", "seed": "seed"}
"""What two runs must have in common, in the words of --allow and of a reader."""


class Definition(NamedTuple):
    """What a tool means by a metric. Figures of one `kind` are compared, of two kinds never; a `detail` that differs is said beside them."""

    kind: str
    detail: str = ""


class Rate(NamedTuple):
    """What happened in equal parts of a run, a second."""

    bins: Floats


class Run(msgspec.Struct, kw_only=True):
    """`figures` by metric and statistic, in ms, requests and tokens a second, per cent: {"ttft": {"mean": 12.5, "p99": 40.1}, "requests": {"": 9.8}}.

    `facts` are those of FACTS that the file tells: a text each, but (input, output) tokens a request for lengths. `amounts` and `seconds`: what a
    rate over several runs is made of. What a file does not tell is not there.
    """

    source: str
    tool: str
    figures: dict[str, dict[str, float]] = {}
    definitions: dict[str, Definition] = {}
    facts: dict[str, Any] = {}
    samples: dict[str, Series] = {}
    rates: dict[str, Rate] = {}
    seconds: float | None = None
    slos: str = ""  # limits of the goodput


def definition(run: Run, metric: str) -> Definition:
    return run.definitions.get(metric, Definition(metric))
