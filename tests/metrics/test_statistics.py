"""Percentiles against numpy, their intervals against scipy's binomial, and the sizes that definitions.md states."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from loadstone.errors import UsageError
from loadstone.metrics.statistics import distribution, needed_samples, percent, rank_bounds

TEXTS = ["0", "1", "25", "50", "90", "95", "99", "99.9", "100"]


def found(samples: list[float], *percentiles: str) -> list[float]:
    points = distribution("x", "ms", np.array(samples, np.float64), percentiles).percentiles
    return [points[text].value for text in percentiles]


def test_few_samples_by_hand() -> None:
    assert found([42], "0", "50", "99.9", "100") == [42] * 4
    assert found([30, 10, 20], "50", "90", "99") == pytest.approx([20, 28, 29.8])
    assert found(list(range(1, 101)), "50", "90", "99", "0", "100") == pytest.approx([50.5, 90.1, 99.01, 1, 100])


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=400))
def test_everything_against_numpy(samples: list[float]) -> None:
    values = np.array(samples)
    one = distribution("x", "ms", values, TEXTS)
    assert one.median is not None
    assert (one.count, one.minimum, one.maximum) == (len(values), values.min(), values.max())
    assert (one.mean, one.std) == (pytest.approx(values.mean()), pytest.approx(values.std()))
    assert one.median.value == pytest.approx(np.median(values))
    for text in TEXTS:
        assert one.percentiles[text].value == pytest.approx(np.percentile(values, float(text)), rel=1e-12)


def test_integers_and_units() -> None:
    one = distribution("ttft", "ms", np.array([300_000_000, 500_000_000]), ["50"], per_unit=1e6)
    assert (one.mean, one.minimum, one.percentiles["50"].value) == (400, 300, 400)


def test_nan_is_no_sample() -> None:
    """40 records, 30 of them with a TTFT of 300: minimum, p25 and mean are 300, over 30 samples."""
    one = distribution("ttft", "ms", np.array([300.0] * 30 + [np.nan] * 10), ["25"])
    assert (one.count, one.minimum, one.mean, one.percentiles["25"].value) == (30, 300, 300, 300)


def test_no_sample_is_absent_never_zero() -> None:
    for empty in (np.zeros(0), np.full(5, np.nan), np.zeros(0, np.int64)):
        one = distribution("x", "ms", empty, TEXTS)
        assert (one.count, one.mean, one.std, one.minimum, one.median, one.maximum, one.percentiles) == (0, None, None, None, None, None, {})


@pytest.mark.parametrize("text", ["101", "-1", "100.01", "nan", "inf", "p99", "", "9 9", "1e400"])
def test_what_is_no_percentile_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--metric-percentiles"):
        percent(text)


def test_sizes_that_bound_a_percentile() -> None:
    assert [needed_samples(p) for p in (50, 90, 95, 99, 99.9, 10)] == [6, 36, 72, 368, 3688, 36]
    assert needed_samples(0) is needed_samples(100) is None
    for p in (50, 90, 95, 99, 99.9, 10, 1):
        n = needed_samples(p)
        assert n is not None
        assert None not in rank_bounds(n, p)
        assert None in rank_bounds(n - 1, p)


def test_ranks_from_the_literature() -> None:
    assert rank_bounds(20, 50) == (6, 15)
    assert rank_bounds(100, 90) == (84, 96)
    assert [rank_bounds(n, 99) for n in (500, 1000, 5000)] == [(490, 500), (983, 997), (4936, 4964)]


@pytest.mark.parametrize("p", [0.1, 1, 10, 25, 50, 75, 90, 95, 99, 99.9])
@pytest.mark.parametrize("n", [*range(1, 60), 72, 368, 1000, 3688, 12_345, 1_000_000, 20_000_000])
def test_ranks_against_scipy(n: int, p: float) -> None:
    """l is the largest rank with P(B < l) <= 2.5 %, u the smallest with P(B >= u) <= 2.5 %."""
    low, high = rank_bounds(n, p)
    b = binom(n, p / 100)
    least = low or 0
    assert b.cdf(least - 1) <= 0.025 < b.cdf(least)
    most = high if high is not None else n + 1
    assert b.sf(most - 1) <= 0.025 < b.sf(most - 2)


def test_the_interval_reads_the_order_statistics() -> None:
    samples = np.random.default_rng(0).permutation(np.arange(1.0, 501.0))  # the k-th smallest is k
    point = distribution("x", "ms", samples, ["99"]).percentiles["99"]
    assert (point.low, point.high, point.needs) == (490, 500, 368)
    small = distribution("x", "ms", samples[:100], ["99"]).percentiles["99"]
    assert small.high is None and small.low is not None


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    truth = -np.log(1 - 0.9)  # p90 of the exponential
    points = [distribution("x", "ms", rng.exponential(size=200), ["90"]).percentiles["90"] for _ in range(1000)]
    covered = sum(point.low <= truth <= point.high for point in points if point.low is not None and point.high is not None)
    assert 0.94 <= covered / 1000 <= 0.985  # at least 95 %, less three standard errors of a thousand trials


def test_the_extremes_have_no_interval() -> None:
    one = distribution("x", "ms", np.arange(1000.0), ["0", "100"])
    for point in one.percentiles.values():
        assert (point.low, point.high, point.needs) == (None, None, None)
