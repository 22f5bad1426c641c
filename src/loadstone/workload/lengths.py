"""Lengths of synthetic prompts and answers as a mixture in one readable line (--isl-osl), or as a file of pairs.

    1024:128@70, 8192:1024@30                      seven of ten prompts are short
    512-1536:normal(200,50)                        one kind, both lengths drawn
    lognormal(1024,800,16,8192):exponential(200)   a long tail, cut at both ends
    lengths.csv                                    pairs that were seen, drawn again

A kind is INPUT:OUTPUT, with @WEIGHT where there are several; a length is one of

    N                    always N
    A-B                  every whole number from A to B alike
    normal(M,S)          mean M and standard deviation S
    lognormal(M,S)       mean M and standard deviation S (of the length itself, not of its logarithm)
    exponential(M)       mean M

each of the last three with two more numbers, the least and the most, where the distribution is to be cut; else the least is 1. Cut distributions are
conditional ones: nothing piles up at the ends, and the mean moves. Draws are rounded to the nearest whole number. A CSV file has the columns
input_tokens and output_tokens, and weight where the rows are bins of a histogram.

Every request has three uniform draws of its own (kind, input, output) that go through the inverse distribution function: the first k requests are the
same for every number of prompts.
"""

import csv
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import UsageError
from loadstone.workload.seeds import rng_for

Lengths = NDArray[np.int64]
MOST = 100_000_000  # tokens: a larger length is a slip of the finger
_NUMBER = r"(\d+(?:\.\d+)?)"
_FIXED, _EVEN = re.compile(r"\d+"), re.compile(r"(\d+)\s*-\s*(\d+)")
_NAMED = re.compile(rf"(normal|lognormal|exponential)\(\s*{_NUMBER}((?:\s*,\s*{_NUMBER})*)\s*\)")
_KIND = re.compile(r"\s*([^:@]+):([^:@]+?)\s*(?:@\s*([^@\s]+)\s*)?")
COLUMNS = ("input_tokens", "output_tokens")


