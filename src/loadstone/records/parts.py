"""Where rows are read from: a buffer in memory, or a column folder. Both are read in ranges, so that nobody needs to hold them whole."""

import mmap
import os
import weakref
from pathlib import Path
from typing import Protocol

import numpy as np

from loadstone.records.buffer import Buffer
from loadstone.records.layout import RAGGED, ROW, TEXTS, WORDS, Rows, Times
from loadstone.records.ragged import FORMS, WIDE, Wide, steps_of, unpack


class Part(Protocol):
    """Rows in the order in which they were added. `words`: the table of repeated texts."""

    count: int
    words: list[str | None]

    def rows(self, first: int, last: int) -> Rows:
        """Rows first to last - 1."""
        ...

    def values(self, name: str, first: int, last: int) -> Times:
        """Values first to last - 1 of a ragged column; steps within their row where the column's form is that."""
        ...

    def text_bytes(self, first: int, last: int) -> bytes: ...


class MemoryPart:
    """The rows of a buffer."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self.count = buffer.row_count
        self.words = list(buffer.words)
        self._rows = np.frombuffer(buffer.rows, ROW) if buffer.rows else np.zeros(0, ROW)
        self._values: dict[str, Times] = {}
        for name in RAGGED:
            values = np.frombuffer(buffer.values[name], np.int64) if buffer.values[name] else np.zeros(0, np.int64)
            if FORMS[name].steps:
                ends = self._rows[f"{name}_end"]
                starts = np.concatenate((np.zeros(1, np.int64), ends))[:-1]
                values = steps_of(values, starts[starts < ends])
            self._values[name] = values

    def rows(self, first: int, last: int) -> Rows:
        return self._rows[first:last]

    def values(self, name: str, first: int, last: int) -> Times:
        return self._values[name][first:last]

    def text_bytes(self, first: int, last: int) -> bytes:
        return bytes(self._buffer.texts[first:last])


class FilePart:
    """The rows of a column folder that are whole: those whose values, texts and words are all there. Its files stay readable after the folder is
    removed, until the part itself is gone.
    """

    def __init__(self, folder: Path) -> None:
        """Raises OSError for what is no column folder."""
        self._rows = _Bytes(folder / "rows")
        self._texts = _Bytes(folder / "texts")
        self._packed = {name: _Bytes(folder / name) for name in RAGGED}
        self._wide = {name: _wide(folder / f"{name}.wide") for name in RAGGED}
        self.words = _words((folder / "words").read_bytes())
        self.count = self._rows.size // ROW.itemsize
        while self.count and not self._is_whole(self.rows(self.count - 1, self.count)[0]):
            self.count -= 1

    def rows(self, first: int, last: int) -> Rows:
        return np.frombuffer(self._rows.read(first * ROW.itemsize, last * ROW.itemsize), ROW)

    def values(self, name: str, first: int, last: int) -> Times:
        form = FORMS[name]
        size = form.dtype.itemsize
        return unpack(self._packed[name].read(first * size, last * size), form, first, self._wide[name])

    def text_bytes(self, first: int, last: int) -> bytes:
        return self._texts.read(first, last)

    def _is_whole(self, row: np.void) -> bool:
        """A process that is killed leaves nothing else; a machine that stops may have saved the row and not what it points to."""
        texts_end = int(row["texts_at"]) + sum(max(int(row[f"{name}_size"]), 0) for name in TEXTS)
        return (
            texts_end <= self._texts.size
            and all(int(row[f"{name}_end"]) * FORMS[name].dtype.itemsize <= self._packed[name].size for name in RAGGED)
            and all(row[name] < len(self.words) for name in WORDS)
        )


class _Bytes:
    """An open file that is read by ranges, closed when nobody has it any more."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)
        self.size = os.fstat(self._descriptor).st_size

    def read(self, first: int, last: int) -> bytes:
        pieces = []
        while first < last:
            piece = os.pread(self._descriptor, last - first, first)  # the system gives at most 2 GB at a time
            if not piece:
                raise EOFError(f"a column file ends at byte {first}, {last - first} bytes short")
            pieces.append(piece)
            first += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _wide(path: Path) -> Wide:
    """The file of values in full, mapped: few runs have any, and a search reads few of its pages."""
    count = path.stat().st_size // WIDE.itemsize
    if not count:
        return np.zeros(0, WIDE)
    with path.open("rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), count * WIDE.itemsize, access=mmap.ACCESS_READ), WIDE)


def _words(data: bytes) -> list[str | None]:
    words: list[str | None] = [None]
    place = 0
    while len(size := data[place : place + 4]) == 4:
        place += 4
        word = data[place : place + int.from_bytes(size, "little")]
        place += len(word)
        if len(word) < int.from_bytes(size, "little"):
            break
        words.append(word.decode("utf-8", "surrogatepass"))
    return words
