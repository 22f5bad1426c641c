"""Mean and spread of many samples, block after block.

Whole numbers (gaps in nanoseconds) are summed without any rounding: mean = S1 / n and variance = (n S2 - S1^2) / n^2, with S1 the sum and S2 the sum
of squares as integers of any size. So the figures do not depend on how the samples are cut into blocks. Broken numbers (gaps shared over tokens) are
merged from the mean and the sum of squared deviations of each block (Chan, Golub and LeVeque), which loses nothing to cancellation; another cut may
change their last digits.
"""

import math

import numpy as np
from numpy.typing import NDArray

from loadstone.records import Times

Samples = NDArray[np.float64] | NDArray[np.int64]
PART = 1 << 14  # samples that are summed at a time
SMALL = 1 << 40  # below this in size, the sums of PART samples, cut into 16 bits and the rest, fit 64 bits


class Moments:
    """Number, mean, standard deviation (of the population), minimum and maximum of all samples added so far. No nan among them."""

    def __init__(self) -> None:
        self.count = 0
        self.minimum, self.maximum = math.inf, -math.inf
        self._exact: tuple[int, int] | None = (0, 0)
        self._mean, self._deviations = 0.0, 0.0

    def add(self, samples: Samples) -> None:
        if not len(samples):
            return
        self.minimum, self.maximum = min(self.minimum, float(samples.min())), max(self.maximum, float(samples.max()))
        if samples.dtype.kind == "i" and self._exact is not None:
            for first in range(0, len(samples), PART):
                s1, s2 = exact_sums(samples[first : first + PART].astype(np.int64, copy=False))
                self._exact = self._exact[0] + s1, self._exact[1] + s2
            self.count += len(samples)
        else:
            self._merge(np.asarray(samples, np.float64))

    def _merge(self, samples: NDArray[np.float64]) -> None:
        if self.count and self._exact is not None:
            self._mean, self._deviations = self.mean, self.std**2 * self.count
        self._exact = None
        count, total = len(samples), self.count + len(samples)
        mean = float(samples.mean())
        step = mean - self._mean
        self._mean += step * (count / total)
        self._deviations += float(np.square(samples - mean).sum()) + step * step * (self.count * count / total)
        self.count = total

    @property
    def mean(self) -> float:
        return self._mean if self._exact is None else self._exact[0] / self.count

    @property
    def std(self) -> float:
        if self._exact is None:
            return math.sqrt(self._deviations / self.count)
        s1, s2 = self._exact
        return math.sqrt((self.count * s2 - s1 * s1) / self.count**2)


def exact_sums(samples: Times) -> tuple[int, int]:
    """The sum and the sum of squares of at most PART integers, exactly."""
    s1 = s2 = 0
    if max(-int(samples.min()), int(samples.max())) >= SMALL:
        large = (samples >= SMALL) | (samples <= -SMALL)
        others = samples[large].tolist()
        s1, s2 = sum(others), sum(each * each for each in others)
        samples = samples[~large]
    high, low = samples >> 16, samples & 0xFFFF
    s1 += int(samples.sum())
    s2 += (int(np.dot(high, high)) << 32) + (int(np.dot(high, low)) << 17) + int(np.dot(low, low))
    return s1, s2
