"""What the metric families share: a condition on a column, and the gaps between neighbours in a ragged column."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from loadstone.records import Records, Spans, Times, offsets

Mask = NDArray[np.bool_]
Values = TypeVar("Values", Times, Spans)


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


def of_rows(values: Values, sizes: Times, rows: Mask) -> Values:
    """The values of some rows of a ragged column."""
    return values if rows.all() else values[np.repeat(rows, sizes)]


def neighbour_gaps(records: Records, steps: Times, rows: Times) -> Gaps:
    """Gaps between neighbouring times within each completed, streamed request. A row of k times has k - 1 gaps, of none or one time none.

    `steps`: each time less the one before it; of the first of a row anything.
    """
    sizes = np.diff(rows)
    kept = records.completed & records.streamed
    inner = np.ones(len(steps), bool) if kept.all() else np.repeat(kept, sizes)
    inner[rows[:-1][sizes > 0]] = False  # the first time of a row has no neighbour before it
    return Gaps(steps[inner], offsets(np.where(kept, np.maximum(sizes - 1, 0), 0)))
