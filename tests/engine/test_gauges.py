"""Samples stay bounded and fair; the largest is exact."""

import struct
import time

import numpy as np

from loadstone.engine.gauges import MOST, STALL_NS, Gauges, Samples


def test_percentiles_of_few_samples() -> None:
    samples = Samples()
    for value in range(1, 101):
        samples.add(value)
    spread = samples.spread()
    assert (spread.samples, spread.p50_ns, spread.p99_ns, spread.max_ns) == (100, 50, 99, 100)
    assert Samples().spread().p50_ns is None


def test_many_samples_are_thinned_evenly() -> None:
    samples, count = Samples(), MOST * 3
    for value in range(count):
        samples.add(value)
    spread = samples.spread()
    assert spread.samples < MOST and spread.max_ns == count - 1
    assert spread.p50_ns is not None and abs(spread.p50_ns - count / 2) < count * 0.01
    assert spread.p99_ns is not None and abs(spread.p99_ns - count * 0.99) < count * 0.01


def test_a_stall_is_a_long_turn() -> None:
    gauges = Gauges()
    for spent in (10, STALL_NS, STALL_NS + 1):
        gauges.turn(spent)
    health = gauges.health()
    assert health.stalls == 1 and health.turns.max_ns == STALL_NS + 1


def test_read_lateness_is_the_age_of_the_stamp() -> None:
    gauges = Gauges()
    gauges.read(struct.pack("=qq", *divmod(time.time_ns() - 7_000_000, 10**9)))
    spread = gauges.health().read_late
    assert spread.max_ns is not None and 7_000_000 <= spread.max_ns < 7_000_000 + 10**9
    assert np.isfinite(gauges.health().wall_s)
