"""Loads written in one line: sums by hand, the mean number of arrivals against the integral of the rate, and what cannot be read."""

import math

import numpy as np
import pytest
from scipy import stats

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.schedule import arrivals
from loadstone.schedule.shape import Shape, shape_of


def rng(seed=0):
    return np.random.default_rng(seed)


def seconds(text, burstiness=math.inf, seed=0):
    offsets = shape_of(text, burstiness).offsets(10**9, rng(seed))
    assert offsets.dtype == np.int64 and (np.diff(offsets) >= 0).all()
    return (offsets / 1e9).tolist()


def test_steady_then_faster_by_hand():
    assert seconds("2/s for 2s, 4/s for 1s") == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.25, 2.5, 2.75, 3.0])


def test_a_ramp_by_hand():
    """From 0 to 4/s over 4 s the integral is t^2 / 2: request k comes at sqrt(2 k), eight of them."""
    assert seconds("ramp to 4/s over 4s") == pytest.approx([math.sqrt(2 * k) for k in range(1, 9)])


def test_a_ramp_down_begins_where_the_piece_before_ended():
    """4/s for 1 s, then 4 - 2 t for 2 s, whose integral is 4 t - t^2: four requests more, the first where 4 t - t^2 = 1."""
    found = seconds("4/s for 1s, ramp to 0/s over 2s")
    assert len(found) == 8
    assert found[4] == pytest.approx(1 + 2 - math.sqrt(3)) and found[-1] == pytest.approx(3)


def test_bursts_and_pauses():
    assert seconds("burst of 2, 0/s for 1500ms, burst of 3, 1/s for 1s") == pytest.approx([0, 0, 1.5, 1.5, 1.5, 2.5])
    assert seconds("burst of 3") == [0, 0, 0]


def test_on_and_off():
    """2/s in the first second of each three, for 7 s: seconds 0-1, 3-4 and 6-7."""
    assert seconds("on 2/s for 1s off for 2s, repeat for 7s") == pytest.approx([0.5, 1.0, 3.5, 4.0, 6.5, 7.0])
    assert seconds("on 2/s for 1s off for 2s") == pytest.approx([0.5, 1.0])


def test_a_wave_has_the_mean_of_its_ends_and_its_peak_in_the_middle():
    shape = shape_of("wave 10/s to 50/s every 60s for 2min", math.inf)
    assert (shape.duration_s, shape.expected) == (120, pytest.approx(30 * 120))
    at = shape.offsets(10**9, rng()) / 1e9
    # integral of 10 + 20 (1 - cos(2 pi t / 60)): 30 t - 20 * 60 / (2 pi) * sin(2 pi t / 60)
    counted = 30 * at - 600 / math.pi * np.sin(2 * math.pi * at / 60)
    assert np.abs(counted - np.arange(1, len(at) + 1)).max() < 0.01
    assert np.count_nonzero((at > 25) & (at < 35)) == pytest.approx(10 * 30 + 600 / math.pi * 1.0 * 2 * math.sin(math.pi / 6), abs=2)


@pytest.mark.parametrize("burstiness", [0.5, 1.0, 4.0])
def test_numbers_of_arrivals_are_those_of_the_integral(burstiness):
    """10/s for 20 s and a ramp to 30/s over 10 s: 200 + 200. Of a renewal process the variance of the count is about mean / burstiness."""
    shape = shape_of("10/s for 20s, ramp to 30/s over 10s", burstiness)
    counts = np.array([np.searchsorted(shape.offsets(10**9, rng(seed)), [20_000_000_000, 30_000_000_000]) for seed in range(300)])
    assert counts[:, 0].mean() == pytest.approx(200, abs=4 * math.sqrt(200 / burstiness / 300) + 1)  # and half a gap for the start
    assert counts[:, 1].mean() == pytest.approx(400, abs=4 * math.sqrt(400 / burstiness / 300) + 1)
    assert counts[:, 1].var() == pytest.approx(400 / burstiness, rel=0.35)


def test_burstiness_one_is_the_poisson_process_of_that_rate():
    at = shape_of("ramp to 200/s over 100s", 1.0).offsets(10**9, rng(1)) / 1e9
    stretched = np.diff(at**2, prepend=0)  # the integral of 2 t
    assert stats.kstest(stretched, stats.expon().cdf).pvalue > 1e-3


def test_the_first_requests_are_the_same_whatever_their_number():
    shape = shape_of("50/s for 60s", 1.0)
    assert shape.offsets(100, rng(3)).tolist() == shape.offsets(10**9, rng(3))[:100].tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no piece of a load; write, for example, '10/s for 60s'"),
        ("10/s", "'10/s' is no piece"),
        ("10/s for 60", "'10/s for 60' is no piece"),
        ("-1/s for 60s", "is no piece"),
        ("10/s for 0s", "must last longer than 0 s"),
        ("0/s for 9s", "makes 0 requests: it must be from 1 to 10,000,000"),
        ("1000000/s for 1h", "makes 3.6e"),
        ("10/s for 5s, repeat for 10s", "'repeat for 10s' must follow a piece such as"),
    ],
)
def test_what_cannot_be_read(text, said):
    with pytest.raises(UsageError, match=said):
        shape_of(text)


def test_a_configuration_gets_its_shape():
    process = arrivals(RunConfig(load="2/s for 2s", burstiness=math.inf))
    assert isinstance(process, Shape) and len(process.offsets(10**9, rng())) == 4
    config = RunConfig.from_mapping({"load": "2/s for 2s"})
    assert config.num_prompts == 0  # as many as the load has
    with pytest.raises(UsageError, match="--load says when requests come"):
        RunConfig.from_mapping({"load": "2/s for 2s", "request_rate": 3})
