"""Warnings: what the records prove that a reader must know before believing a number, in plain words, one sentence or two each."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from loadstone.metrics.icl import icl_blocks
from loadstone.metrics.spans import Mask
from loadstone.metrics.statistics import percent
from loadstone.metrics.summary import Distribution, Summary
from loadstone.records import Records

TENTH = 0.1  # figures that differ by more than this share are not the same
FEW = 0.01  # a share below this one moves no percentile that people read
LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL"}


def cautions(records: Records, summary: Summary, percentiles: Sequence[str]) -> list[str]:
    """Every warning of a run. `percentiles` are those that the person asked for."""
    found = [sentence for check in _CHECKS for sentence in check(records, summary)]
    return found + list(_small_samples(summary, percentiles))


def _late_load(records: Records, summary: Summary) -> Iterator[str]:
    """The headline figures from sent and from planned differ by more than a tenth, or the sends were slower than the schedule by as much."""
    if not summary.open_loop:
        return
    capped = summary.max_concurrency is not None and summary.peak_concurrency >= summary.max_concurrency
    held = f" The cap of {summary.max_concurrency} requests in flight was reached and held requests back." if capped else ""
    worst = max((gap for name in ("ttft", "e2el") for gap in _headline_gaps(summary, name)), key=lambda gap: gap[0], default=None)
    if worst is not None and worst[0] > TENTH:
        _, figure, service, response = worst
        yield (
            f"The load was not delivered as asked: {figure} is {response:.2f} ms counted from when requests were due, {service:.2f} ms counted from"
            f" when they were sent.{held} The figures from due time are what users on this schedule would have felt."
        )
    elif summary.planned_rate and summary.sent_rate and abs(summary.sent_rate / summary.planned_rate - 1) > TENTH:
        yield (
            f"The load was not delivered as asked: the schedule was {summary.planned_rate:.2f} req/s, requests were sent at"
            f" {summary.sent_rate:.2f}.{held}"
        )


def _headline_gaps(summary: Summary, name: str) -> Iterator[tuple[float, str, float, float]]:
    """(relative difference, name of the figure, from sent, from planned) of mean, median and p99."""
    service, response = _figures(summary.distributions[name]), _figures(summary.distributions[f"response_{name}"])
    for figure, value in service.items():
        if figure in response and value > 0:
            yield abs(response[figure] - value) / value, f"{figure} {LATENCIES[name]}", value, response[figure]


def _figures(found: Distribution) -> dict[str, float]:
    if found.mean is None or found.median is None:
        return {}
    return {"mean": found.mean, "median": found.median.value, "p99": found.percentiles["99"].value}


def _clock(records: Records, summary: Summary) -> Iterator[str]:
    backwards = [LATENCIES[name] for name in LATENCIES if (least := summary.distributions[name].minimum) is not None and least < 0]
    if backwards:
        yield f"The clock went backwards: some samples of {', '.join(backwards)} are negative. Do not trust the latencies of this run."


def _cancelled(records: Records, summary: Summary) -> Iterator[str]:
    if summary.cancelled:
        yield f"{_requests(summary.cancelled)} cut off before the end. The latencies are of those that finished, which tend to be the quick ones."


def _no_stream(records: Records, summary: Summary) -> Iterator[str]:
    whole = int((records.completed & ~records.streamed).sum())
    if 0 < whole < summary.completed:
        yield f"{whole} of {summary.completed} replies were not streamed: TTFT, TPOT and ITL are of the other {summary.completed - whole}."


def _no_tokens(records: Records, summary: Summary) -> Iterator[str]:
    silent = int((records.completed & (records.output_tokens == 0)).sum())
    if silent:
        yield f"{silent} of {summary.completed} completed requests brought no token: they count in request throughput and have no latency."


def _unexplained(records: Records, summary: Summary) -> Iterator[str]:
    """Streams that ended in [DONE] alone, on a server whose other streams say why they end."""
    streams = _streams(records)
    bare = int((streams & records.reason.equal("no finish_reason")).sum())
    if 0 < bare < int(streams.sum()):
        yield (
            f"{bare} of {summary.completed} completed streams ended in [DONE] without a finish_reason, which the others have: the server may have"
            " broken them off (llama-cpp-python does when another request comes, unless it runs with --interrupt_requests false)."
        )


def _one_event(records: Records, summary: Summary) -> Iterator[str]:
    """Several tokens in a single event: the reply was a stream in name only, and its TPOT is 0."""
    lumps = _streams(records) & (np.diff(records.token_rows) == 1) & (records.output_tokens > 1)
    if count := int(lumps.sum()):
        yield (
            f"{count} of {summary.completed} replies brought several tokens in one event: they have no ITL, and their TPOT is 0. Does the server or a"
            " proxy buffer?"
        )


def _merged(records: Records, summary: Summary) -> Iterator[str]:
    """Gaps of exactly 0 between events: both were completed by one read."""
    gaps = summary.distributions["icl"].count
    share = sum(int(np.count_nonzero(block.values == 0)) for block in icl_blocks(records)) / gaps if gaps else 0.0
    if share > FEW:
        yield (
            f"{share:.0%} of the token events came in one read with the event before them. The server or a proxy bundles events, or the client read"
            " late: gaps of 0 pull the median ITL down and long ones push its p99 up."
        )


def _token_sources(records: Records, summary: Summary) -> Iterator[str]:
    counts = summary.token_source
    if by_events := counts.get("events", 0):
        yield (
            f"The output tokens of {by_events} of {summary.completed} requests are counted by events, for want of usage and of a tokenizer: an event"
            " may hold several tokens."
        )
    if unknown := int((records.completed & np.isnan(records.output_tokens)).sum()):
        yield f"The output tokens of {unknown} of {summary.completed} requests are unknown and missing from the totals."
    if unknown := int((records.completed & np.isnan(records.prompt_tokens)).sum()):
        yield f"The input tokens of {unknown} of {summary.completed} requests are unknown and missing from the totals."


def _prompt_counts(records: Records, summary: Summary) -> Iterator[str]:
    local = summary.prompt_token_source.get("local", 0)
    if local:
        yield f"The input tokens of {local} of {summary.completed} requests are the client's own count: the server gave none."
    from_server = records.prompt_token_source.equal("usage")
    both = records.completed & from_server & ~np.isnan(records.prompt_tokens) & ~np.isnan(records.local_prompt_tokens)
    server, client = int(records.prompt_tokens[both].sum()), int(records.local_prompt_tokens[both].sum())
    if (records.prompt_tokens != records.local_prompt_tokens)[both].any():
        yield (
            f"The server counts {server} input tokens where the client's tokenizer counts {client}: a chat template, special tokens or another"
            " tokenizer. The figures use the server's count."
        )


def _short_replies(records: Records, summary: Summary) -> Iterator[str]:
    known = records.completed & ~np.isnan(records.wanted_output_tokens) & ~np.isnan(records.output_tokens)
    wanted, made = float(records.wanted_output_tokens[known].sum()), float(records.output_tokens[known].sum())
    short = int((records.output_tokens < records.wanted_output_tokens)[known].sum())
    if wanted and made < (1 - TENTH) * wanted:
        yield (
            f"{short} of {int(known.sum())} replies were shorter than asked ({made / known.sum():.1f} of {wanted / known.sum():.1f} tokens on"
            " average): the load was lighter than planned. --ignore-eos keeps lengths fixed where the server has it."
        )


def _partial_basis(records: Records, summary: Summary) -> Iterator[str]:
    events, counts = np.diff(records.token_rows), np.diff(records.token_count_rows)
    flowing = _streams(records) & (events > 1)
    told = int((flowing & (events == counts)).sum())
    if summary.itl_basis == "event" and told:
        yield f"Only {told} of {int(flowing.sum())} replies told how many tokens each event holds: ITL is the gap between events for all of them."


def _small_samples(summary: Summary, percentiles: Sequence[str]) -> Iterator[str]:
    """One warning a percentile that was asked for, naming the latencies whose sample cannot bound it."""
    for text in dict.fromkeys(percentiles):
        poor = [found for name in LATENCIES if (found := summary.distributions[name]).count and not _bounded(found, text)]
        if not poor or (needs := poor[0].percentiles[text].needs) is None:
            continue
        names = ", ".join(f"{LATENCIES[found.name]} ({found.count})" for found in poor)
        extreme = "largest" if percent(text) >= 50 else "smallest"
        yield f"Too few samples to bound p{text} of {names}: {needs} are needed. Read it as about the {extreme} value seen."


def _bounded(found: Distribution, text: str) -> bool:
    point = found.percentiles[text]
    return point.low is not None and point.high is not None


def _streams(records: Records) -> Mask:
    return np.asarray(records.completed & records.streamed)


def _requests(count: int) -> str:
    return "1 request was" if count == 1 else f"{count} requests were"


_CHECKS: tuple[Callable[[Records, Summary], Iterator[str]], ...] = (
    _late_load,
    _clock,
    _cancelled,
    _no_stream,
    _no_tokens,
    _unexplained,
    _one_event,
    _merged,
    _token_sources,
    _prompt_counts,
    _short_replies,
    _partial_basis,
)
