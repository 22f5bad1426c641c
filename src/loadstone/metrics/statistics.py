"""Distributions: mean, spread and percentiles of a metric's samples, each percentile with how far it can be trusted.

Percentiles interpolate linearly between order statistics (numpy's default, "type 7") for every metric and place. p0 and p100 are minimum and maximum.

The 95 % confidence interval of a percentile p is distribution-free. With n independent samples the number of them at or below the true percentile
is Binomial(n, p), so [x(l), x(u)] covers it with at least 95 %, where l is the largest rank with P(B < l) <= 2.5 % and u the smallest with P(B >=
u) <= 2.5 %. Where no such rank exists the sample is too small and the bound is None: p99 needs 368 samples, p95 72, p90 36, p50 6. p0 and p100 have
no bounds at any size. Samples that hang together (gaps of one reply, requests of one burst) make the interval too narrow: it is a floor of the
doubt.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from itertools import chain, islice
from typing import NamedTuple

import msgspec
import numpy as np

from loadstone.errors import UsageError
from loadstone.metrics import early_stopping
from loadstone.metrics.batch_means import Interval
from loadstone.metrics.selection import Blocks, Histogram
from loadstone.metrics.summary import Distribution, Percentile
from loadstone.metrics.sums import Moments, Samples

TAIL = 0.025  # probability left out on each side of a 95 % interval


def percent(text: str) -> float:
    """The percentile that `text` names, 0 to 100. Raises UsageError for anything else."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise UsageError(f"--metric-percentiles {text!r}: a percentile is a number from 0 to 100, like 50, 99 or 99.9")
    return value


def distribution(name: str, unit: str, samples: Samples, percentiles: Iterable[str], per_unit: float = 1.0) -> Distribution:
    """The distribution of `samples`, nan left out, in units of `per_unit` (1e6: nanoseconds to ms). All figures None when no sample is left."""
    if samples.dtype.kind == "f":
        samples = samples[~np.isnan(samples)]
    points = {text: percent(text) for text in percentiles}
    moments = Moments()
    moments.add(samples)

    def select(ranks: set[int]) -> dict[int, float]:
        ordered = np.partition(samples, sorted(ranks))  # only the ranks that are read are in place: many times faster than a full sort
        return {rank: float(ordered[rank]) for rank in ranks}

    return _described(name, unit, moments, points, select, per_unit)


def pooled_distribution(name: str, unit: str, blocks: Blocks, percentiles: Iterable[str], per_unit: float = 1.0) -> Distribution:
    """The same of samples that are too many to be held at once. `blocks` is called several times. Without nan."""
    samples = blocks()
    beginning = list(islice(samples, 2))
    if len(beginning) < 2:
        return distribution(name, unit, beginning[0] if beginning else np.zeros(0), percentiles, per_unit)
    points = {text: percent(text) for text in percentiles}
    moments, histogram = Moments(), Histogram()
    for block in chain(beginning, samples):
        moments.add(block)
        histogram.add(block)
    return _described(name, unit, moments, points, partial(histogram.select, blocks), per_unit)


def with_mean_interval(found: Distribution, interval: Interval | None, per_unit: float = 1.0) -> Distribution:
    """`found` with the interval of its mean, which is in the samples' own unit."""
    if interval is None or found.mean is None:
        return found
    return msgspec.structs.replace(found, mean_low=interval.low / per_unit, mean_high=interval.high / per_unit)


def _described(
    name: str, unit: str, moments: Moments, points: dict[str, float], select: Callable[[set[int]], dict[int, float]], per_unit: float
) -> Distribution:
    """`select` gives the samples of 0-based ranks."""
    n = moments.count
    if n == 0:
        return Distribution(name=name, unit=unit, count=0)
    found = select({rank for p in (50.0, *points.values()) for rank in _needed_ranks(n, p)})
    return Distribution(
        name=name,
        unit=unit,
        count=n,
        mean=moments.mean / per_unit,
        std=moments.std / per_unit,
        minimum=moments.minimum / per_unit,
        median=_percentile(found, n, 50.0, per_unit),
        maximum=moments.maximum / per_unit,
        percentiles={text: _percentile(found, n, p, per_unit) for text, p in points.items()},
    )


class RankBounds(NamedTuple):
    """Ranks (1-based) of the order statistics that bound a percentile, None where the sample is too small."""

    low: int | None
    high: int | None


@lru_cache(maxsize=1024)
def rank_bounds(n: int, p: float) -> RankBounds:
    """The ranks of the 95 % interval of percentile `p` (0 to 100) in `n` samples.

    Binomial probabilities come from the ratio of neighbours, P(k + 1) / P(k) = (n - k) / (k + 1) * q / (1 - q), over all k that carry weight, and are
    normalised by their sum: no approximation but the digits of a float, at a cost that grows with the root of n.
    """
    q = p / 100
    if n == 0 or not 0 < q < 1:
        return RankBounds(None, None)
    reach = 12 * math.sqrt(n * q * (1 - q)) + 60  # what lies outside weighs less than 1e-25
    first, last = max(0, math.floor(n * q - reach)), min(n, math.ceil(n * q + reach))
    k = np.arange(first, last, dtype=np.float64)
    logs = np.concatenate(([0.0], np.cumsum(np.log((n - k) / (k + 1)) + math.log(q) - math.log1p(-q))))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    below = np.cumsum(weights)  # P(B <= first + i)
    above = np.cumsum(weights[::-1])[::-1]  # P(B >= first + i)
    low = first + int(np.searchsorted(below, TAIL, side="right"))  # as many k as have P(B <= k) <= TAIL: l - 1 is the last of them
    high = first + int(np.sum(above > TAIL))
    return RankBounds(low if low >= 1 else None, high if high <= n else None)


def needed_samples(p: float) -> int | None:
    """How many samples both bounds of percentile `p` need: least n with max(q, 1 - q) ** n <= 2.5 %. None for p0 and p100: no number will do."""
    rarest = max(p / 100, 1 - p / 100)
    return None if rarest >= 1 else math.ceil(math.log(TAIL) / math.log(rarest))


def _needed_ranks(n: int, p: float) -> list[int]:
    """0-based ranks that percentile `p` and its bounds read."""
    position = (n - 1) * p / 100
    bounds = [rank - 1 for rank in rank_bounds(n, p) if rank is not None]
    early = early_stopping.rank(n, p)
    return [math.floor(position), math.ceil(position), *bounds, *([] if early is None else [early])]


def _percentile(ordered: Mapping[int, float], n: int, p: float, per_unit: float) -> Percentile:
    position = (n - 1) * p / 100
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    low, high = (None if rank is None else ordered[rank - 1] / per_unit for rank in rank_bounds(n, p))
    value = below + (above - below) * (position - math.floor(position))
    early = early_stopping.rank(n, p)
    return Percentile(
        value=value / per_unit,
        low=low,
        high=high,
        needs=needed_samples(p),
        early_stopping=None if early is None else ordered[early] / per_unit,
    )
