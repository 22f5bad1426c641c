"""Loads of any shape in one readable line (--load): a rate that is steady, ramps, waves or comes in bursts, one piece after another.

    10/s for 60s, ramp to 50/s over 120s, 50/s for 300s
    wave 10/s to 50/s every 60s for 10m
    on 40/s for 5s off for 15s, repeat for 10m
    burst of 200, 0/s for 30s, burst of 200

A piece is one of

    R/s for T                   the rate R
    ramp to R/s over T          from the rate before (0 at the beginning) straight to R
    wave A/s to B/s every P for T     A + (B - A) (1 - cos(2 pi t / P)) / 2: from A up to B and back, once every P
    on R/s for T off for U, repeat for V     R during T, nothing during U, again and again
    burst of N                  N requests at once

with times in ms, s, m (or min) or h. Requests arrive by a gamma renewal process in stretched time: unit gaps, as those of Gamma, are laid along the
integral of the rate, so that the mean number of arrivals up to t is that integral, whatever the burstiness; 1 is the Poisson process of that rate,
inf puts the k-th arrival where the integral is k.
"""

import math
import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import UsageError
from loadstone.schedule.base import ArrivalProcess, Offsets
from loadstone.schedule.gamma import NS_PER_S, unit_gaps

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_RATE, _TIME = r"(\d+(?:\.\d+)?)\s*(?:/\s*s|rps)", r"(\d+(?:\.\d+)?\s*(?:ms|s|min|m|h))"
_FORMS = {
    "hold": re.compile(rf"{_RATE} for {_TIME}"),
    "ramp": re.compile(rf"ramp to {_RATE} over {_TIME}"),
    "wave": re.compile(rf"wave {_RATE} to {_RATE} every {_TIME} for {_TIME}"),
    "on": re.compile(rf"on {_RATE} for {_TIME} off for {_TIME}"),
    "repeat": re.compile(rf"repeat for {_TIME}"),
    "burst": re.compile(r"burst of (\d+)"),
}
GRID = 512  # points of a wave's period between which the integral is taken as straight
MOST = 10_000_000  # requests of a run


@dataclass(frozen=True)
class Shape(ArrivalProcess):
    """A rate that goes straight from one value to another between neighbouring times."""

    times_s: NDArray[np.float64]
    rates: NDArray[np.float64]  # shape (pieces, 2): at the start and at the end of each piece between two times
    jumps: NDArray[np.int64]  # requests at once at each time
    burstiness: float = 1.0

    @property
    def duration_s(self) -> float:
        return float(self.times_s[-1])

    @property
    def expected(self) -> float:
        """Mean number of arrivals of the whole load."""
        return float(self._totals()[-1]) + int(self.jumps.sum())

    def offsets(self, count: int, rng: np.random.Generator) -> Offsets:
        """Due times of the load's first `count` requests, fewer if it is over before: int64 nanoseconds from the start of the run, ascending."""
        totals = self._totals()
        steady = self._at(self._marks(float(totals[-1]), rng), totals)
        bursts = np.repeat(self.times_s, self.jumps)
        return np.sort(np.rint(np.concatenate((steady, bursts)) * NS_PER_S).astype(np.int64))[:count]

    def _totals(self) -> NDArray[np.float64]:
        return np.concatenate(([0.0], np.cumsum(np.diff(self.times_s) * self.rates.mean(axis=1))))

    def _marks(self, total: float, rng: np.random.Generator) -> NDArray[np.float64]:
        """Arrivals in stretched time, where one comes each unit: those up to `total`."""
        if math.isinf(self.burstiness):
            return np.arange(1, math.floor(total + 1e-9) + 1, dtype=np.float64)
        marks = np.zeros(1)
        while marks[-1] <= total:
            gaps = unit_gaps(1024 + int(total - marks[-1]), self.burstiness, rng)
            marks = np.concatenate((marks, marks[-1] + np.cumsum(gaps)))
        return marks[1:][marks[1:] <= total]

    def _at(self, marks: NDArray[np.float64], totals: NDArray[np.float64]) -> NDArray[np.float64]:
        """When the integral of the rate reaches each of `marks`: within a piece it is first * t + (last - first) / length * t^2 / 2."""
        piece = np.clip(np.searchsorted(totals, marks, side="left") - 1, 0, len(self.rates) - 1)
        length = np.diff(self.times_s)[piece]
        first, last = self.rates[piece, 0], self.rates[piece, 1]
        need = marks - totals[piece]
        # the root of a t^2 + first t - need that neither cancels nor divides by a slope of 0
        slope = (last - first) / length
        root = first + np.sqrt(np.maximum(first * first + 2 * slope * need, 0))
        within = np.divide(2 * need, root, out=np.zeros_like(need), where=root > 0)
        found: NDArray[np.float64] = self.times_s[piece] + np.minimum(within, length)
        return found


