"""Mean and spread against fractions, however the samples are cut."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.metrics.sums import PART, SMALL, Moments, exact_sums

wholes = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, SMALL, SMALL - 1, -SMALL, 1 - SMALL, 2**16]) | st.integers(0, 10**11)


def moments(*blocks: Any) -> Moments:
    found = Moments()
    for block in blocks:
        found.add(block)
    return found


@given(st.lists(wholes, min_size=1, max_size=20))
def test_sums_of_integers_are_exact(samples: list[int]) -> None:
    assert exact_sums(np.array(samples, np.int64)) == (sum(samples), sum(each * each for each in samples))


@pytest.mark.parametrize("value", [SMALL - 1, 1 - SMALL, 65535, -1])
def test_the_largest_part_of_the_largest_values_overflows_nothing(value: int) -> None:
    assert exact_sums(np.full(PART, value)) == (PART * value, PART * value * value)


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=20), st.integers(0, 20))
def test_whole_numbers_whatever_the_cut(samples: list[int], cut: int) -> None:
    found = moments(np.array(samples[:cut], np.int64), np.array(samples[cut:], np.int64))
    mean = Fraction(sum(samples), len(samples))
    assert (found.count, found.minimum, found.maximum) == (len(samples), min(samples), max(samples))
    assert found.mean == float(mean)
    assert found.std == math.sqrt(sum((each - mean) ** 2 for each in samples) / len(samples))


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_broken_numbers(samples: list[float], a: int, b: int) -> None:
    values = np.array(samples)
    found = moments(*np.split(values, sorted((min(a, len(values)), min(b, len(values))))))
    assert found.mean == pytest.approx(values.mean(), rel=1e-9, abs=1e-6)
    assert found.std == pytest.approx(values.std(), rel=1e-9, abs=1e-5)


def test_small_spread_around_a_large_mean_is_not_lost() -> None:
    """The difference of two large sums would leave nothing of a spread of half a nanosecond at a day."""
    day = 86_400 * 10**9
    assert moments(np.array([day, day + 1] * 5000)).std == 0.5
    blocks = [np.array([day, day + 1.0]) for _ in range(5000)]
    assert moments(*blocks).std == pytest.approx(0.5, rel=1e-9)


def test_whole_and_broken_numbers_together() -> None:
    found = moments(np.array([1, 2]), np.array([2.5]), np.array([4]), np.zeros(0))
    assert (found.count, found.minimum, found.maximum) == (4, 1, 4)
    assert (found.mean, found.std) == (pytest.approx(np.mean([1, 2, 2.5, 4])), pytest.approx(np.std([1, 2, 2.5, 4])))
