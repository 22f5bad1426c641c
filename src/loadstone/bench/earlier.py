"""What earlier decoders of a run have left, for the one that goes on after them: which requests are in the columns, and which in the records file.

What they had flushed stays as it is. What they had not is still in the spool, for a segment goes only when all of it has been flushed; it is read
again, and what is there already is left out by its index.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec
import numpy as np

from loadstone.engine.exchange import Exchange
from loadstone.records import COMPLETED, FilePart, RunHeader

CHUNK_ROWS = 1 << 14
_FIRST_FIELD = b'{"index":'


class Indices:
    """A set of request indices: one byte for each up to the largest, so that a million cost a megabyte."""

    def __init__(self) -> None:
        self._marks = bytearray()

    def add(self, index: int) -> None:
        if index >= len(self._marks):
            self._marks.extend(bytes(max(index + 1 - len(self._marks), 1 << 16)))
        self._marks[index] = 1

    def __contains__(self, index: int) -> bool:
        return index < len(self._marks) and self._marks[index] == 1

    def __len__(self) -> int:
        return self._marks.count(1)


class Earlier(msgspec.Struct, kw_only=True):
    """Requests that need not be decoded again."""

    columns: Indices
    lines: Indices  # in the records file; where there is none, the same as `columns`
    begun: bool = False  # whether the records file is this run's already, to be gone on with
    statuses: Counter[str | None]
    output_tokens: int = 0  # of the completed ones

    @classmethod
    def of(cls, folders: Sequence[Path], path: str | None, header: RunHeader) -> Self:
        """Of the column folders and the records file at `path`, of which a last line that was cut is cut off. Nothing, where there are no folders."""
        earlier = cls(columns=Indices(), lines=Indices(), statuses=Counter())
        for folder in begun(folders):
            earlier._count(FilePart(folder))
        if path is None or not folders:
            earlier.lines = earlier.columns
        elif Path(path).exists() and not Path(path).is_file():  # a pipe or a device: what went there cannot be asked for
            earlier.lines, earlier.begun = earlier.columns, True
        elif (lines := whole_lines(Path(path), header)) is not None:
            earlier.lines, earlier.begun = lines, True
        return earlier

    def _count(self, part: FilePart) -> None:
        for first in range(0, part.count, CHUNK_ROWS):
            rows = part.rows(first, min(first + CHUNK_ROWS, part.count))
            for index in rows["index"].tolist():
                self.columns.add(index)
            codes, counts = np.unique(rows["status"], return_counts=True)
            self.statuses.update({part.words[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)})
            completed = rows["status"] == (part.words.index(COMPLETED) if COMPLETED in part.words else -1)
            self.output_tokens += int(np.nansum(rows["output_tokens"][completed]))

    def left(self, exchanges: Iterator[Exchange]) -> Iterator[Exchange]:
        """Those of `exchanges` that are still to be decoded."""
        if not self.statuses:
            return exchanges
        return (each for each in exchanges if each.index not in self.columns or each.index not in self.lines)


def begun(folders: Iterable[Path]) -> list[Path]:
    """Those that are column folders: a decoder may have died before it had made its own."""
    return [folder for folder in folders if (folder / "rows").exists()]


def whole_lines(path: Path, header: RunHeader) -> Indices | None:
    """The records of a file that was begun with `header`; a last line that was cut is cut off. None for any other file."""
    found, whole = Indices(), 0
    told = msgspec.json.decode(msgspec.json.encode(header), type=RunHeader)  # as the decoder was told it, in JSON
    first_line = msgspec.json.encode(told) + b"\n"
    try:
        with path.open("r+b") as file:
            if file.readline() != first_line:
                return None
            whole = file.tell()
            for line in file:
                if not line.endswith(b"\n"):
                    file.truncate(whole)
                    break
                whole += len(line)
                if line.startswith(_FIRST_FIELD):
                    found.add(int(line[len(_FIRST_FIELD) : line.index(b",")]))
    except OSError:
        return None
    return found
