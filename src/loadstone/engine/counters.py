"""Counters of a run in memory that its processes share: written by one process each, read by any, never locked.

A file mapped by all of them, one row of int64 a process. An aligned 8-byte store is whole on every machine that Python runs on.
"""

import mmap
from enum import IntEnum
from pathlib import Path


class Count(IntEnum):
    """Columns of a worker's row; the decoder has a row of its own kind (see Decoded)."""

    SENT = 0
    ENDED = 1  # exchanges over, whatever their end
    READS = 2
    SEGMENT = 3  # spool segment being written
    SPOOLED = 4  # exchanges in the spool
    UNSTAMPED = 5  # reads without a kernel stamp
    DECODED_BYTES = 6  # of this worker's spool; written by the decoder
    CONNECTIONS = 7  # opened
    REPLACED = 8  # stale connections replaced
    SPOOLED_BYTES = 9
    REDIRECTED = 10  # redirects followed


class Decoded(IntEnum):
    """Columns of the decoder's row."""

    COMPLETED = 0
    FAILED = 1
    CANCELLED = 2
    OUTPUT_TOKENS = 3


ROW = 16


class Counters:
    """Row 0 is the decoder's, row 1 + w that of worker w."""

    def __init__(self, path: Path, rows: int | None = None) -> None:
        if rows is not None:
            path.write_bytes(bytes(rows * ROW * 8))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._view = memoryview(self._map).cast("q")
        self.rows = len(self._view) // ROW

    def row(self, number: int) -> memoryview:
        """One process's counters, by column."""
        return self._view[number * ROW : (number + 1) * ROW]

    def total(self, column: Count) -> int:
        """A column summed over the workers."""
        return int(sum(self._view[number * ROW + column] for number in range(1, self.rows)))
