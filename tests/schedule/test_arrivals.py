"""Due times: the processes' distributions against their formulas, the ramps' sums by hand, and which process a configuration gets."""

import math

import numpy as np
import pytest
from scipy import stats

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.schedule import arrivals
from loadstone.schedule.gamma import Gamma
from loadstone.schedule.immediate import Immediate
from loadstone.schedule.ramp import Ramp


def rng(seed=0):
    return np.random.default_rng(seed)


def gaps_s(process, count, seed=0):
    offsets = process.offsets(count, rng(seed))
    assert offsets.dtype == np.int64 and len(offsets) == count and (np.diff(offsets) >= 0).all()
    return np.diff(offsets, prepend=0) / 1e9


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("rate", [0.5, 50.0])
def test_gaps_are_gamma_with_mean_of_the_rate_whatever_the_burstiness(rate, burstiness):
    gaps = gaps_s(Gamma(rate, burstiness), 40_000)
    assert gaps.mean() == pytest.approx(1 / rate, rel=4 / math.sqrt(burstiness * 40_000))  # four standard errors
    assert gaps.std() / gaps.mean() == pytest.approx(1 / math.sqrt(burstiness), rel=0.05)
    assert stats.kstest(gaps, stats.gamma(burstiness, scale=1 / (rate * burstiness)).cdf).pvalue > 1e-3


def test_burstiness_one_is_poisson():
    gaps = gaps_s(Gamma(10), 20_000)
    assert stats.kstest(gaps, stats.expon(scale=0.1).cdf).pvalue > 1e-3


def test_two_thousand_requests_at_two_hundred_a_second_take_ten_seconds():
    for seed in range(20):
        last = Gamma(200).offsets(2000, rng(seed))[-1] / 1e9
        assert abs(last - 10) < 4 * math.sqrt(2000) / 200


def test_infinite_burstiness_is_a_metronome_without_drift():
    assert Gamma(3, math.inf).offsets(30_000, rng())[-1] == 10_000_000_000_000
    assert Gamma(10, math.inf).offsets(3, rng()).tolist() == [100_000_000, 200_000_000, 300_000_000]


@pytest.mark.parametrize("burstiness", [1e12, 1e300])
def test_huge_burstiness_neither_overflows_nor_vanishes(burstiness):
    assert Gamma(10, burstiness).offsets(10, rng())[-1] == pytest.approx(1e9, rel=1e-4)


def test_linear_ramp_by_hand():
    ramp = Ramp(1, 10, burstiness=math.inf)
    assert ramp.rates(10).tolist() == list(range(1, 11))
    offsets = ramp.offsets(10, rng())
    assert offsets[0] == 1_000_000_000
    assert offsets[-1] == round(sum(1 / rate for rate in range(1, 11)) * 1e9)
    assert offsets[-1] / 1e9 == pytest.approx(2.929, abs=5e-4)


def test_exponential_ramp_by_hand():
    ramp = Ramp(1, 8, exponential=True, burstiness=math.inf)
    assert ramp.rates(4) == pytest.approx([1, 2, 4, 8])
    assert ramp.offsets(4, rng()).tolist() == [1_000_000_000, 1_500_000_000, 1_750_000_000, 1_875_000_000]


@pytest.mark.parametrize("exponential", [False, True])
def test_ramp_of_one_request_has_the_start_rate(exponential):
    assert Ramp(2, 8, exponential, math.inf).offsets(1, rng()).tolist() == [500_000_000]
    assert Ramp(2, 8, exponential).rates(2) == pytest.approx([2, 8])


@pytest.mark.parametrize("exponential", [False, True])
def test_ramp_gaps_divided_by_their_means_are_one_gamma(exponential):
    ramp = Ramp(5, 500, exponential, burstiness=0.5)
    unit = gaps_s(ramp, 20_000) * ramp.rates(20_000)
    assert unit.mean() == pytest.approx(1, rel=0.05)
    assert stats.kstest(unit, stats.gamma(0.5, scale=2).cdf).pvalue > 1e-3


def test_same_seed_same_times():
    for process in (Gamma(7, 0.3), Ramp(1, 9), Ramp(1, 9, exponential=True)):
        assert (process.offsets(500, rng(3)) == process.offsets(500, rng(3))).all()
        assert (process.offsets(500, rng(3)) != process.offsets(500, rng(4))).any()


def test_all_at_once():
    assert Immediate().offsets(3, rng()).tolist() == [0, 0, 0]


def config(**fields):
    return RunConfig(model="m", **fields)


def test_which_process_a_configuration_gets():
    assert arrivals(config()) == Immediate()
    assert arrivals(config(max_concurrency=4)) is None
    assert arrivals(config(request_rate=2.0, burstiness=0.5, max_concurrency=4)) == Gamma(2.0, 0.5)
    ramp = {"ramp_up_start_rps": 1.0, "ramp_up_end_rps": 8.0}
    assert arrivals(config(ramp_up_strategy="linear", burstiness=2.0, **ramp)) == Ramp(1.0, 8.0, exponential=False, burstiness=2.0)
    assert arrivals(config(ramp_up_strategy="exponential", max_concurrency=4, **ramp)) == Ramp(1.0, 8.0, exponential=True)


@pytest.mark.parametrize(
    ("fields", "flag"),
    [
        ({"request_rate": 0.0}, "--request-rate"),
        ({"request_rate": -1.0}, "--request-rate"),
        ({"request_rate": math.nan}, "--request-rate"),
        ({"burstiness": 0.0}, "--burstiness"),
        ({"burstiness": math.nan}, "--burstiness"),
        ({"ramp_up_strategy": "linear", "ramp_up_start_rps": 0.0, "ramp_up_end_rps": 5.0}, "--ramp-up-start-rps"),
        ({"ramp_up_strategy": "exponential", "ramp_up_start_rps": 0.0, "ramp_up_end_rps": 5.0}, "--ramp-up-start-rps"),
        ({"ramp_up_strategy": "linear", "ramp_up_start_rps": 1.0}, "--ramp-up-end-rps"),
        ({"ramp_up_strategy": "linear", "ramp_up_end_rps": 1.0}, "--ramp-up-start-rps"),
        ({"ramp_up_strategy": "linear", "ramp_up_start_rps": 1.0, "ramp_up_end_rps": math.inf}, "--ramp-up-end-rps"),
        ({"ramp_up_strategy": "linear", "ramp_up_start_rps": 9.0, "ramp_up_end_rps": 5.0}, "--ramp-up-start-rps 9"),
        ({"ramp_up_strategy": "linear", "ramp_up_start_rps": 1.0, "ramp_up_end_rps": 5.0, "request_rate": 3.0}, "--request-rate"),
        ({"ramp_up_strategy": "sine", "ramp_up_start_rps": 1.0, "ramp_up_end_rps": 5.0}, "sine"),
        ({"ramp_up_start_rps": 1.0}, "--ramp-up-start-rps and --ramp-up-end-rps need --ramp-up-strategy"),
    ],
)
def test_what_cannot_be_is_refused_by_the_flags_name(fields, flag):
    with pytest.raises(UsageError, match=flag):
        config(**fields).validated()
