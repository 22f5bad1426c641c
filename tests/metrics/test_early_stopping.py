"""MLPerf's early stopping: its published sizes, and scipy's binomial."""

import pytest
from scipy.stats import binom  # type: ignore[import-untyped]

from loadstone.metrics.early_stopping import allowed_above


@pytest.mark.parametrize(
    ("p", "t", "n"),
    [
        *[(90.0, t, n) for t, n in [(1, 64), (2, 81), (5, 127), (10, 197), (20, 325), (50, 681), (100, 1246)]],
        *[(95.0, t, n) for t, n in [(1, 130), (2, 165), (5, 259), (10, 398), (20, 656), (50, 1372), (100, 2504)]],
        *[(99.0, t, n) for t, n in [(1, 662), (2, 838), (5, 1307), (10, 2010), (20, 3304), (50, 6898), (100, 12571)]],
        *[(50.0, 1, 11), (75.0, 1, 24), (99.9, 1, 6636)],
    ],
)
def test_the_sizes_at_which_one_more_may_lie_above(p: float, t: int, n: int) -> None:
    assert allowed_above(n, p) == t
    assert allowed_above(n - 1, p) == (t - 1 if t > 1 else None)


@pytest.mark.parametrize("n", [700, 5_000, 123_457])
@pytest.mark.parametrize("p", [50.0, 99.0, 99.9])
def test_it_is_the_last_that_is_proof(n: int, p: float) -> None:
    t = allowed_above(n, p)
    if t is None:
        assert binom.cdf(1, n, 1 - p / 100) > 0.01
        return
    assert binom.cdf(t, n, 1 - p / 100) <= 0.01 < binom.cdf(t + 1, n, 1 - p / 100)


def test_ends_have_none() -> None:
    assert allowed_above(1000, 100.0) is None
    assert allowed_above(1000, 0.0) is None
    assert allowed_above(0, 99.0) is None
