"""Student's t distribution, for intervals and tests; scipy is too large to ask of every user for two functions.

P(|T| > t) = I_x(df / 2, 1 / 2) with x = df / (df + t^2), I the regularised incomplete beta function by its continued fraction (Abramowitz and Stegun
26.5.8, evaluated by Lentz's method).
"""

import math
from functools import lru_cache

SMALLEST = 1e-300  # stands for 0 where something is divided by it


def two_sided(t: float, df: float) -> float:
    """P(|T| > |t|) with `df` degrees of freedom, which need not be whole."""
    if math.isinf(t):
        return 0.0
    return _incomplete_beta(df / (df + t * t), df / 2, 0.5)


@lru_cache(maxsize=1024)
def quantile(level: float, df: float) -> float:
    """The t with P(|T| <= t) = `level`: 2.0930 for 0.95 and 19 degrees of freedom."""
    low, high = 0.0, 1.0
    while two_sided(high, df) > 1 - level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, df) > 1 - level else (low, middle)
    return (low + high) / 2


def _incomplete_beta(x: float, a: float, b: float) -> float:
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges quickly on the other side alone
        return 1 - _incomplete_beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    fraction, numerator, denominator = 1.0, 1.0, 0.0
    for step in range(400):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        denominator = 1 / (_not_zero(1 + term * denominator))
        numerator = _not_zero(1 + term / numerator)
        fraction *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-14:
            break
    return front * (fraction - 1)


def _not_zero(value: float) -> float:
    return value if abs(value) > SMALLEST else SMALLEST
