"""The difference of two estimates: its interval, and how likely chance alone would make one as large.

The interval is recovered from those of the two sides (MOVER; Zou and Donner 2008): with d = b - a it is

    d - sqrt((b - low(b))^2 + (high(a) - a)^2)    to    d + sqrt((high(b) - b)^2 + (a - low(a))^2)

which is Welch's for means, and keeps the skew of a percentile's bounds. The degrees of freedom are Welch's and Satterthwaite's. The p-value is the
level at which the interval begins to hold 0, so that the two never disagree.

Many metrics are looked at together, and one of twenty would be "shown" by chance. Holm's method (1979) holds the level over all of them: the smallest
of n p-values must be below 0.05 / n, the next below 0.05 / (n - 1), and so on until one is not.
"""

import math
from collections.abc import Sequence

from loadstone.compare.estimate import Estimate
from loadstone.metrics.student import quantile, two_sided

LEVEL = 0.05
FAR = 1e6  # standard errors: beyond it any p-value is 0


class Difference:
    """b - a. Without errors on both sides there is neither interval nor p-value."""

    def __init__(self, a: Estimate, b: Estimate) -> None:
        self.a, self.b = a, b
        self.value = b.value - a.value
        self.known = a.error is not None and b.error is not None
        self._df = self._degrees() if self.known else 0.0

    def interval(self, level: float = 1 - LEVEL) -> tuple[float, float] | None:
        """The interval at `level`; None where there is none, for want of an error or of a bound."""
        if not self.known:
            return None
        low, high = self._bounds(quantile(level, self._df))
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None

    def p_value(self) -> float | None:
        """The probability that chance alone makes a difference as large; None without errors."""
        if not self.known:
            return None
        if self.value == 0 or self._holds_zero(0.0):
            return 1.0
        low, high = 0.0, 1.0
        while not self._holds_zero(high):
            low, high = high, 2 * high
            if high > FAR:
                return 0.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self._holds_zero(middle) else (middle, high)
        return two_sided(high, self._df)

    def _holds_zero(self, t: float) -> bool:
        low, high = self._bounds(t)
        return low <= 0 <= high

    def _bounds(self, t: float) -> tuple[float, float]:
        (low_a, high_a), (low_b, high_b) = self.a.bounds(t), self.b.bounds(t)
        a, b = self.a.value, self.b.value
        return self.value - math.hypot(b - low_b, high_a - a), self.value + math.hypot(high_b - b, a - low_a)

    def _degrees(self) -> float:
        variances = []
        for side in (self.a, self.b):
            low, high = side.bounds(1.0)
            variances.append(((high - low) / 2) ** 2)
        least = min(self.a.df, self.b.df)
        if not all(math.isfinite(each) for each in variances) or sum(variances) == 0:
            return least
        scale = sum(variances)  # first, so that nothing is squared to 0
        return 1 / sum((each / scale) ** 2 / side.df for each, side in zip(variances, (self.a, self.b), strict=True))


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which of the differences are shown, all together at `level`."""
    shown = [False] * len(p_values)
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[place] >= level / (len(p_values) - rank):
            break
        shown[place] = True
    return shown
