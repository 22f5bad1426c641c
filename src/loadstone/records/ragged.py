"""Many values a row, packed: each in the fewest bytes that hold nearly all of them, the rest beside them in full. Nothing is rounded.

Times are packed as the step from the one before in their row (the first of a row as it is), in 4 bytes up to 4.29 s; counts of tokens in one byte. A
value that does not fit leaves the highest number as a mark in its place, and its position and its 8 bytes go to a second file, in the same order.
"""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.records.layout import Times

WIDE = np.dtype([("position", "<i8"), ("value", "<i8")])
Wide = NDArray[np.void]


class Form(NamedTuple):
    """How a column is packed: the type of its values, and whether they are steps within their row."""

    dtype: np.dtype[np.unsignedinteger]
    steps: bool

    @property
    def mark(self) -> int:
        return int(np.iinfo(self.dtype).max)


FORMS = {
    "token_ns": Form(np.dtype("<u4"), True),
    "token_counts": Form(np.dtype("u1"), False),
    "server_ns": Form(np.dtype("<u4"), True),
    "server_spans": Form(np.dtype("<u4"), False),
}


def steps_of(values: Times, starts: Times) -> Times:
    """Each value less the one before it in its row; the first of each row as it is. `starts`: where the rows that have a value begin.

    Differences wrap around like int64 itself, and `values_of` wraps them back: no value is too large.
    """
    steps = np.empty_like(values)
    steps[:1] = values[:1]
    np.subtract(values[1:], values[:-1], out=steps[1:])
    steps[starts] = values[starts]
    return steps


def values_of(steps: Times, rows: Times) -> Times:
    """The inverse of `steps_of`, for the row offsets `rows`."""
    total = np.cumsum(steps)
    if len(total):
        before = np.where(rows[:-1] > 0, total[rows[:-1] - 1], 0)
        total -= np.repeat(before, np.diff(rows))
    return total


def pack(values: Times, form: Form, position: int) -> tuple[bytes, bytes]:
    """`values` in `form`, and those that are too large for it in full. `position`: how many values the column has before these."""
    too_large = values.view(np.uint64) >= form.mark  # negative ones too
    packed = values.astype(form.dtype)
    if not too_large.any():
        return packed.tobytes(), b""
    packed[too_large] = form.mark
    places = np.flatnonzero(too_large)
    wide = np.empty(len(places), WIDE)
    wide["position"], wide["value"] = places + position, values[places]
    return packed.tobytes(), wide.tobytes()


def unpack(packed: bytes, form: Form, position: int, wide: Wide) -> Times:
    """The values from `position` on that `packed` holds. `wide`: all of the column that are too large. Raises EOFError where one is missing."""
    narrow = np.frombuffer(packed, form.dtype)
    values = narrow.astype(np.int64)
    if marks := np.count_nonzero(narrow == form.mark):
        positions = wide["position"]  # searched in place: numpy's own search would copy the column, which may be a large mapped file
        first, last = bisect_left(positions, position), bisect_left(positions, position + len(values))
        if last - first != marks:
            raise EOFError(f"{marks} values were too large to be packed, but {last - first} of them are there in full")
        values[wide["position"][first:last] - position] = wide["value"][first:last]
    return values
