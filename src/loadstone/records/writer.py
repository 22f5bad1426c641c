"""Records on disk in columns, for the process that makes the report: appended as requests finish, opened with `Records.open`."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from loadstone.records.buffer import Buffer
from loadstone.records.layout import RAGGED, ROW
from loadstone.records.ragged import FORMS, pack, steps_of
from loadstone.records.record import Record

FLUSH_ROWS, FLUSH_VALUES, FLUSH_TEXT = 1024, 1 << 16, 1 << 20  # what is held back at most: a few hundred kilobytes
FILES = ("words", "texts", *RAGGED, *(f"{name}.wide" for name in RAGGED), "rows")  # where `rows` is, all are


class ColumnWriter:
    """Appends records to a new column folder. What was flushed is whole even if the process is then killed.

    It holds back a thousand records or 65,536 values at most; `flush` writes them. Rows are written after all that they point to, so that a reader
    finds every row it sees complete. Memory does not grow with the run, but for the table of the distinct models and reasons.
    """

    def __init__(self, folder: Path) -> None:
        """Make `folder`. Raises OSError, FileExistsError if it holds columns already."""
        folder.mkdir(parents=True, exist_ok=True)
        self._files = {name: os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600) for name in FILES}
        self._buffer = Buffer()
        self._words_written = 1  # None is known to every reader
        self._positions = dict.fromkeys(RAGGED, 0)

    def add(self, record: Record) -> None:
        """Append one record. Raises OverflowError for a number in it that fits no 64 bits."""
        buffer = self._buffer
        buffer.add(record)
        if buffer.row_count >= FLUSH_ROWS or len(buffer.values["token_ns"]) >= FLUSH_VALUES or len(buffer.texts) >= FLUSH_TEXT:
            self.flush()

    def flush(self) -> None:
        """Write what was held back."""
        buffer = self._buffer
        if not buffer.row_count:
            return
        words = list(buffer.words)[self._words_written :]
        self._words_written += len(words)
        encoded = [(word or "").encode("utf-8", "surrogatepass") for word in words]
        self._write("words", b"".join(len(word).to_bytes(4, "little") + word for word in encoded))
        self._write("texts", buffer.texts)
        rows = np.frombuffer(buffer.rows, ROW)
        for name in RAGGED:
            if values := buffer.values[name]:
                self._write_values(name, np.frombuffer(values, np.int64), rows[f"{name}_end"])
        self._write("rows", buffer.rows)
        buffer.drain()

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        while self._files:
            os.close(self._files.popitem()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.close()

    def _write_values(
        self, name: str, values: "np.ndarray[tuple[int], np.dtype[np.int64]]", ends: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    ) -> None:
        form, position = FORMS[name], self._positions[name]
        if form.steps:
            ends = ends - position
            starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
            values = steps_of(values, starts[starts < ends])
        packed, wide = pack(values, form, position)
        self._write(f"{name}.wide", wide)
        self._write(name, packed)
        self._positions[name] += len(values)

    def _write(self, name: str, data: bytes | bytearray) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._files[name], view) :]
