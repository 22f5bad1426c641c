"""The processes of a run: workers that capture and a decoder that reads what they captured, each spoken to in JSON lines over its own pipes.

They are new interpreters, not forks: that is safe under any parent (threads, notebooks), and they leave when the parent is gone, because their
standard input ends. An interrupt at the terminal reaches the parent only.
"""

import os
import subprocess
import sys
import tempfile
from typing import IO, Any

import msgspec

from loadstone.errors import LoadstoneError


class Child:
    """One process. `answers()` gives what it has said so far without waiting; its standard error is kept for when it dies."""

    def __init__(self, module: str, job: Any) -> None:
        self.module = module
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the child)
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
        )
        assert self._process.stdin and self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._rest = b""
        self.ended = False
        self.tell(job)

    def fileno(self) -> int:
        """What to wait on for its next answer."""
        return self._stdout.fileno()

    def tell(self, order: Any) -> None:
        try:
            self._stdin.write(msgspec.json.encode(order) + b"\n")
            self._stdin.flush()
        except BrokenPipeError:
            self.ended = True

    def answers(self) -> list[bytes]:
        """Whole lines said since the last call. Sets `ended` once the process has closed its output."""
        while True:
            data = self._stdout.read(1 << 16)
            if data is None:
                break
            if not data:
                self.ended = True
                break
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        return lines

    def trouble(self) -> str:
        """The last lines of its standard error, for an error message."""
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-4000:].strip()

    def died(self, doing: str) -> LoadstoneError:
        trouble = self.trouble()
        last = trouble.splitlines()[-1] if trouble else f"exit status {self._process.poll()}"
        return LoadstoneError(f"a {self.module.rpartition('.')[2]} process died while {doing}: {last}")

    def end(self, timeout_s: float = 10.0) -> None:
        """Close its input, which asks it to leave, and see that it does."""
        try:
            self._stdin.close()
        except BrokenPipeError:
            self.ended = True
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stdout.close()
        self._errors.close()