def shape_of(text: str, burstiness: float = 1.0) -> Shape:
    """The load that `text` describes. Raises UsageError naming --load and the piece that cannot be read."""
    times = [0.0]
    rates: list[tuple[float, float]] = []
    bursts: dict[float, int] = {}
    pieces = [" ".join(piece.split()).lower() for piece in text.split(",")]
    for place, piece in enumerate(pieces):
        kind, values = _read(piece, text)
        if kind == "repeat":
            if place == 0 or _read(pieces[place - 1], text)[0] != "on":
                raise UsageError(f"--load: {piece!r} must follow a piece such as 'on 40/s for 5s off for 15s'")
            continue
        if kind == "burst":
            bursts[times[-1]] = bursts.get(times[-1], 0) + int(values[0])
            continue
        before = rates[-1][1] if rates else 0.0
        for seconds, first, last in _spans(kind, values, before, pieces[place + 1 :], text):
            if seconds <= 0:
                raise UsageError(f"--load: {piece!r} must last longer than 0 s")
            times.append(times[-1] + seconds)
            rates.append((first, last))
    if len(times) == 1:  # bursts alone
        times.append(1e-9)
        rates.append((0.0, 0.0))
    jumps = np.array([bursts.get(at, 0) for at in times], np.int64)
    shape = Shape(np.array(times), np.array(rates), jumps, burstiness)
    if not 1 <= shape.expected <= MOST:
        raise UsageError(f"--load {text!r} makes {shape.expected:.6g} requests: it must be from 1 to {MOST:,}")
    return shape


def _read(piece: str, text: str) -> tuple[str, list[float]]:
    for kind, form in _FORMS.items():
        if found := form.fullmatch(piece):
            return kind, [_seconds(part) if part[-1].isalpha() else float(part) for part in found.groups()]
    raise UsageError(
        f"--load {text!r}: {piece!r} is no piece of a load; write, for example, '10/s for 60s', 'ramp to 50/s over 2m', "
        "'wave 10/s to 50/s every 60s for 10m', 'on 40/s for 5s off for 15s, repeat for 10m' or 'burst of 100'"
    )


def _seconds(text: str) -> float:
    number = re.match(r"[\d.]+", text)
    assert number
    return float(number[0]) * _UNITS[text[number.end() :].strip()]


def _spans(kind: str, values: list[float], before: float, following: list[str], text: str) -> list[tuple[float, float, float]]:
    """A piece as (seconds, rate at its start, rate at its end), straight in between."""
    if kind == "hold":
        return [(values[1], values[0], values[0])]
    if kind == "ramp":
        return [(values[1], before, values[0])]
    if kind == "wave":
        low, high, period, seconds = values
        steps = max(round(seconds / period * GRID), 1)
        at = np.linspace(0, seconds, steps + 1)
        level = (low + (high - low) * (1 - np.cos(2 * math.pi * at / period)) / 2).tolist()
        return [(seconds / steps, first, last) for first, last in pairwise(level)]
    rate, on, off = values
    whole = on + off
    if following and (again := _FORMS["repeat"].fullmatch(following[0])):
        whole = _seconds(again[1])
    spans, left = [], whole
    while left > 1e-12:
        for seconds, level in ((on, rate), (off, 0.0)):
            taken = min(seconds, left)
            if taken > 1e-12:
                spans.append((taken, level, level))
            left -= taken
    return spans
