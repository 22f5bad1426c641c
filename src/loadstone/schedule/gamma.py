"""Gamma arrivals: independent gaps with a given mean and burstiness.

Gaps are Gamma(shape=b, scale=1 / (rate * b)) seconds: mean 1 / rate for every b, coefficient of variation 1 / sqrt(b).
b = 1 is the Poisson process, b < 1 clusters requests, b > 1 spaces them out; b = inf is a metronome. The gaps are not scaled to make the last request
land at count / rate: the process is what it says, and the rate that came of it is reported.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.schedule.base import ArrivalProcess, Offsets

NS_PER_S = 1e9


@dataclass(frozen=True)
class Gamma(ArrivalProcess):
    rate: float  # mean arrivals per second, > 0, finite
    burstiness: float = 1.0  # shape b, > 0; inf for equal gaps

    def offsets(self, count: int, rng: np.random.Generator) -> Offsets:
        """Due times of `count` requests: int64 nanoseconds from the start of the run, ascending, the first one gap after 0."""
        return after_gaps(unit_gaps(count, self.burstiness, rng) / self.rate)


def unit_gaps(count: int, burstiness: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """`count` gaps of mean 1 and coefficient of variation 1 / sqrt(burstiness)."""
    return np.ones(count) if math.isinf(burstiness) else rng.standard_gamma(burstiness, count) / burstiness


def after_gaps(gaps_s: NDArray[np.float64]) -> Offsets:
    """Due times when each request comes one gap (in seconds) after the one before it, the first one gap after 0; to the nearest nanosecond."""
    return np.rint(np.cumsum(gaps_s) * NS_PER_S).astype(np.int64)
