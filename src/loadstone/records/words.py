"""Columns of texts: repeated ones as codes into a table, others read where they lie when somebody asks."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from loadstone.records.layout import Times
from loadstone.records.pieces import Piece, text_of


class Words(Sequence[Any]):
    """A column of repeated texts (reasons, models ...), None for none: one small code a row, and the table of those that occur."""

    def __init__(self, codes: NDArray[np.integer], table: Sequence[str | None]) -> None:
        """`codes` into `table`, which may hold more than occurs."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(table)))
        self.table = [table[code] for code in used]
        narrow = np.zeros(len(table), np.min_scalar_type(max(len(used) - 1, 0)))
        narrow[used] = np.arange(len(used))
        self.codes = narrow[codes]

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> list[Any]: ...
    def __getitem__(self, row: int | slice) -> Any:
        return [self.table[code] for code in self.codes[row]] if isinstance(row, slice) else self.table[self.codes[row]]

    def __iter__(self) -> Iterator[Any]:
        return map(self.table.__getitem__, self.codes.tolist())

    def equal(self, word: str | None) -> NDArray[np.bool_]:
        """Which rows hold `word`."""
        return self.codes == self.table.index(word) if word in self.table else np.zeros(len(self.codes), bool)

    def counts(self, rows: NDArray[np.bool_]) -> dict[Any, int]:
        """How many of `rows` hold each word that any of them holds: the most common first, equals in the order in which they first occur."""
        codes = self.codes[rows]
        counts = np.bincount(codes, minlength=len(self.table))
        found = [(-int(counts[code]), int(np.argmax(codes == code)), self.table[code]) for code in np.flatnonzero(counts)]
        return {word: -count for count, _, word in sorted(found, key=lambda each: each[:2])}


class Texts(Sequence[Any]):
    """A column of texts of any length, None for none. Nothing is in memory: each look reads the text from its part."""

    def __init__(self, pieces: Sequence[Piece], order: Times | None, name: str) -> None:
        """`order`: which row of the pieces, one after the other, is row i; None: row i itself."""
        self._pieces, self._order, self._name = pieces, order, name
        self._starts = np.cumsum([0, *(piece.last - piece.first for piece in pieces)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> list[Any]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        row = range(len(self))[row]  # IndexError and negative ones as in any sequence
        place = int(self._order[row]) if self._order is not None else row
        which = int(np.searchsorted(self._starts, place, side="right")) - 1
        piece = self._pieces[which]
        return text_of(piece, place - int(self._starts[which]), self._name)
