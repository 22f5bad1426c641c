"""Whether the server kept up with an open loop: what was due against what was done, and what became of the backlog.

Backlog at t = requests that were due and not over: in flight, and waiting in the client (for --max-concurrency, or because it was late). It is
followed over the judged part: from a quarter of the schedule, or from twice the E2EL (p90) of the requests of its first tenth where that is later
(until then requests in flight grow on any server), to the last due time. The server did not keep up when both hold:

- the backlog grew by more than 5 % of the requests that were due in the judged part, and
- it grew steadily: the Mann-Kendall statistic over its means in ten equal bins is 27 or more (of 45), which chance reaches in 0.83 % of trials,

or when it refused (429, 503) more than 5 % of what was due. Then it was saturated at the rate at which it completed requests in the judged part.

Latency drift: the same statistic over the median response E2EL of the requests due in each of the ten bins; `drift` is the last of these medians
less the first, relative to the first, where the statistic is 27 or more, else 0.

Undecided (None) for a closed loop, which waits for the server; where the rate was not to be constant; for fewer than 100 requests; and where the
judged part would begin after 60 % of the schedule: the run was too short for its latencies.
"""

from itertools import pairwise

import numpy as np

from loadstone.metrics.e2el import response_e2el_ns
from loadstone.metrics.series import between, edges_of
from loadstone.metrics.summary import Overload
from loadstone.records import ABSENT, Records, Spans, Times

LEAST = 100
SHARE = 0.05
BINS, SURE = 10, 27  # P(S >= 27) = 0.0083 for ten values in random order


def overload(records: Records, *, open_loop: bool, constant_rate: bool) -> Overload:
    """The judgement of a run. `constant_rate`: the arrivals were to have one mean rate throughout."""
    if not open_loop:
        return Overload(why="a closed loop waits for the server, so there is no backlog")
    if not constant_rate:
        return Overload(why="the rate was not to be constant")
    due = (records.planned_ns != ABSENT) & (records.end_ns != ABSENT)
    planned, end = records.planned_ns[due], records.end_ns[due]
    if len(planned) < LEAST:
        return Overload(why=f"{len(planned)} requests are too few to tell ({LEAST} are needed)")
    first, last = int(planned.min()), int(planned.max())
    e2el = response_e2el_ns(records)
    early = e2el[due & (records.planned_ns <= first + (last - first) // 10)]
    early = early[~np.isnan(early)]
    warm = int(2 * np.percentile(early, 90)) if len(early) else 0
    start = first + max((last - first) // 4, warm)
    if start > first + 0.6 * (last - first):
        return Overload(why="the run was too short to tell: most of it was over before the first requests were")
    inside = (planned > start) & (planned <= last)
    arrivals, seconds = int(inside.sum()), (last - start) / 1e9
    completed = records.completed[due] & (end > start) & (end <= last)
    edges = edges_of(start, last, BINS)
    before, after = _backlog(planned, end, start), _backlog(planned, end, last)
    backlog = between(planned, end, edges)
    refused = int((records.reason.equal("http 429") | records.reason.equal("http 503"))[due][inside].sum())
    grew = after - before > SHARE * arrivals and mann_kendall(backlog) >= SURE
    turned_away = refused > SHARE * arrivals
    delivered = int(completed.sum()) / seconds
    return Overload(
        kept_up=not (grew or turned_away),
        asked_rate=arrivals / seconds,
        delivered_rate=delivered,
        saturated_at=delivered if grew or turned_away else None,
        backlog_before=before,
        backlog_after=after,
        refused=refused,
        drift=_drift(e2el, records.planned_ns, edges),
    )


def mann_kendall(values: Spans) -> int:
    """S: pairs that rise less pairs that fall, over all pairs in order of time. nan counts in no pair."""
    later = values[None, :] - values[:, None]
    return int(np.nansum(np.sign(np.triu(later, 1))))


def _backlog(planned: Times, end: Times, at_ns: int) -> int:
    return int((planned <= at_ns).sum() - (end <= at_ns).sum())


def _drift(e2el: Spans, planned_ns: Times, edges: Spans) -> float:
    bins = [e2el[(planned_ns > low) & (planned_ns <= high)] for low, high in pairwise(edges)]
    medians = np.array([np.nanmedian(each) if (~np.isnan(each)).any() else np.nan for each in bins])
    rises = mann_kendall(medians) >= SURE and medians[0] > 0
    return float(medians[-1] / medians[0] - 1) if rises else 0.0
