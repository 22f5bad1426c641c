"""Estimates that know how far they may be off: means and percentiles of one run's requests, rates over its time, figures over repeated runs.

Requests of one run hang together (a queue, a batch, a busy minute), so their spread alone says too little. All intervals here are by batch means: the
requests, in the order in which they were sent, are cut into batches (20; 10 below 400 requests; none below 100), and the batches' spread gives the
standard error, which holds whatever the requests remember as long as a batch is longer. Gaps between tokens stay with their request: an estimate over
them is a ratio of sums, and its error that of the batches' residuals.

A percentile is bounded through its share (Woodruff 1952): the share of samples at or below it has a standard error by batch means, and the samples at
the shares p - t se and p + t se are its bounds. No density is estimated, and no shape assumed. Where p + t se passes 1 the bound is infinite: p99
of a few hundred requests has none.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.metrics.batch_means import batches_for, cuts, standard_error

Floats = NDArray[np.float64]


class Series(NamedTuple):
    """Samples of one metric in one run. `values` in the order in which requests were sent; `sizes`: how many of them each request has, None: one."""

    values: Floats
    sizes: NDArray[np.int64] | None = None

    @property
    def requests(self) -> int:
        return len(self.values) if self.sizes is None else len(self.sizes)


def joined(series: Sequence[Series]) -> Series:
    """The samples of several runs, one after the other."""
    sizes = [np.ones(len(each.values), np.int64) if each.sizes is None else each.sizes for each in series]
    return Series(np.concatenate([each.values for each in series]), np.concatenate(sizes))


class Estimate:
    """A value with a standard error of `df` degrees of freedom. Without an error (None) it is a bare figure."""

    def __init__(self, value: float, error: float | None = None, df: float = 0.0) -> None:
        self.value, self.error, self.df = value, error, df

    def bounds(self, t: float) -> tuple[float, float]:
        """The bounds at `t` standard errors."""
        assert self.error is not None
        return self.value - t * self.error, self.value + t * self.error


class Quantile(Estimate):
    """A percentile; its error is that of its share."""

    def __init__(self, ordered: Floats, share: float, error: float | None, df: float) -> None:
        super().__init__(_at(ordered, share), error, df)
        self._ordered, self._share = ordered, share

    def bounds(self, t: float) -> tuple[float, float]:
        assert self.error is not None
        low, high = self._share - t * self.error, self._share + t * self.error
        return (_at(self._ordered, low) if low >= 0 else -math.inf), (_at(self._ordered, high) if high <= 1 else math.inf)


def mean(series: Series) -> Estimate:
    """The mean of all samples, pooled."""
    value = float(series.values.mean())
    return Estimate(value, *_error(series, series.values, value))


def percentile(series: Series, p: float) -> Estimate:
    """Percentile `p` (0 to 100), linear between samples. The extremes (0 and 100) are bare figures: nothing bounds them."""
    ordered = np.sort(series.values)
    share = p / 100
    if not 0 < share < 1:
        return Estimate(_at(ordered, share))
    below = (series.values <= _at(ordered, share)).astype(np.float64)
    return Quantile(ordered, share, *_error(series, below, float(below.mean())))


def rate(value: float, bins: Floats) -> Estimate:
    """`value` a second, whose amounts in equal parts of the run were `bins` a second; fewer than ten parts: a bare figure."""
    if len(bins) < 10:
        return Estimate(value)
    return Estimate(value, float(bins.std(ddof=1)) / math.sqrt(len(bins)), len(bins) - 1)


def _error(series: Series, amounts: Floats, ratio: float) -> tuple[float | None, float]:
    """Standard error of the mean of `amounts`, one a sample, and its degrees of freedom."""
    count = batches_for(series.requests)
    if count is None:
        return None, 0.0
    edges = cuts(series.requests, count)
    places = edges if series.sizes is None else np.concatenate(([0], np.cumsum(series.sizes)))[edges]
    sums = np.concatenate(([0.0], np.cumsum(amounts - ratio)))[places]
    return standard_error(np.diff(sums), len(amounts)), count - 1


def _at(ordered: Floats, share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (place - below))


def repeated(value: float, figures: Sequence[float], others: Sequence[float]) -> Estimate:
    """`value` of several runs, with the error that the spread of the runs' `figures` gives. A single run is taken to spread as the `others`, the
    runs of the other side, do; a bare figure where there is no spread to take.
    """
    spread = figures if len(figures) > 1 else others
    if len(spread) < 2:
        return Estimate(value)
    return Estimate(value, float(np.std(spread, ddof=1)) / math.sqrt(len(figures)), len(spread) - 1)
