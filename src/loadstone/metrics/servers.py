"""What each server did, where several share a run, and what became of requests that were tried more than once.

A request counts for the server that its last attempt went to: `sent`, the outcomes and the samples of one server are those of its own requests, by
the same formulas as for all. Rates are over the duration of the whole run, so that those of the servers add up to the total's; percentiles do not,
being of each server's own samples. `retried` counts attempts *on* a server that were followed by another, wherever that one went.

attempts = requests that were sent + attempts that were followed by another.
"""

from collections import Counter
from collections.abc import Sequence

from loadstone.metrics.catalogue import METRICS
from loadstone.metrics.statistics import distribution
from loadstone.metrics.summary import Distribution, Retries, ServerFigures
from loadstone.metrics.throughput import duration_s, per_second, total_tokens
from loadstone.records import CANCELLED, FAILED, Records

SHOWN = ("ttft", "tpot", "e2el")


def by_server(records: Records, servers: Sequence[str], percentiles: Sequence[str]) -> list[ServerFigures]:
    """One entry for each of `servers`, their URLs in the order of their numbers; none where there is but one."""
    if len(servers) < 2:
        return []
    seconds = duration_s(records)
    samples = {name: each(records) for name in SHOWN if (each := METRICS[name].samples)}
    again = _again(records)
    found = []
    for number, url in enumerate(servers):
        own = records.target.equal(url)
        completed = own & records.completed
        output_tokens = total_tokens(records, records.output_tokens, own)
        distributions: dict[str, Distribution] = {
            name: distribution(name, METRICS[name].unit, each[own], percentiles, 1e6) for name, each in samples.items()
        }
        found.append(
            ServerFigures(
                url=url,
                sent=int(own.sum()),
                completed=int(completed.sum()),
                failed=int((own & records.status.equal(FAILED)).sum()),
                cancelled=int((own & records.status.equal(CANCELLED)).sum()),
                retried=_reasons({key: count for key, count in again.items() if key[0] == number}),
                total_output_tokens=output_tokens,
                request_throughput=per_second(int(completed.sum()), seconds),
                output_throughput=per_second(output_tokens, seconds),
                distributions=distributions,
            )
        )
    return found


def retries(records: Records) -> Retries:
    """How often requests were tried again, and after what."""
    again = _again(records)
    return Retries(
        attempts=int(records.attempts.sum()),
        requests=int((records.attempts > 1).sum()),
        completed=int(((records.attempts > 1) & records.completed).sum()),
        reasons=_reasons(again),
    )


def _again(records: Records) -> Counter[tuple[int, str]]:
    """Attempts that were followed by another, by the number of their server and their reason."""
    found: Counter[tuple[int, str]] = Counter()
    for attempts, count in records.retried.counts(records.attempts > 1).items():
        for attempt in (attempts or "").split("\t"):
            server, _, reason = attempt.partition(" ")
            if reason:
                found[int(server), reason] += count
    return found


def _reasons(attempts: dict[tuple[int, str], int]) -> dict[str, int]:
    """Attempts by their reason, the most common first."""
    found: Counter[str] = Counter()
    for (_, reason), count in attempts.items():
        found[reason] += count
    return dict(found.most_common())
