"""Runs of rows, over one part or several: their columns, their share of the ragged columns, their cutting into blocks."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadstone.records.layout import COUNTS, MADE, RAGGED, TEXTS, TIMES, WORDS, Rows, Times
from loadstone.records.parts import Part

CHUNK_ROWS = 1 << 13  # rows that are read at a time


class Piece(NamedTuple):
    """Rows first to last - 1 of one part."""

    part: Part
    first: int
    last: int


def read_index(pieces: Sequence[Piece]) -> Times:
    """The index of every row, pieces one after the other."""
    return np.concatenate([np.zeros(0, np.int64), *(rows["index"] for _, rows in _chunks(pieces))])


def read_columns(pieces: Sequence[Piece], order: Times | None) -> dict[str, NDArray[Any]]:
    """The columns of one value a row: all but `index`, ragged columns as their sizes, words as codes into the table of `joined_words`.

    `order`: which row of the pieces, one after the other, becomes row i; None: row i itself.
    """
    count = sum(piece.last - piece.first for piece in pieces)
    columns: dict[str, NDArray[Any]] = {name: np.empty(count, np.int64) for name in (*TIMES, *RAGGED, *MADE, "merged_reads", "attempts")}
    columns |= {name: np.empty(count, np.float64) for name in COUNTS}
    columns |= {name: np.empty(count, np.int32) for name in WORDS} | {"streamed": np.empty(count, bool)}
    where: Times | None = None
    if order is not None:
        where = np.empty(count, np.int64)
        where[order] = np.arange(count)
    _, codes = joined_words(pieces)
    place, before = 0, (-1, dict.fromkeys(RAGGED, 0))
    for number, rows in _chunks(pieces):
        here = slice(place, place + len(rows)) if where is None else where[place : place + len(rows)]
        if before[0] != number:
            before = number, {name: value_range(pieces[number], name)[0] for name in RAGGED}
        for name, column in columns.items():
            if name in RAGGED:
                ends = rows[f"{name}_end"]
                column[here] = np.diff(ends, prepend=before[1][name])
                before[1][name] = int(ends[-1])
            else:
                column[here] = codes[number][rows[name]] if name in WORDS else rows[name]
        place += len(rows)
    return columns


def joined_words(pieces: Sequence[Piece]) -> tuple[list[str | None], list[NDArray[np.int32]]]:
    """One table of the words of all pieces, and for each piece what its own codes are in it."""
    table: dict[str | None, int] = {}
    codes = [np.array([table.setdefault(word, len(table)) for word in piece.part.words], np.int32) for piece in pieces]
    return list(table), codes


def value_range(piece: Piece, name: str) -> tuple[int, int]:
    """Where the values of a piece's rows are in a ragged column of its part."""
    first, last = (int(piece.part.rows(row - 1, row)[f"{name}_end"][0]) if row else 0 for row in piece[1:])
    return first, last


def cut(pieces: Sequence[Piece], values: int) -> Iterator[Piece]:
    """The pieces cut into such of at most CHUNK_ROWS rows and about as many ragged values as said; a row with more is one of its own."""
    first, number, total = 0, -1, 0
    for which, rows in _chunks(pieces):
        part = pieces[which].part
        if which != number:
            first, number = pieces[which].first, which
            total = sum(value_range(pieces[which], name)[0] for name in RAGGED)
        ends = np.sum([rows[f"{name}_end"] for name in RAGGED], axis=0)
        place = 0
        while place < len(rows):
            last = max(int(np.searchsorted(ends, total + values, side="right")), place + 1)
            yield Piece(part, first + place, first + last)
            place, total = last, int(ends[last - 1])
        first += len(rows)


def text_of(piece: Piece, row: int, name: str) -> str | None:
    """One text of the piece's row `row`, counted from its first."""
    found = piece.part.rows(piece.first + row, piece.first + row + 1)[0]
    before = sum(max(int(found[f"{other}_size"]), 0) for other in TEXTS[: TEXTS.index(name)])
    first, size = int(found["texts_at"]) + before, int(found[f"{name}_size"])
    return None if size < 0 else piece.part.text_bytes(first, first + size).decode("utf-8", "surrogatepass")


def _chunks(pieces: Sequence[Piece]) -> Iterator[tuple[int, Rows]]:
    """The rows of all pieces, some at a time, each with the number of its piece."""
    for number, piece in enumerate(pieces):
        for first in range(piece.first, piece.last, CHUNK_ROWS):
            yield number, piece.part.rows(first, min(first + CHUNK_ROWS, piece.last))
