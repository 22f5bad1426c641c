"""The statistics of a comparison against scipy, against values worked out by hand, and against runs that are known to be alike or not."""

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from loadstone.compare.difference import Difference, holm
from loadstone.compare.estimate import Estimate, Series, joined, mean, percentile, rate, repeated
from loadstone.metrics.student import quantile, two_sided

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from compare_level import SHAPES, simulate


@pytest.mark.parametrize("df", [1.0, 2.5, 9.0, 19.0, 38.0, 400.0])
def test_student_is_scipys(df: float) -> None:
    for t in (0.0, 0.1, 1.0, 2.0, 5.0, 20.0):
        assert two_sided(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-9)
    for level in (0.5, 0.95, 0.999):
        assert quantile(level, df) == pytest.approx(stats.t.ppf((1 + level) / 2, df), rel=1e-9)


def test_repeats_are_welchs_test() -> None:
    a, b = [101.0, 99.5, 103.2, 98.8], [105.1, 108.3, 102.9]
    found = Difference(repeated(float(np.mean(a)), a, b), repeated(float(np.mean(b)), b, a))
    truth = stats.ttest_ind(b, a, equal_var=False)
    interval = truth.confidence_interval(0.95)
    assert found.p_value() == pytest.approx(truth.pvalue, rel=1e-6)
    assert found.interval() == pytest.approx((interval.low, interval.high), rel=1e-6)


def test_a_single_run_spreads_as_the_repeats_of_the_other_side() -> None:
    """A new observation against 4: t = 6 / (s sqrt(1 + 1/4)) with 3 degrees of freedom on each side, so Welch's 1 / (0.8^2 / 3 + 0.2^2 / 3)."""
    a = [98.0, 102.0, 99.0, 101.0]
    found = Difference(repeated(100.0, a, [106.0]), repeated(106.0, [106.0], a))
    t, df = 6 / (np.std(a, ddof=1) * math.sqrt(1.25)), 3 / (0.8**2 + 0.2**2)
    assert found.p_value() == pytest.approx(2 * stats.t.sf(t, df), rel=1e-6)


def test_two_single_figures_have_no_interval() -> None:
    found = Difference(repeated(1.0, [1.0], [2.0]), repeated(2.0, [2.0], [1.0]))
    assert found.value == 1 and found.interval() is None and found.p_value() is None


def test_the_error_of_a_mean_by_hand() -> None:
    """100 requests in 10 batches of 10: batch means 0, 1, ..., 9, standard deviation 3.0277, by the root of 10."""
    found = mean(Series(np.repeat(np.arange(10.0), 10)))
    assert found.value == 4.5 and found.df == 9
    assert found.error == pytest.approx(np.std(np.arange(10), ddof=1) / math.sqrt(10))
    assert mean(Series(np.arange(99.0))).error is None


def test_gaps_stay_with_their_request() -> None:
    """Replies of 4 equal gaps each say as much as one gap each: the error is that of the requests, not of four times as many."""
    values = np.random.default_rng(3).exponential(size=400)
    one, four = mean(Series(values)), mean(Series(np.repeat(values, 4), np.full(400, 4)))
    assert four.error == pytest.approx(one.error) and four.value == pytest.approx(one.value)
    uneven = np.repeat([1, 3], 50)  # the first five batches of ten requests hold 10 gaps each, the others 30
    gaps = np.arange(200.0)
    edges, sizes = [0, 10, 20, 30, 40, 50, 80, 110, 140, 170, 200], np.repeat([10, 30], 5)
    sums = np.array([gaps[start:end].sum() for start, end in itertools.pairwise(edges)])
    residuals = sums - 99.5 * sizes
    assert mean(Series(gaps, uneven)).error == pytest.approx(math.sqrt((residuals**2).sum() / 9 * 10) / 200)
    p99 = percentile(Series(np.repeat(values, 4), np.full(400, 4)), 99)
    assert p99.error == pytest.approx(percentile(Series(values), 99).error, rel=0.5)


def test_a_percentile_is_numpys_and_needs_samples_beyond_it() -> None:
    values = np.random.default_rng(4).lognormal(size=300)
    for p in (0, 50, 99, 100):
        assert percentile(Series(values), p).value == pytest.approx(np.percentile(values, p))
    assert percentile(Series(values), 100).error is None
    assert percentile(Series(values), 99).bounds(5.0)[1] == math.inf
    assert Difference(percentile(Series(values), 99), percentile(Series(2 * values), 99)).interval() is None


def test_rates_by_hand() -> None:
    found = rate(10.0, np.arange(5.5, 15.5))
    assert (found.value, found.df) == (10.0, 9) and found.error == pytest.approx(math.sqrt(82.5 / 9 / 10))
    assert rate(10.0, np.ones(9)).error is None


def test_runs_are_joined_sample_by_sample() -> None:
    both = joined([Series(np.arange(3.0)), Series(np.arange(4.0), np.array([1, 3]))])
    assert both.values.tolist() == [0, 1, 2, 0, 1, 2, 3] and both.sizes is not None and both.sizes.tolist() == [1, 1, 1, 1, 3]


def test_holm_by_hand() -> None:
    """0.01 < 0.05 / 4 and 0.013 < 0.05 / 3, but 0.03 is not below 0.05 / 2: it and all after it are not shown."""
    assert holm([0.03, 0.01, 0.04, 0.013]) == [False, True, False, True]
    assert holm([]) == []


def test_a_constant_has_no_doubt() -> None:
    same, other = Estimate(5.0, 0.0, 9), Estimate(6.0, 0.0, 9)
    assert Difference(same, same).p_value() == 1.0 and Difference(same, other).p_value() == 0.0


@pytest.mark.parametrize("shape", SHAPES)
def test_level_and_power(shape: str) -> None:
    """The quick form of benchmarks/compare_level.py: 60 pairs of 1,000 requests. Alike runs: at most 5 % of tables should show something; 9 or more
    of 60 would come of a level of 5 % once in 500 times.
    """
    found = simulate(SHAPES[shape], 1000, 60, seed=7)
    assert found["table"] * 60 < 9 and found["coverage"] > 0.85
    if shape == "lognormal":
        assert found["found mean"] > 0.5  # a shift of 5 % at 1,000 requests