@dataclass(frozen=True)
class Length:
    """One length's distribution. `shape` is one of even, normal, lognormal, exponential; `least` and `most` are where it is cut."""

    shape: str
    mean: float
    deviation: float = 0.0
    least: int = 1
    most: int = MOST

    def at(self, uniform: NDArray[np.float64]) -> Lengths:
        """The inverse of its distribution function at `uniform`, values from 0 to 1 (exclusive)."""
        if self.shape == "even":
            return self.least + np.floor(uniform * (self.most - self.least + 1)).astype(np.int64)
        low, high = self._share(self.least - 0.5), self._share(self.most + 0.5)
        return np.clip(np.rint(self._inverse(low + uniform * (high - low))), self.least, self.most).astype(np.int64)

    @property
    def possible(self) -> bool:
        """Whether anything is left between the cuts."""
        return self.shape == "even" or self._share(self.most + 0.5) - self._share(self.least - 0.5) > 1e-9

    def _normal(self) -> NormalDist:
        if self.shape == "normal":
            return NormalDist(self.mean, self.deviation)
        variance = math.log1p((self.deviation / self.mean) ** 2)
        return NormalDist(math.log(self.mean) - variance / 2, math.sqrt(variance))

    def _share(self, length: float) -> float:
        """The share of the uncut distribution that is not above `length`."""
        if self.shape == "exponential":
            return -math.expm1(-max(length, 0.0) / self.mean)
        if self.shape == "lognormal":
            return self._normal().cdf(math.log(length)) if length > 0 else 0.0
        return self._normal().cdf(length)

    def _inverse(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        share = np.clip(share, 1e-15, 1 - 1e-15)
        if self.shape == "exponential":
            return np.asarray(-self.mean * np.log1p(-share))
        found = np.fromiter(map(self._normal().inv_cdf, share.tolist()), np.float64, len(share))
        return np.exp(found) if self.shape == "lognormal" else found


@dataclass(frozen=True)
class Mix:
    """Kinds of requests with their weights; or, from a file, one pair a kind."""

    weights: NDArray[np.float64]
    inputs: list[Length] = field(default_factory=list)
    outputs: list[Length] = field(default_factory=list)
    pairs: Lengths | None = None  # shape (kinds, 2)

    def draw(self, number: int, seed: int) -> tuple[Lengths, Lengths]:
        """Input and output lengths of `number` requests."""
        uniform = rng_for(seed, "lengths").random((number, 3))
        bounds = np.cumsum(self.weights) / self.weights.sum()
        kinds = np.minimum(np.searchsorted(bounds, uniform[:, 0], side="right"), len(bounds) - 1)
        if self.pairs is not None:
            return self.pairs[kinds, 0], self.pairs[kinds, 1]
        inputs, outputs = np.empty(number, np.int64), np.empty(number, np.int64)
        for kind, (one, other) in enumerate(zip(self.inputs, self.outputs, strict=True)):
            mine = kinds == kind
            inputs[mine], outputs[mine] = one.at(uniform[mine, 1]), other.at(uniform[mine, 2])
        return inputs, outputs


def mix_of(text: str) -> Mix:
    """The mixture that --isl-osl names. Raises UsageError naming the part that cannot be."""
    if text.strip().lower().endswith(".csv"):
        return _from_file(Path(text.strip()))
    kinds = [_KIND.fullmatch(part) for part in re.split(r",(?![^(]*\))", text)]
    if not all(kinds):
        part = re.split(r",(?![^(]*\))", text)[kinds.index(None)]
        raise UsageError(f"--isl-osl {part.strip()!r}: write INPUT:OUTPUT, and @WEIGHT where there are several, as in '1024:128@70,8192:1024@30'")
    found = [kind for kind in kinds if kind]
    given = [kind[3] is not None for kind in found]
    if any(given) and not all(given):
        raise UsageError(f"--isl-osl {text!r}: give each kind its weight (@70), or none of them")
    return Mix(
        weights=np.array([_weight(kind[3], f"--isl-osl {kind[0].strip()!r}") for kind in found]),
        inputs=[_length(kind[1]) for kind in found],
        outputs=[_length(kind[2]) for kind in found],
    )


def _length(text: str) -> Length:
    text, shown = text.strip(), f"--isl-osl {text.strip()!r}"
    if _FIXED.fullmatch(text):
        return _checked(Length("even", 0, least=int(text), most=int(text)), shown)
    if even := _EVEN.fullmatch(text):
        return _checked(Length("even", 0, least=int(even[1]), most=int(even[2])), shown)
    named = _NAMED.fullmatch(text)
    if not named:
        raise UsageError(
            f"{shown}: a length is N, A-B, normal(MEAN,SD), lognormal(MEAN,SD) or exponential(MEAN), the last three also with least,most"
        )
    numbers = [float(named[2]), *(float(number) for number in re.findall(_NUMBER, named[3]))]
    own = 1 if named[1] == "exponential" else 2
    if len(numbers) not in (own, own + 2):
        raise UsageError(
            f"{shown}: {named[1]} takes {'the mean' if own == 1 else 'mean and standard deviation'}, then least and most if it is to be cut"
        )
    cuts = numbers[own:] or [1, MOST]
    if numbers[0] <= 0 or (own == 2 and numbers[1] <= 0):
        raise UsageError(f"{shown}: the mean and the standard deviation must be above 0; a length that never changes is written as its number")
    if any(cut != int(cut) for cut in cuts):
        raise UsageError(f"{shown}: the least and the most are whole numbers of tokens")
    return _checked(Length(named[1], numbers[0], numbers[1] if own == 2 else 0.0, int(cuts[0]), int(cuts[1])), shown)


def _checked(length: Length, shown: str) -> Length:
    if not 1 <= length.least <= length.most <= MOST:
        raise UsageError(f"{shown}: lengths go from 1 to {MOST:,} tokens, the least first")
    if not length.possible:
        raise UsageError(f"{shown}: next to nothing of this distribution lies from {length.least} to {length.most}")
    return length


def _weight(text: str | None, shown: str) -> float:
    try:
        weight = 1.0 if text is None else float(text.removesuffix("%"))
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise UsageError(f"{shown}: the weight must be a number above 0, not {text!r}")
    return weight


def _from_file(path: Path) -> Mix:
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = csv.DictReader(lines)
            names = [name.strip().lower() for name in rows.fieldnames or []]
            rows.fieldnames = names
            if not set(COLUMNS) <= set(names):
                raise UsageError(f"--isl-osl {path}: the first line must name the columns input_tokens and output_tokens (and weight, if wanted)")
            read = [(_row(row, f"--isl-osl {path}, line {rows.line_num}"), row.get("weight")) for row in rows]
            weights = [_weight(weight.strip() if weight else None, f"--isl-osl {path}, row {number}") for number, (_, weight) in enumerate(read, 1)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"--isl-osl {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not read:
        raise UsageError(f"--isl-osl {path} has no rows")
    return Mix(weights=np.array(weights), pairs=np.array([pair for pair, _ in read], np.int64))


def _row(row: dict[str, str], shown: str) -> tuple[int, int]:
    try:
        found = int(row[COLUMNS[0]]), int(row[COLUMNS[1]])
    except (ValueError, TypeError):
        found = (0, 0)
    if not all(1 <= length <= MOST for length in found):
        raise UsageError(f"{shown}: input_tokens and output_tokens must be whole numbers from 1 to {MOST:,}")
    return found
