"""Every metric that has a distribution: its name, its unit and the function that gives its samples. A new metric is one file and one line here."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from loadstone.metrics.connecting import connect_ns, tls_ns
from loadstone.metrics.e2el import e2el_ns, response_e2el_ns
from loadstone.metrics.icl import icl_blocks
from loadstone.metrics.itl import itl_blocks
from loadstone.metrics.lengths import input_len, output_len, s_input_len
from loadstone.metrics.queue_delay import queue_delay_ns
from loadstone.metrics.server import s_decode, s_e2el_ns, s_itl_blocks, s_ttft_ns
from loadstone.metrics.spans import Gaps
from loadstone.metrics.tpot import tpot_ns
from loadstone.metrics.ttfot import ttfot_ns
from loadstone.metrics.ttft import response_ttft_ns, ttft_ns
from loadstone.records import Records, Spans

MS, TOKENS, TOKENS_PER_S = "ms", "tokens", "tok/s"


class Metric(NamedTuple):
    """`samples`: one a request, nanoseconds where the unit is ms; or `gaps`: many a request, block after block. `planned`: counted from the planned
    time, so an open loop's alone.
    """

    unit: str
    samples: Callable[[Records], Spans] | None = None
    gaps: Callable[[Records], Iterator[Gaps]] | None = None
    planned: bool = False


METRICS: dict[str, Metric] = {
    "ttft": Metric(MS, ttft_ns),
    "ttfot": Metric(MS, ttfot_ns),
    "tpot": Metric(MS, tpot_ns),
    "itl": Metric(MS, gaps=itl_blocks),
    "icl": Metric(MS, gaps=icl_blocks),
    "e2el": Metric(MS, e2el_ns),
    "queue_delay": Metric(MS, queue_delay_ns, planned=True),
    "response_ttft": Metric(MS, response_ttft_ns, planned=True),
    "response_e2el": Metric(MS, response_e2el_ns, planned=True),
    "connect": Metric(MS, connect_ns),
    "tls": Metric(MS, tls_ns),
    "s_ttft": Metric(MS, s_ttft_ns),
    "s_itl": Metric(MS, gaps=s_itl_blocks),
    "s_e2el": Metric(MS, s_e2el_ns),
    "s_decode": Metric(TOKENS_PER_S, s_decode),
    "input_len": Metric(TOKENS, input_len),
    "s_input_len": Metric(TOKENS, s_input_len),
    "output_len": Metric(TOKENS, output_len),
}
