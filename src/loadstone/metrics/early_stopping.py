"""MLPerf's early-stopping estimate of a percentile: an upper bound that holds with 99 % confidence, beside the percentile itself.

Of n independent samples let t be above a limit x. The run proves that the true percentile p is at most x when so few above would be rare (1 %) if it
were not: P(Binomial(n, 1 - p) <= t) <= 1 - 0.99. h(t) is the least number of samples at or below the limit with which t above are proof; the estimate
is the sample with the most samples above it that still are: of t >= 1 with h(t) + t <= n the largest t, and the sample of rank n - t (from 0) in
ascending order. None where n is too small for t = 1: p50 needs 11 samples, p90 64, p95 130, p99 662, p99.9 6,636.

Source: MLPerf inference's LoadGen, early_stopping (h by the regularised incomplete beta function: I_p(h, t + 1) <= 1 - c). Samples that hang together
make it optimistic.
"""

import math
from functools import lru_cache

import numpy as np

CONFIDENCE = 0.99


@lru_cache(maxsize=1024)
def allowed_above(n: int, p: float) -> int | None:
    """The largest t >= 1 with h(t) + t <= n for percentile `p` (0 to 100, exclusive); None where there is none.

    h(t) + t <= n means that t of n above are proof, P(Binomial(n, 1 - p) <= t) <= 1 - c: so t is the last place where that sum is small enough.
    """
    above = 1 - p / 100
    if not 0 < above < 1 or n < 1:
        return None
    reach = min(n, math.ceil(n * above + 12 * math.sqrt(n * above * (1 - above)) + 60))
    first = max(0, math.floor(n * above - 12 * math.sqrt(n * above * (1 - above)) - 60))  # what lies outside weighs less than 1e-25
    k = np.arange(first, reach, dtype=np.float64)
    logs = np.concatenate(([0.0], np.cumsum(np.log((n - k) / (k + 1)) + math.log(above) - math.log1p(-above))))
    weights = np.exp(logs - logs.max())
    below = np.cumsum(weights / weights.sum())  # P(B <= first + i)
    proofs = int(np.searchsorted(below, 1 - CONFIDENCE, side="right"))
    allowed = first + proofs - 1
    return allowed if proofs and allowed >= 1 else None


def rank(n: int, p: float) -> int | None:
    """The place, from 0 in ascending order, of the sample that is the estimate of percentile `p`; None where `n` samples are too few."""
    above = allowed_above(n, p)
    return None if above is None else n - above
