"""The search for the largest load, against clients whose limit is known."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from loadstone.bench.check_find import Found, find_largest


@dataclass
class Outcome:
    within: bool


def search(limit: int, start: int = 100, most: int = 20_000, budget_s: float = 1e9, takes_s: float = 10) -> tuple[Found[Outcome], float]:
    """The search on a client that holds up to `limit` streams, and how long it took by the clock that each attempt moves on."""
    now = [0.0]

    def attempt(streams: int) -> Outcome:
        assert 1 <= streams <= most
        now[0] += takes_s
        return Outcome(streams <= limit)

    return find_largest(start, most, budget_s, attempt, clock=lambda: now[0]), now[0]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 55, 99, 100, 101, 150, 1234, 19_999])
@pytest.mark.parametrize("start", [1, 100, 20_000])
def test_it_comes_within_a_tenth(limit: int, start: int) -> None:
    found, _ = search(limit, start)
    assert found.stopped_by == "close"
    assert found.largest is not None and found.smallest_not is not None
    assert found.largest <= limit < found.smallest_not
    assert found.smallest_not - found.largest <= max(found.largest * 0.1, 1)
    assert len({streams for streams, _ in found.tried}) == len(found.tried)  # nothing is tried twice


def test_it_doubles_first_and_then_takes_round_numbers() -> None:
    found, _ = search(1300)
    assert [streams for streams, _ in found.tried] == [100, 200, 400, 800, 1600, 1200, 1400, 1300]
    assert (found.largest, found.smallest_not) == (1300, 1400)


def test_it_ends_at_what_the_system_allows() -> None:
    found, _ = search(10**9, most=500)
    assert [streams for streams, _ in found.tried] == [100, 200, 400, 500]
    assert (found.largest, found.smallest_not, found.stopped_by) == (500, None, "limit")


def test_it_begins_no_attempt_that_would_end_after_its_time() -> None:
    found, took_s = search(10**9, budget_s=35)
    assert took_s == 30
    assert (found.largest, found.stopped_by) == (400, "time")
    found, took_s = search(10**9, budget_s=1)
    assert (found.largest, found.stopped_by, took_s) == (100, "time", 10)  # the first is always made


def test_a_client_that_holds_nothing() -> None:
    found, _ = search(0)
    assert (found.largest, found.smallest_not, found.stopped_by) == (None, 1, "nothing")
    assert [streams for streams, _ in found.tried] == [100, 50, 25, 12, 6, 3, 1]


def test_outcomes_are_kept_with_their_streams() -> None:
    attempt: Callable[[int], Outcome] = lambda streams: Outcome(streams < 3)  # noqa: E731
    found = find_largest(1, 10, 1e9, attempt)
    assert [(streams, outcome.within) for streams, outcome in found.tried] == [(1, True), (2, True), (4, False), (3, False)]
