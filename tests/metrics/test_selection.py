"""Exact order statistics by going through the samples a few times: against a sort."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loadstone.metrics import selection
from loadstone.metrics.selection import Histogram, keys_of, sample_of
from loadstone.metrics.statistics import distribution, pooled_distribution

EDGES = [0, -0.0, 1, -1, 0.5, 1 - 2**-53, 2**44, 2**44 + 2**3, 2**53, 2**62, -(2**62), 5e-324, math.inf, -math.inf, 1e300, 20e6, 20e6 + 1]
floats = st.floats(allow_nan=False) | st.sampled_from(EDGES)
wholes = st.integers(-(2**62), 2**62) | st.sampled_from([int(edge) for edge in EDGES if abs(edge) < 2**63]) | st.integers(20_000_000, 20_000_050)


def split(samples: Any, cuts: list[int]) -> Callable[[], Iterator[Any]]:
    return lambda: iter(np.split(samples, sorted(cut % (len(samples) + 1) for cut in cuts)))


def select(blocks: Callable[[], Iterator[Any]], ranks: list[int]) -> dict[int, float]:
    histogram = Histogram()
    for block in blocks():
        histogram.add(block)
    return histogram.select(blocks, ranks)


@pytest.mark.parametrize("held", [0, 3, 1 << 21])
@given(st.lists(floats, min_size=1, max_size=30) | st.lists(wholes, min_size=1, max_size=30), st.lists(st.integers(0, 30), max_size=4), st.data())
def test_every_rank_is_where_a_sort_puts_it(held: int, samples: list[Any], cuts: list[int], data: Any) -> None:
    values = np.array(samples)
    ranks = data.draw(st.lists(st.integers(0, len(values) - 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "HELD", held)
        found = select(split(values, cuts), ranks)
    ordered = np.sort(values)
    assert found == {rank: float(ordered[rank]) for rank in ranks}


@given(floats, floats)
@example(0.0, -0.0)
def test_keys_order_like_their_samples(a: float, b: float) -> None:
    first, second = keys_of(np.array([a, b])).tolist()
    assert (first < second, first == second) == (a < b, a == b)
    assert sample_of(first) == a


@pytest.mark.parametrize("spread", [0, 3, 2_000_000])
def test_many_samples_however_close(spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All in one bin of the first count, in a few values, or spread out as gaps are: more than may be held, so they are counted again."""
    monkeypatch.setattr(selection, "HELD", 1000)
    held: list[int] = []
    values = np.random.default_rng(1).integers(20_000_000, 20_000_001 + spread, 100_000)
    ordered = np.sort(values)
    monkeypatch.setattr(selection.np, "sort", lambda keys, sort=np.sort: held.append(len(keys)) or sort(keys))
    ranks = [0, 1, 49_999, 50_000, 98_999, 99_999]
    assert select(split(values, [10, 50_000]), ranks) == {rank: ordered[rank] for rank in ranks}
    assert sum(held) <= 1000


def test_only_samples_near_the_wanted_ranks_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_sizes: list[int] = []
    monkeypatch.setattr(selection.np, "sort", lambda keys, sort=np.sort: sorted_sizes.append(len(keys)) or sort(keys))
    values = np.random.default_rng(2).normal(20e6, 2e6, 1_000_000).astype(np.int64)
    found = select(split(values, [300_000, 700_000]), [500_000, 990_000])
    monkeypatch.undo()
    assert found == {rank: np.sort(values)[rank] for rank in (500_000, 990_000)}
    assert 0 < sum(sorted_sizes) < 3000


@given(st.lists(st.integers(0, 10**11), min_size=1, max_size=60), st.lists(st.integers(0, 60), min_size=1, max_size=4))
def test_cutting_whole_samples_changes_no_figure(samples: list[int], cuts: list[int]) -> None:
    values = np.array(samples)
    texts = ["0", "1", "50", "99", "99.9", "100"]
    assert pooled_distribution("itl", "ms", split(values, cuts), texts, 1e6) == distribution("itl", "ms", values, texts, 1e6)


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=60), st.lists(st.integers(0, 60), min_size=1, max_size=4))
def test_cutting_broken_samples_changes_last_digits_of_mean_and_std_at_most(samples: list[float], cuts: list[int]) -> None:
    values = np.array(samples)
    cut, whole = pooled_distribution("itl", "ms", split(values, cuts), ["1", "99"]), distribution("itl", "ms", values, ["1", "99"])
    assert (cut.count, cut.minimum, cut.median, cut.maximum, cut.percentiles) == (
        (whole.count, whole.minimum, whole.median, whole.maximum, whole.percentiles)
    )
    assert (cut.mean, cut.std) == (pytest.approx(whole.mean, rel=1e-12), pytest.approx(whole.std, rel=1e-9, abs=1e-12 * max(samples)))


def test_no_block_and_no_sample() -> None:
    for blocks in ([], [np.zeros(0)], [np.zeros(0, np.int64)] * 3):
        assert pooled_distribution("itl", "ms", lambda blocks=blocks: iter(blocks), ["99"]) == distribution("itl", "ms", np.zeros(0), ["99"])
