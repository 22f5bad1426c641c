"""Exact order statistics of more samples than memory holds, by going through them a few times.

The first time they are counted in bins of 1/4096 of their size (4 us wide at 20 ms). That tells in which bin each wanted rank lies; the samples of
those bins alone are collected the second time, and sorted. Where a bin holds too many for that, it is cut into 4096 narrower ones and counted once
more, until it holds few or a single value. Nothing is approximated: what comes out is a sample, the one that a full sort would put there.

A bin is a range of keys. The key of a sample is the bit pattern of its float, which orders like the float itself.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from loadstone.metrics.sums import Samples
from loadstone.records import Times

Blocks = Callable[[], Iterator[Samples]]
"""Gives all samples, block after block, each time it is called. Without nan."""

DIGITS = 12  # binary digits of the key that one time through narrows down by
SHIFT = 52 - DIGITS  # a float has 52 after its leading one
HELD = 1 << 21  # samples that may be collected
MOST = (1 << 63) - 1


def keys_of(samples: Samples) -> Times:
    """Integers in the order of the samples."""
    keys = samples.astype(np.float64).view(np.int64)
    if len(keys) and keys.min() < 0:
        keys = (keys.view(np.float64) + 0.0).view(np.int64)  # -0.0 becomes 0.0
        keys ^= (keys >> 63) & MOST
    return keys


def sample_of(key: int) -> float:
    """The sample of a key."""
    return float(np.int64(key ^ MOST if key < 0 else key).view(np.float64))


_FLOOR = int(keys_of(np.array([1]))[0] >> SHIFT) - 1  # of the first count: all below 1 share the bin 0 ...
_BINS = int(keys_of(np.array([1 << 44]))[0] >> SHIFT) - _FLOOR + 1  # ... and all from 4.9 hours on the last one


class _Bin(NamedTuple):
    """Samples with low <= key < high: how many there are, and how many lie before them."""

    low: int
    high: int
    before: int
    size: int


class Histogram:
    """The first time through: how many samples lie in each of the first bins."""

    def __init__(self) -> None:
        self.counts = np.zeros(_BINS, np.int64)

    def add(self, samples: Samples) -> None:
        self.counts += np.bincount(_first_bin(samples), minlength=_BINS)

    def select(self, blocks: Blocks, ranks: Iterable[int]) -> dict[int, float]:
        """The samples of the 0-based `ranks`. `blocks` gives the samples that were added, in any order."""
        wanted = sorted(set(ranks))
        ends = np.cumsum(self.counts)
        numbers = sorted({int(number) for number in np.searchsorted(ends, wanted, side="right")})
        chosen = np.zeros(_BINS, bool)
        chosen[numbers] = True
        bins = [_Bin(*_range_of(number), int(ends[number] - self.counts[number]), int(self.counts[number])) for number in numbers]

        def close() -> Iterator[Times]:
            for block in blocks():
                near = block[chosen[_first_bin(block)]]
                if len(near):
                    yield keys_of(near)

        while sum(each.size for each in bins if each.high - each.low > 1) > HELD:
            bins = _narrowed(bins, close(), wanted)
        return _values(bins, close(), wanted)


def _first_bin(samples: Samples) -> Times:
    numbers = keys_of(samples)
    numbers >>= SHIFT
    numbers -= _FLOOR
    return np.clip(numbers, 0, _BINS - 1, out=numbers)


def _range_of(number: int) -> tuple[int, int]:
    low = (number + _FLOOR) << SHIFT
    return -MOST - 1 if number == 0 else low, MOST if number == _BINS - 1 else low + (1 << SHIFT)


def _narrowed(bins: list[_Bin], blocks: Iterable[Times], wanted: list[int]) -> list[_Bin]:
    """Each bin cut into 4096, of which those stay that hold a wanted rank."""
    shifts = [max((each.high - each.low - 1).bit_length() - DIGITS, 0) for each in bins]
    counts = [np.zeros(((each.high - 1 - each.low) >> shift) + 1, np.int64) for each, shift in zip(bins, shifts, strict=True)]
    for keys in blocks:
        for each, shift, count in zip(bins, shifts, counts, strict=True):
            inside = keys[(keys >= each.low) & (keys < each.high)]
            distance = inside.view(np.uint64) - np.uint64(each.low % (1 << 64))  # may be more than an int64 holds
            count += np.bincount((distance >> np.uint64(shift)).view(np.int64), minlength=len(count))
    found = []
    for each, shift, count in zip(bins, shifts, counts, strict=True):
        ends = np.cumsum(count) + each.before
        ranks = [rank for rank in wanted if each.before <= rank < each.before + each.size]
        for number in sorted({int(number) for number in np.searchsorted(ends, ranks, side="right")}):
            low = each.low + (number << shift)
            found.append(_Bin(low, min(low + (1 << shift), each.high), int(ends[number] - count[number]), int(count[number])))
    return found


def _values(bins: list[_Bin], blocks: Iterable[Times], wanted: list[int]) -> dict[int, float]:
    open_bins = [each for each in bins if each.high - each.low > 1]
    kept: list[list[Times]] = [[] for _ in open_bins]
    if open_bins:
        for keys in blocks:
            for each, into in zip(open_bins, kept, strict=True):
                into.append(keys[(keys >= each.low) & (keys < each.high)])
    ordered = {each: np.sort(np.concatenate(into)) for each, into in zip(open_bins, kept, strict=True)}
    starts = [each.before for each in bins]
    found = {}
    for rank in wanted:
        each = bins[bisect_right(starts, rank) - 1]
        found[rank] = sample_of(int(ordered[each][rank - each.before]) if each in ordered else each.low)
    return found
