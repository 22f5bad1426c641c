"""The search for the largest load that a client carries truly: doubling while it does, then halving the gap to the first that it does not."""

import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

CLOSE_ENOUGH = 0.1  # the gap between the largest that holds and the smallest that does not, as a share of the former


class Tried(Protocol):
    """The outcome of one load."""

    @property
    def within(self) -> bool: ...


T = TypeVar("T", bound=Tried)


class Found(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """`largest` holds and `smallest_not` does not (None: none was tried that does, or does not). `tried`: streams and outcome, in order.

    `stopped_by`: close, limit (of streams), time, nothing (not even one stream holds).
    """

    largest: int | None
    smallest_not: int | None
    tried: list[tuple[int, T]]
    stopped_by: str


def find_largest(start: int, most: int, budget_s: float, attempt: Callable[[int], T], clock: Callable[[], float] = time.monotonic) -> Found[T]:
    """The largest number of streams from 1 to `most` that holds, to CLOSE_ENOUGH, beginning at `start`.

    Each attempt is taken to last as long as the longest before it, and none is begun that would end after `budget_s`; the first always is.
    """
    begun = clock()
    tried: list[tuple[int, T]] = []
    longest_s = 0.0
    largest, smallest_not = 0, most + 1
    streams = min(max(start, 1), most)
    stopped_by = "time"
    while not tried or clock() - begun + longest_s <= budget_s:
        at = clock()
        outcome = attempt(streams)
        longest_s = max(longest_s, clock() - at)
        tried.append((streams, outcome))
        if outcome.within:
            largest = streams
        else:
            smallest_not = streams
        if largest >= most or smallest_not <= 1:
            stopped_by = "limit" if largest else "nothing"
            break
        if largest and smallest_not <= most and smallest_not - largest <= max(largest * CLOSE_ENOUGH, 1):
            stopped_by = "close"
            break
        streams = _next(largest, smallest_not, most)
    return Found(largest=largest or None, smallest_not=smallest_not if smallest_not <= most else None, tried=tried, stopped_by=stopped_by)


def _next(largest: int, smallest_not: int, most: int) -> int:
    if smallest_not > most:  # all that were tried hold
        return min(largest * 2, most)
    if not largest:  # none does
        return smallest_not // 2
    return _rounded((largest + smallest_not) // 2, largest, smallest_not)


def _rounded(middle: int, low: int, high: int) -> int:
    """`middle` as a round number where there is one strictly between `low` and `high`."""
    for unit in (100, 50, 10, 5):
        rounded = round(middle / unit) * unit
        if low < rounded < high and high - low >= 4 * unit:
            return rounded
    return middle
