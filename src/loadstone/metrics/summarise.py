"""From the records of a run to its summary: every metric of definitions.md, whether or not it will be printed."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from loadstone.metrics.catalogue import METRICS, MS
from loadstone.metrics.cautions import cautions
from loadstone.metrics.goodput import goodput
from loadstone.metrics.itl import itl_basis
from loadstone.metrics.means import GapSums, interval_of
from loadstone.metrics.outcomes import outcomes
from loadstone.metrics.overload import overload
from loadstone.metrics.peaks import peak_concurrency, peak_output_tokens_per_s
from loadstone.metrics.servers import by_server, retries
from loadstone.metrics.spans import Gaps
from loadstone.metrics.statistics import distribution, pooled_distribution, with_mean_interval
from loadstone.metrics.summary import Distribution, Summary
from loadstone.metrics.sums import Samples
from loadstone.metrics.thresholds import Threshold, judge
from loadstone.metrics.throughput import duration_s, event_rate, per_second, total_tokens
from loadstone.metrics.window import Times, measured
from loadstone.records import ABSENT, Records, Words

ALWAYS = ("50", "90", "95", "99")  # percentiles that reports show whether or not they were asked for


def summarise(
    records: Records,
    *,
    planned: int,
    dropped: int = 0,
    percentiles: Sequence[str] = ("99",),
    slos_ms: Mapping[str, float] | None = None,
    thresholds: Sequence[Threshold] = (),
    open_loop: bool = False,
    requested_rate: float | None = None,
    max_concurrency: int | None = None,
    window: Times | None = None,
    servers: Sequence[str] = (),
    client: Mapping[str, Any] | None = None,
    notes: Iterable[str] = (),
) -> Summary:
    """The summary of a run whose `records` are those of every request that was sent (dropped ones have none).

    `percentiles` as the person gave them ("99", "99.9"). `slos_ms`: limits by metric name, none without goodput. `thresholds` are judged, and their
    percentiles join those asked for. `open_loop`: requests were due at times of their own. `requested_rate`: mean arrivals a second that were asked
    for, None for all at once, a ramp or a closed loop. `window`: the part of the run that a person wants figures of; None: the steady part, where
    there is one. `servers`: the URLs of all, where there are several. `client` and `notes` are passed on. Raises AccountingError if planned, sent and
    outcomes do not add up, UsageError for a percentile outside 0 to 100 or an unknown SLO.
    """
    percentiles = [*percentiles, *(each.percentile for each in thresholds if each.percentile)]
    counts = outcomes(records, planned, dropped)
    seconds = duration_s(records)
    input_tokens, output_tokens = total_tokens(records, records.prompt_tokens), total_tokens(records, records.output_tokens)
    both = (records.planned_ns != ABSENT) & (records.sent_ns != ABSENT)
    summary = Summary(
        planned=counts.planned,
        sent=counts.sent,
        dropped=counts.dropped,
        completed=counts.completed,
        failed=counts.failed,
        cancelled=counts.cancelled,
        failures=counts.failures,
        failure_examples=counts.examples,
        duration_s=seconds,
        total_input_tokens=input_tokens,
        total_output_tokens=output_tokens,
        request_throughput=per_second(counts.completed, seconds),
        output_throughput=per_second(output_tokens, seconds),
        total_token_throughput=per_second(input_tokens + output_tokens, seconds),
        peak_output_tokens_per_s=peak_output_tokens_per_s(records),
        peak_concurrency=peak_concurrency(records),
        open_loop=open_loop,
        max_concurrency=max_concurrency,
        requested_rate=requested_rate,
        planned_rate=event_rate(records.planned_ns[both]) if open_loop else None,
        sent_rate=event_rate(records.sent_ns),
        goodput=goodput(records, slos_ms, open_loop) if slos_ms else None,
        distributions=_distributions(records, [*percentiles, *ALWAYS], open_loop),
        server_spans=_server_spans(records, [*percentiles, *ALWAYS]),
        overload=overload(records, open_loop=open_loop, constant_rate=requested_rate is not None),
        window=measured(records, [*percentiles, *ALWAYS], open_loop=open_loop, asked=window),
        servers=by_server(records, servers, [*percentiles, *ALWAYS]),
        retries=retries(records),
        itl_basis=itl_basis(records),
        token_source=_sources(records, records.token_source),
        prompt_token_source=_sources(records, records.prompt_token_source),
        notes=list(notes),
        client=dict(client or {}),
    )
    return msgspec.structs.replace(summary, warnings=cautions(records, summary, percentiles), thresholds=judge(thresholds, summary))


def _distributions(records: Records, percentiles: Sequence[str], open_loop: bool) -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    order = np.argsort(records.sent_ns, kind="stable")
    for name, metric in METRICS.items():
        if metric.planned and not open_loop:
            continue
        per_unit = 1e6 if metric.unit == MS else 1.0
        if name == "icl" and itl_basis(records) == "event":
            found[name] = msgspec.structs.replace(found["itl"], name=name)  # the same samples
        elif metric.gaps:
            sums = GapSums(records)
            pooled = pooled_distribution(name, metric.unit, partial(_values, sums, metric.gaps, records), percentiles, per_unit)
            found[name] = with_mean_interval(pooled, sums.interval(order), per_unit)
        elif metric.samples:
            samples = metric.samples(records)
            found[name] = with_mean_interval(distribution(name, metric.unit, samples, percentiles, per_unit), interval_of(samples, order), per_unit)
    return found


def _server_spans(records: Records, percentiles: Sequence[str]) -> dict[str, Distribution]:
    names = dict.fromkeys(name for names in records.span_names.counts(records.completed) if names for name in names.split("\t"))
    return {name: distribution(name, MS, records.server_span(name), percentiles, 1e6) for name in names if name not in METRICS}


def _values(sums: GapSums, gaps: Callable[[Records], Iterator[Gaps]], records: Records) -> Iterator[Samples]:
    return (block.values for _, block in sums.passing(gaps(records)))


def _sources(records: Records, sources: Words) -> dict[str, int]:
    """Completed requests by where a token count of theirs came from; those without a count are `unknown`."""
    found: Counter[str] = Counter()
    for source, count in sources.counts(records.completed).items():
        found[source or "unknown"] += count
    return dict(found.most_common())
