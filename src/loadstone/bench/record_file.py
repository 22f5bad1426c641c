"""The records file of a run (--records): written as requests finish, and never the reason that a result is lost."""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from loadstone.records import Record, RunHeader, encode_record, write_header


class RecordFile:
    """Appends records to `path`, a block at a time and unbuffered, so that a killed run leaves what it wrote; None: nothing is written. With a header
    a new file is begun, unless it has been `begun` before. What cannot be written is in `trouble`, and the file then ends there: the result does not
    depend on it.
    """

    def __init__(self, path: str | None, header: RunHeader | None = None, *, begun: bool = False) -> None:
        self.trouble = ""
        self._lines: list[bytes] = []
        self._wanted = path is not None
        self._file = Path(path or os.devnull).open("ab" if header is None or begun else "wb", buffering=0)  # noqa: SIM115 (it is closed with this)
        if header is not None and not begun:
            try:
                write_header(self._file, header)
            except OSError as error:
                self._give_up(error)

    def add(self, record: Record) -> None:
        if self._wanted:
            self._lines.append(encode_record(record))

    def flush(self) -> None:
        """Write what was added."""
        block, self._lines = memoryview(b"".join(self._lines)), []
        try:
            while block and self._wanted:
                block = block[self._file.write(block) :]
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.trouble, self._wanted = f"--records: the file ends early: {error.strerror}", False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        self.flush()
        self._file.close()
