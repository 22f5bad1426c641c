"""Ramps: gamma arrivals whose rate goes from one value to another over the requests of the run.

Request i of n (i = 0 ... n - 1) comes at the rate
    linear:       start + (end - start) * i / (n - 1)
    exponential:  start * (end / start) ** (i / (n - 1))
and one gap after the request before it: Gamma(shape=b, scale=1 / (rate_i * b)) seconds, mean 1 / rate_i. The first request has the start rate, the
last one the end rate; a run of one request has the start rate. The rate follows the request's number, not the time, so low rates last longer.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.schedule.base import ArrivalProcess, Offsets
from loadstone.schedule.gamma import after_gaps, unit_gaps


@dataclass(frozen=True)
class Ramp(ArrivalProcess):
    start: float  # arrivals per second, > 0
    end: float  # >= start
    exponential: bool = False
    burstiness: float = 1.0

    def rates(self, count: int) -> NDArray[np.float64]:
        """Arrivals per second at each of `count` requests."""
        share = np.arange(count) / max(1, count - 1)
        return self.start * (self.end / self.start) ** share if self.exponential else self.start + (self.end - self.start) * share

    def offsets(self, count: int, rng: np.random.Generator) -> Offsets:
        """Due times of `count` requests: int64 nanoseconds from the start of the run, ascending, the first one gap after 0."""
        return after_gaps(unit_gaps(count, self.burstiness, rng) / self.rates(count))
