"""Batch means: Student's interval by hand, and its coverage on samples that hang together."""

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from loadstone.metrics.batch_means import mean_interval, ratio_interval
from loadstone.metrics.student import quantile


def test_students_points() -> None:
    assert [quantile(0.95, b) for b in (9, 19)] == [pytest.approx(stats.t.ppf(0.975, b), abs=1e-9) for b in (9, 19)]


def test_equal_batches_are_students_interval_over_their_means() -> None:
    samples = np.random.default_rng(1).normal(10, 2, 4000)
    means = samples.reshape(20, 200).mean(axis=1)
    low, high = stats.t.interval(0.95, 19, means.mean(), stats.sem(means))
    assert mean_interval(samples) == pytest.approx((low, high))


def test_a_ratio_of_constants_has_no_doubt() -> None:
    sizes = np.arange(1, 401, dtype=float)
    assert ratio_interval(3 * sizes, sizes) == pytest.approx((3, 3))


def test_too_few_have_none() -> None:
    assert mean_interval(np.ones(99)) is None
    assert mean_interval(np.full(500, np.nan)) is None
    assert mean_interval(np.ones(100)) == (1, 1)
    assert ratio_interval(np.ones(500), np.zeros(500)) is None


def test_it_covers_the_mean_of_correlated_samples_where_the_plain_interval_does_not() -> None:
    rng = np.random.default_rng(2)
    trials, n, rho = 400, 2000, 0.8
    noise = rng.normal(size=(trials, n)) * np.sqrt(1 - rho**2)
    series = np.empty((trials, n))
    series[:, 0] = rng.normal(size=trials)
    for step in range(1, n):
        series[:, step] = rho * series[:, step - 1] + noise[:, step]
    latencies = np.exp(0.5 * series)  # lognormal, correlated; true mean exp(0.125)
    truth = np.exp(0.125)
    covered = np.mean([low <= truth <= high for low, high in filter(None, map(mean_interval, latencies))])
    plain = np.mean([abs(row.mean() - truth) <= 1.96 * row.std() / np.sqrt(n) for row in latencies])
    assert covered > 0.92
    assert plain < 0.6
