"""Confidence intervals of means and rates by batch means: for samples that hang together, as latencies of neighbouring requests do.

The samples, in the order in which they arose, are cut into batches of (nearly) equal size. Where a batch is longer than the samples remember, batch
means are about independent and normal whatever the samples are, and Student's interval over them holds: mean +- t(b - 1) s / sqrt(b), with s the
standard deviation of the b batch means. 95 %. b is 20 (Schmeiser 1982: 10 to 30 are enough, and fewer batches are longer ones), 10 below 400 samples;
None below 100, where nothing would be left of "longer than the samples remember".

A ratio (tokens by time, gaps pooled over requests) is the ratio of the sums, its interval that of the batches' residuals (Fieller's, linearised).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.metrics.student import quantile

LEAST, SMALL = 100, 400


class Interval(NamedTuple):
    low: float
    high: float


def batches_for(n: int) -> int | None:
    """How many batches `n` samples are cut into; None: too few for any."""
    return None if n < LEAST else 10 if n < SMALL else 20


def cuts(n: int, batches: int) -> NDArray[np.int64]:
    """Where `n` samples are cut: `batches` + 1 places, from 0 to n."""
    return np.linspace(0, n, batches + 1).astype(np.int64)


def standard_error(residuals: NDArray[np.float64], total: float) -> float:
    """Of a ratio whose sizes add up to `total`. `residuals`: of each batch, its amounts less the ratio times its sizes."""
    count = len(residuals)
    return math.sqrt(float((residuals**2).sum()) / (count - 1) * count) / total


def mean_interval(samples: NDArray[np.float64]) -> Interval | None:
    """The interval of the mean of `samples`, which are in the order in which they arose; nan left out. None for too few."""
    known = samples[~np.isnan(samples)]
    return ratio_interval(known, np.ones(len(known)))


def ratio_interval(amounts: NDArray[np.float64], sizes: NDArray[np.float64], batches: int | None = None) -> Interval | None:
    """The interval of sum(amounts) / sum(sizes), pairs in the order in which they arose. None for too few, and where the sizes add up to 0. `batches`
    (10 or 20): these pairs are batches already.
    """
    count = batches or batches_for(len(amounts))
    total = float(sizes.sum())
    if count is None or total <= 0:
        return None
    edges = cuts(len(amounts), count)[:-1]
    tops, bottoms = np.add.reduceat(amounts, edges), np.add.reduceat(sizes, edges)
    ratio = float(amounts.sum()) / total
    half = quantile(0.95, count - 1) * standard_error(tops - ratio * bottoms, total)
    return Interval(ratio - half, ratio + half)
