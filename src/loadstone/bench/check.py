"""`loadstone check`: run a load against the simulated server on this machine and say how far what was measured is from what was true.

The run is the real one: the same plan, workers, decoder and metrics as `bench serve`. The server is a process of its own, and knows when each
request arrived and when each token went out (see check_compare.py).
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from loadstone.bench.check_compare import Comparison, compare
from loadstone.bench.check_find import Found, find_largest
from loadstone.bench.check_load import DEFAULT_STREAMS, CheckLoad, cores, most_streams
from loadstone.bench.run import Result, run
from loadstone.errors import UsageError
from loadstone.metrics.summary import Summary
from loadstone.report.live import Live
from loadstone.simulator import running

WITHIN, BEYOND, UNDECIDED = "within", "beyond", "undecided"
EXIT_WITHIN, EXIT_BEYOND = 0, 99
LATE_SHARE = 0.5  # a simulated server whose steps are later than this share of a step (p99) is at its limit
BUSY_SHARE = 0.95  # and one that uses more of a core than this
PACE_SHARE = 0.9  # tokens, and in an open loop requests, must come at this share of the asked pace for the load to be the asked one


class ServerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How the simulated server itself did."""

    cpu_share: float  # of one core
    step_ms: float
    step_late_p99_ms: float | None
    peak_streams: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one load. `why`: reasons, in words, when undecided.

    `p99_ttft_error_ms` is measured - true p99 TTFT. That figure alone can be right by chance, when errors fall on other requests than those that set
    it. So `ttft_error_ms`, which is judged, is the larger of its size and of the 99th percentile of the sizes of the TTFT errors one by one. Both are
    None when nothing was measured.
    """

    verdict: str  # within, beyond, undecided
    why: list[str]
    load: CheckLoad
    planned: int
    completed: int
    failures: dict[str, int]
    p99_ttft_error_ms: float | None
    ttft_error_ms: float | None
    measured_ms: dict[str, dict[str, float]]  # what a user of the run would read: ttft, itl, e2el -> mean, p50, p99
    comparison: Comparison
    planned_rate: float | None  # of the schedule as drawn; None in a closed loop
    late_p99_ms: float | None  # sent - planned; None in a closed loop
    merged_reads: int
    token_events: int
    clock: str
    client: dict[str, Any]  # the run's own health figures
    server: ServerHealth
    cores: int

    @property
    def within(self) -> bool:
        return self.verdict == WITHIN


def check(load: CheckLoad, *, live: Live | None = None) -> Report:
    """Run `load` against a simulated server of its own, on loopback. Raises UsageError for a load that cannot be; an interrupt ends it."""
    load = load.validated()
    with running(**load.simulator_options()) as server:
        server.reset()
        begun = time.monotonic()
        result = run(load.config(server.url), command=["loadstone", "check"], live=live)
        if result.interrupted:
            raise KeyboardInterrupt
        truth = server.truth(requests=True)
        wall_s = time.monotonic() - begun
    return report_of(load, result, truth, wall_s)


def find(load: CheckLoad, budget_s: float, *, live: Live | None = None, tell: Callable[[Report], None] | None = None) -> Found[Report]:
    """The most streams of this kind that stay within the limit, beginning with those of `load`. `tell` hears of each attempt."""
    if load.request_rate is not None:
        raise UsageError("--find looks for a number of streams: leave out --request-rate")
    if not budget_s > 0:
        raise UsageError(f"--budget-time must be above 0 seconds, not {budget_s:g}")
    load = load.validated()

    def attempt(streams: int) -> Report:
        report = check(msgspec.structs.replace(load, concurrency=streams), live=live)
        if tell:
            tell(report)
        return report

    return find_largest(load.concurrency or DEFAULT_STREAMS, most_streams(), budget_s, attempt)


def report_of(load: CheckLoad, result: Result, truth: dict[str, Any], wall_s: float) -> Report:
    """The judgement on a finished run, given the server's truth. `wall_s`: how long the server's CPU time covers."""
    summary, records = result.summary, result.records
    comparison = compare(records, result.config.request_id_prefix, truth["requests"])
    late = truth["step_late_ms"]
    server = ServerHealth(
        cpu_share=truth["cpu_s"] / wall_s if wall_s > 0 else 0.0,
        step_ms=load.step_us / 1e3,
        step_late_p99_ms=late and late["p99"],
        peak_streams=truth["peak_in_flight"],
    )
    measured = _measured(summary)
    error_ms = measured["ttft"]["p99"] - comparison.true_ms["ttft"]["p99"] if "ttft" in measured and "ttft" in comparison.true_ms else None
    judged_ms = None if error_ms is None or comparison.ttft is None else max(abs(error_ms), comparison.ttft.p99_us / 1e3)
    why = [*_faults(summary, comparison), *_not_the_load(load, summary, comparison, server)]
    delay = summary.distributions.get("queue_delay")
    return Report(
        verdict=UNDECIDED if why else WITHIN if judged_ms is not None and judged_ms <= load.limit_ms else BEYOND,
        why=why,
        load=load,
        planned=summary.planned,
        completed=summary.completed,
        failures=summary.failures,
        p99_ttft_error_ms=error_ms,
        ttft_error_ms=judged_ms,
        measured_ms=measured,
        comparison=comparison,
        planned_rate=summary.planned_rate,
        late_p99_ms=delay.percentiles["99"].value if delay and delay.count else None,
        merged_reads=int(records.merged_reads.sum()),
        token_events=len(records.token_ns),
        clock=result.clock,
        client=summary.client,
        server=server,
        cores=cores(),
    )


def exit_code(verdict: str) -> int:
    """0 for within; 99 for beyond, and for undecided: a load that is not shown to be within is none to start a campaign with."""
    return EXIT_WITHIN if verdict == WITHIN else EXIT_BEYOND


def exit_code_of_search(found: Found[Report], asked: int | None) -> int:
    """0 when a load was found that is within, and is not below the streams that were asked for; else 99."""
    return EXIT_WITHIN if found.largest is not None and found.largest >= (asked or 1) else EXIT_BEYOND


def _measured(summary: Summary) -> dict[str, dict[str, float]]:
    found = {}
    for name in ("ttft", "itl", "e2el"):
        each = summary.distributions.get(name)
        if each is not None and each.mean is not None:
            found[name] = {"mean": each.mean, **{f"p{key}": each.percentiles[key].value for key in ("50", "99")}}
    return found


def _faults(summary: Summary, comparison: Comparison) -> list[str]:
    """Why the comparison cannot be trusted."""
    faults = []
    if summary.completed < summary.planned:
        most = max(summary.failures, key=summary.failures.__getitem__, default="not sent")
        example = summary.failure_examples.get(most, most)
        faults.append(f"{summary.planned - summary.completed} of {summary.planned} requests did not complete (for example: {example})")
    if comparison.unmatched:
        faults.append(f"{comparison.unmatched} completed requests have not the tokens that the server sent: please report this as a bug")
    return faults


def _not_the_load(load: CheckLoad, summary: Summary, comparison: Comparison, server: ServerHealth) -> list[str]:
    """Why what ran was not the load that was asked for: the simulated server was at its own limit."""
    if server.step_late_p99_ms is not None and server.step_late_p99_ms > LATE_SHARE * server.step_ms:
        return [f"it sent tokens up to {server.step_late_p99_ms:.1f} ms late (p99; a step is {server.step_ms:g} ms)"]
    if server.cpu_share > BUSY_SHARE:
        return [f"it used {server.cpu_share:.0%} of a core"]
    if comparison.token_pace is not None and comparison.token_pace < PACE_SHARE * load.tokens_per_second:
        return [f"it gave each stream {comparison.token_pace:.1f} tokens/s in place of {load.tokens_per_second:g}"]
    return []


def tell_progress(report: Report) -> None:
    """One line on standard error for an attempt of a search."""
    error = "nothing measured" if report.ttft_error_ms is None else f"TTFT off by {report.ttft_error_ms:.3f} ms (p99)"
    print(f"{report.load.concurrency} streams: {error}: {report.verdict}", file=sys.stderr, flush=True)
