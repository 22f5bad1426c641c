"""The figures of a part of the run: of the steady part that was found, or of the one that --warmup-time, --measure-time and --cooldown-time name.

The rule at its edges, so that neither ramp-up nor drain flatters or hurts. Rates count what happened inside by its own time: output tokens by the
stamp of their event, requests and their prompt tokens by the end of the request. Latencies are those of the requests that were sent inside, whenever
they ended. A request that straddles an edge so gives its tokens to the side where they came, and its latencies to the side where it began.

A rate's 95 % interval is by batch means over 20 equal parts of the window; none (None) where fewer than 100 requests completed in it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from loadstone.metrics.batch_means import LEAST, ratio_interval
from loadstone.metrics.catalogue import METRICS, MS
from loadstone.metrics.means import GapSums, interval_of
from loadstone.metrics.series import edges_of, in_flight, tokens_per_s
from loadstone.metrics.spans import Gaps, Mask
from loadstone.metrics.statistics import distribution, pooled_distribution, with_mean_interval
from loadstone.metrics.steady import Window, steady_window
from loadstone.metrics.summary import Distribution, Estimate, Measured
from loadstone.metrics.sums import Samples
from loadstone.records import ABSENT, Records, Spans
from loadstone.records import Times as Stamps

PARTS = 20
LATENCIES = ("ttft", "tpot", "itl", "e2el")
FROM_PLANNED = ("response_ttft", "response_e2el")


class Times(NamedTuple):
    """The part that a person asked for, seconds: from `warmup` after the first send, for `measure` or until `cooldown` before the last send."""

    warmup: float = 0.0
    measure: float | None = None
    cooldown: float = 0.0


def measured(records: Records, percentiles: Sequence[str], *, open_loop: bool, asked: Times | None = None) -> Measured:
    """The figures of the part that was `asked` for, or of the steady one."""
    sent = records.sent_ns[records.sent_ns != ABSENT]
    window = steady_window(records) if asked is None else _asked(sent, asked)
    if not window.found:
        return Measured(asked=asked is not None, why=window.why)
    origin = int(sent.min())
    edges = edges_of(window.start_ns, window.end_ns, PARTS)
    inside = (records.sent_ns >= window.start_ns) & (records.sent_ns <= window.end_ns)
    over = records.completed & (records.end_ns >= window.start_ns) & (records.end_ns <= window.end_ns)
    ends, prompts = records.end_ns[over], np.nan_to_num(records.prompt_tokens[over])
    completed, tokens_in = (np.histogram(ends, edges, weights=weights)[0].astype(np.float64) for weights in (None, prompts))
    tokens_out = tokens_per_s(records, edges) * np.diff(edges) / 1e9
    names = (*LATENCIES, *FROM_PLANNED) if open_loop else LATENCIES
    enough = int(over.sum()) >= LEAST
    return Measured(
        asked=asked is not None,
        why=window.why,
        start_s=(window.start_ns - origin) / 1e9,
        end_s=(window.end_ns - origin) / 1e9,
        sent=int(inside.sum()),
        completed=int(over.sum()),
        in_flight=float(in_flight(records, edges).mean()),
        request_throughput=_rate(completed, edges, enough),
        output_throughput=_rate(tokens_out, edges, enough),
        total_token_throughput=_rate(tokens_in + tokens_out, edges, enough),
        distributions={name: _latency(name, records, inside, percentiles) for name in names},
    )


def _asked(sent: Stamps, asked: Times) -> Window:
    if not len(sent):
        return Window(0, 0, "nothing was sent")
    start = int(sent.min()) + round(asked.warmup * 1e9)
    last = int(sent.max()) - round(asked.cooldown * 1e9)
    end = last if asked.measure is None else min(start + round(asked.measure * 1e9), last)
    if end <= start:
        length = (int(sent.max()) - int(sent.min())) / 1e9
        return Window(0, 0, f"requests were sent for {length:.2f} s, and the times asked for leave nothing of that to measure")
    return Window(start, end, "as --warmup-time, --measure-time and --cooldown-time say")


def _rate(amounts: Spans, edges: Spans, enough: bool) -> Estimate:
    seconds = np.diff(edges) / 1e9
    found = ratio_interval(amounts, seconds, batches=PARTS) if enough else None
    value = float(amounts.sum() / seconds.sum())
    return Estimate(value=value) if found is None else Estimate(value=value, low=max(found.low, 0.0), high=found.high)


def _latency(name: str, records: Records, inside: Mask, percentiles: Sequence[str]) -> Distribution:
    metric = METRICS[name]
    per_unit = 1e6 if metric.unit == MS else 1.0
    order = np.flatnonzero(inside)[np.argsort(records.sent_ns[inside], kind="stable")]
    if metric.samples:
        samples = metric.samples(records)
        return with_mean_interval(distribution(name, metric.unit, samples[order], percentiles, per_unit), interval_of(samples, order), per_unit)
    assert metric.gaps
    sums = GapSums(records)
    found = pooled_distribution(name, metric.unit, partial(_sent_inside, sums, metric.gaps, records, inside), percentiles, per_unit)
    return with_mean_interval(found, sums.interval(order), per_unit)


def _sent_inside(sums: GapSums, gaps: Callable[[Records], Iterator[Gaps]], records: Records, inside: Mask) -> Iterator[Samples]:
    for rows, block in sums.passing(gaps(records)):
        yield block.values[np.repeat(inside[rows], np.diff(block.rows))]
