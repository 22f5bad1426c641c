"""What the metric families share: a condition on a column, and the gaps between neighbours in a ragged column."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.records import Records, Spans, Times

Mask = NDArray[np.bool_]


class Gaps(NamedTuple):
    """Gaps in nanoseconds, pooled over requests in record order; those of request i are `values[rows[i]:rows[i + 1]]`."""

    values: Times | Spans
    rows: Times

    def of(self, row: int) -> Times | Spans:
        """The gaps of one request."""
        return self.values[self.rows[row] : self.rows[row + 1]]


def only(where: Mask, values: Spans) -> Spans:
    """`values`, nan where the condition does not hold."""
    return np.where(where, values, np.nan)


def offsets(sizes: Times) -> Times:
    """Row offsets of a ragged column from its row sizes: n + 1 numbers from 0."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))


def neighbour_gaps(records: Records, flat: Times, rows: Times) -> Gaps:
    """Gaps between neighbouring times within each completed, streamed request. A row of k times has k - 1 gaps, of none or one time none."""
    sizes = np.diff(rows)
    kept = records.completed & records.streamed
    inner = np.repeat(kept, sizes)
    inner[rows[:-1][sizes > 0]] = False  # the first time of a row has no neighbour before it
    gaps = np.diff(flat, prepend=0)[inner]
    return Gaps(gaps, offsets(np.where(kept, np.maximum(sizes - 1, 0), 0)))
