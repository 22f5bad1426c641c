"""The steady part: MSER by its definition, and runs whose ramp-up and drain are known."""

from collections.abc import Callable

import numpy as np
import pytest

from loadstone.metrics.series import edges_of, in_flight, tokens_per_s
from loadstone.metrics.steady import settled, steady_window
from loadstone.records import Record, Records

Reply = Callable[..., Record]

S = 1_000_000_000


def test_in_flight_is_the_mean_of_each_bin(reply: Reply) -> None:
    records = Records([reply(0, sent=0, tokens=[1500]), reply(1, sent=500, tokens=[1000])])  # 0 to 1.5 s, 0.5 to 1.5 s
    assert in_flight(records, edges_of(0, 2 * S, 2)).tolist() == [1.5, 1.0]
    assert in_flight(records, edges_of(-S, S, 2)).tolist() == [0.0, 1.5]


def test_tokens_are_counted_where_they_came(reply: Reply) -> None:
    records = Records([reply(0, sent=0, tokens=[100, 200, 1200]), reply(1, sent=500, tokens=[100])])
    assert tokens_per_s(records, edges_of(0, 2 * S, 2)).tolist() == [3.0, 1.0]


def test_mser_by_its_definition() -> None:
    series = np.concatenate((np.linspace(0, 10, 13), 10 + np.random.default_rng(0).normal(0, 1, 87)))
    errors = {(a, b): np.var(series[a : 100 - b]) / (100 - a - b) for a in range(50) for b in range(25)}
    near = [cut for cut, error in errors.items() if error <= 1.1 * min(errors.values())]
    assert settled(series) == min(near, key=sum)
    assert 8 <= min(near, key=sum)[0] <= 16


def test_both_ends_are_left_out() -> None:
    series = np.concatenate((np.linspace(0, 10, 20), 10 + np.random.default_rng(0).normal(0, 0.3, 70), np.linspace(9, 0, 10)))
    before, after = settled(series) or (0, 0)
    assert 17 <= before <= 22
    assert 9 <= after <= 12


def test_what_grows_without_end_does_not_settle() -> None:
    assert settled(np.arange(100.0)) is None
    assert settled(np.full(100, 7.0)) == (0, 0)


def run(reply: Reply, users: int, requests: int, seconds: float) -> Records:
    """Closed loop: `users` start one after another within the first 10 s, each sends `requests` of `seconds` each, one after the other."""
    found: list[Record] = []
    for user in range(users):
        start = 10_000 * user / users
        for turn in range(requests):
            sent = start + turn * seconds * 1000
            found.append(reply(len(found), sent=sent, tokens=[seconds * 1000 * share for share in (0.2, 0.4, 0.6, 0.8, 1.0)]))
    return Records(found)


def test_a_closed_loop_without_its_ramp_up_and_drain(reply: Reply) -> None:
    records = run(reply, users=20, requests=50, seconds=2)
    window = steady_window(records)
    assert window.found
    assert 8 * S <= window.start_ns <= 14 * S  # all users are there from 9.5 s on
    assert 94 * S <= window.end_ns <= 100 * S  # the first user ends at 100 s, its last send was at 98


def test_no_steady_part(reply: Reply) -> None:
    assert "at once" in steady_window(Records([reply(number, sent=0, tokens=[100]) for number in range(60)])).why
    assert "too few" in steady_window(Records([reply(0, sent=0, tokens=[100])])).why
    backlog = Records([reply(number, sent=number * 10, tokens=[100 + number * 20]) for number in range(200)])
    assert "did not settle" in steady_window(backlog).why


@pytest.mark.parametrize("seed", range(5))
def test_a_poisson_load_that_the_server_takes_is_steady_nearly_at_once(reply: Reply, seed: int) -> None:
    times = np.cumsum(np.random.default_rng(seed).exponential(100, 2000))
    window = steady_window(Records([reply(number, sent=at, tokens=[200, 400]) for number, at in enumerate(times)]))
    assert window.found
    assert window.start_ns - times[0] * 1e6 < 0.25 * (times[-1] - times[0]) * 1e6
