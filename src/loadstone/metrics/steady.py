"""The steady part of a run: without the ramp-up, in which the server fills, and without the drain, in which it empties.

It lies before the last send: afterwards the load is no longer what was asked for. It is where both the number in flight and the output token rate
are settled, each found by the marginal standard error rule (MSER; White 1997), applied to both ends: the time from the first to the last send is cut
into 100 bins, and for each beginning (up to half the bins) and each end (up to a quarter) that might be left out the variance of the rest is divided
by the number of bins in it, which is the squared standard error of the rest's mean. The longest rest that comes within a tenth of the least is
taken, so that noise alone costs little of the run. A minimum at either limit means that the series did not settle: then there is no steady part.

The rule at the edges: rates count what happened between them, by the stamp of each token and the end of each request; latencies are those of requests
that were sent between them, whenever they ended.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.metrics.series import edges_of, in_flight, tokens_per_s
from loadstone.records import ABSENT, Records

BINS = 100
MOST_BEFORE, MOST_AFTER = BINS // 2, BINS // 4  # bins that may be left out
TOLERANCE = 0.1
LEAST_REQUESTS = 50  # sent within it: fewer tell nothing


class Window(NamedTuple):
    """A part of the run, nanoseconds on the run's clock; `why` says how it was chosen, or why there is none (start = end)."""

    start_ns: int
    end_ns: int
    why: str

    @property
    def found(self) -> bool:
        return self.end_ns > self.start_ns


def steady_window(records: Records) -> Window:
    """The steady part, if there is one."""
    sent = records.sent_ns[records.sent_ns != ABSENT]
    if len(sent) < LEAST_REQUESTS:
        return Window(0, 0, f"{len(sent)} requests are too few to tell a steady part ({LEAST_REQUESTS} are needed)")
    first, last = int(sent.min()), int(sent.max())
    if last - first < BINS:  # nanoseconds: less than one a bin
        return Window(0, 0, "all requests were sent at once: the run is a ramp-up and a drain")
    edges = edges_of(first, last, BINS)
    before = after = 0
    for name, series in (("requests in flight", in_flight(records, edges)), ("the token rate", tokens_per_s(records, edges))):
        cut = settled(series)
        if cut is None:
            return Window(0, 0, f"{name} did not settle before the last request was sent: the run was too short, or the server did not keep up")
        before, after = max(before, cut[0]), max(after, cut[1])
    start, end = int(edges[before]), int(edges[BINS - after])
    inside = int(((sent >= start) & (sent <= end)).sum())
    if inside < LEAST_REQUESTS:
        return Window(0, 0, f"only {inside} requests were sent while the load was settled, and {LEAST_REQUESTS} are needed")
    return Window(start, end, "where requests in flight and the token rate had settled (MSER), at the latest until the last send")


def settled(series: NDArray[np.floating[Any]]) -> tuple[int, int] | None:
    """How many of BINS values are left out at the beginning and at the end; None where the series did not settle."""
    values = series - series.mean()  # keeps the sums of squares small
    sums, squares = (np.concatenate(([0.0], np.cumsum(each))) for each in (values, values**2))
    first, last = np.arange(MOST_BEFORE)[:, None], len(series) - np.arange(MOST_AFTER)[None, :]
    count = last - first
    total = sums[last] - sums[first]
    error = np.maximum(squares[last] - squares[first] - total**2 / count, 0) / count**2
    least = error.min()
    before, after = np.unravel_index(int(np.argmin(error)), error.shape)
    if least > 0 and (before == MOST_BEFORE - 1 or after == MOST_AFTER - 1):
        return None
    near = np.where(error <= least * (1 + TOLERANCE), count, 0)
    before, after = np.unravel_index(int(np.argmax(near)), near.shape)
    return int(before), int(after)
