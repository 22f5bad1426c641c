"""Whether a server kept up: one whose service takes a known time, with arrivals faster and slower than that."""

from collections.abc import Callable

import numpy as np
import pytest

from loadstone.metrics.overload import mann_kendall, overload
from loadstone.metrics.summary import Overload
from loadstone.records import FAILED, Record, Records

Reply = Callable[..., Record]


def served(reply: Reply, arrivals: np.ndarray, service: np.ndarray) -> Records:
    """One server, one request at a time, in order; all times in ms."""
    free, found = 0.0, []
    for number, (at, takes) in enumerate(zip(arrivals, service, strict=True)):
        free = max(free, at) + takes
        found.append(reply(number, sent=at, planned_ns=round(at * 1e6), tokens=[free - at]))
    return Records(found)


def judged(records: Records) -> Overload:
    return overload(records, open_loop=True, constant_rate=True)


def test_too_fast_for_the_server(reply: Reply) -> None:
    found = judged(served(reply, np.arange(1000) * 10.0, np.full(1000, 12.5)))
    assert found.kept_up is False
    assert found.asked_rate == pytest.approx(100, rel=0.01)
    assert found.saturated_at == found.delivered_rate == pytest.approx(80, rel=0.01)
    # due by 9,990 ms: all 1000; over: 9990 / 12.5 = 799. A quarter of the schedule, 2,497.5 ms: 250 due, 199 over
    assert (found.backlog_before, found.backlog_after) == (51, 201)
    # the bins' middles lie at 30 % and 96 % of the schedule: 12.5 + 2.5 ms for each request before, 300 and 962 of them at the medians
    assert found.drift == pytest.approx((12.5 + 2.5 * 961) / (12.5 + 2.5 * 287) - 1, rel=0.02)


def test_slow_enough(reply: Reply) -> None:
    found = judged(served(reply, np.arange(1000) * 10.0, np.full(1000, 9.0)))
    assert found.kept_up is True
    assert found.saturated_at is None
    assert found.delivered_rate == pytest.approx(100, rel=0.01)
    assert found.drift == 0


def test_chance_is_no_overload(reply: Reply) -> None:
    """At 80 % of what the server can do, with random arrivals and services, queues come and go."""
    verdicts = []
    for seed in range(40):
        draw = np.random.default_rng(seed)
        verdicts.append(judged(served(reply, np.cumsum(draw.exponential(10, 1000)), draw.exponential(8, 1000))).kept_up)
    assert verdicts == [True] * 40


def test_a_tenth_too_many_is_seen(reply: Reply) -> None:
    verdicts = []
    for seed in range(20):
        draw = np.random.default_rng(seed)
        verdicts.append(judged(served(reply, np.cumsum(draw.exponential(10, 4000)), draw.exponential(11.5, 4000))).kept_up)
    assert verdicts.count(False) >= 18


def test_refusals_are_no_service(reply: Reply) -> None:
    refused = [
        reply(n, sent=n * 10, planned_ns=n * 10_000_000, status=FAILED, reason="http 429", end_ns=n * 10_000_000 + 1)
        if n % 10 == 0
        else reply(n, sent=n * 10, planned_ns=n * 10_000_000, tokens=[5])
        for n in range(1000)
    ]
    found = judged(Records(refused))
    assert found.kept_up is False
    assert found.refused == 75  # of the 749 or 750 of the judged part, 1 in 10
    assert found.delivered_rate == pytest.approx(90, rel=0.01)


def test_where_nothing_can_be_told(reply: Reply) -> None:
    few = served(reply, np.arange(99) * 10.0, np.full(99, 5.0))
    assert "too few" in judged(few).why
    many = served(reply, np.arange(1000) * 10.0, np.full(1000, 5.0))
    assert "closed loop" in overload(many, open_loop=False, constant_rate=True).why
    assert "constant" in overload(many, open_loop=True, constant_rate=False).why
    slow = Records([reply(n, sent=n, planned_ns=n * 1_000_000, tokens=[5000]) for n in range(1000)])
    assert "too short" in judged(slow).why
    assert all(overload(each, open_loop=True, constant_rate=True).kept_up is None for each in (few, slow))


def test_mann_kendall() -> None:
    assert mann_kendall(np.arange(10.0)) == 45
    assert mann_kendall(np.arange(10.0)[::-1]) == -45
    assert mann_kendall(np.array([1, 3, 2, 4])) == 4  # 6 pairs, one of which falls
    assert mann_kendall(np.array([1, np.nan, 2])) == 1
