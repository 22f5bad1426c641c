"""Lines from a pipe, waited for or not: how the processes of a run hear each other."""

import os
import select


class Lines:
    """Whole lines read from descriptor `fd`. `closed` once the other side has gone."""

    def __init__(self, fd: int) -> None:
        self.fd, self.closed = fd, False
        self._rest = b""
        self._lines: list[bytes] = []

    def arrived(self) -> list[bytes]:
        """The lines that are there now; never waits."""
        while not self.closed and select.select([self.fd], [], [], 0)[0]:
            self._take()
        lines, self._lines = self._lines, []
        return lines

    def next(self) -> bytes | None:
        """The next line, waited for; None when there will be none."""
        while not self._lines and not self.closed:
            self._take()
        return self._lines.pop(0) if self._lines else None

    def _take(self) -> None:
        data = os.read(self.fd, 1 << 16)
        if not data:
            self.closed = True
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines += lines
