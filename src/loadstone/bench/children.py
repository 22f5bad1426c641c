"""The processes of a run: workers that capture and a decoder that reads what they captured, each spoken to in JSON lines over its own pipes.

A process that has one thread forks them, which saves each the start of an interpreter; under a parent with threads (a notebook, a tokenizer that
has been used) that would not be safe, and they are new interpreters. They leave when the parent is gone, because their standard input ends. An
interrupt at the terminal reaches the parent only: each is in a process group of its own. (Not in a session of its own: Linux shares the processor
out among sessions first, and the decoder's idle priority would not make way for a worker of another session.)
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import msgspec

from loadstone.engine.lines import Lines
from loadstone.errors import LoadstoneError

LEAVING_S = 1.0  # from the close of a process's output to its end


class Child:
    """One process, running `main` of a module. Its standard error is kept for when it dies."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.cpu_s = 0.0  # that it has used in all; known once it has left
        self._status: int | None = None  # what waiting for it gave; None: it has not left, as far as is known
        self._closed, self._last_words = False, ""
        self._errors = _scratch_file()  # lives as long as the child
        hears, self._tells = os.pipe()
        told, says = os.pipe()
        self.pid = _fork(module, hears, says, self._errors.fileno()) if _may_fork() else _start(module, hears, says, self._errors.fileno())
        os.close(hears)
        os.close(says)
        self._lines = Lines(told)

    @property
    def ended(self) -> bool:
        """It has closed its output: no more answers will come."""
        return self._lines.closed

    def fileno(self) -> int:
        """What to wait on for its next answer."""
        return self._lines.fd

    def tell(self, order: Any) -> None:
        """Send one order. A child that has died hears nothing; that shows in `ended`."""
        if self._closed:
            return
        blob = msgspec.json.encode(order) + b"\n"
        try:
            while blob:
                blob = blob[os.write(self._tells, blob) :]
        except BrokenPipeError:
            return

    def answers(self) -> list[bytes]:
        """Whole lines said since the last call."""
        return self._lines.arrived()

    def trouble(self) -> str:
        """The end of its standard error, for an error message."""
        if self._closed:
            return self._last_words
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-4000:].strip()

    @property
    def why(self) -> str:
        """Why it has died, in a few words: the signal that ended it, else the last that it said."""
        until = time.monotonic() + LEAVING_S
        while self.ended and not self._gone() and time.monotonic() < until:
            time.sleep(0.002)
        if self._status is not None and os.WIFSIGNALED(self._status):
            number = os.WTERMSIG(self._status)
            hint = ", as the system does when memory runs out" if number == signal.SIGKILL else ""
            return f"ended by {signal.Signals(number).name}{hint}"
        trouble = self.trouble()
        return trouble.splitlines()[-1] if trouble else "it gave no reason"

    def died(self, doing: str) -> LoadstoneError:
        return LoadstoneError(f"a process of the run ({self.module}) died while {doing}: {self.why}")

    def kill(self) -> None:
        """End it at once."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)

    def cpu_ticks(self) -> int:
        """What it has used of the processor so far, in the system's ticks; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return 0
        return int(fields[11]) + int(fields[12])

    def end(self, timeout_s: float = 10.0) -> None:
        """Close its input, which asks it to leave, and see that it does."""
        if self._closed:
            return
        os.close(self._tells)
        until = time.monotonic() + timeout_s
        while not self._gone():
            if time.monotonic() > until:
                self.kill()
                until += timeout_s
            time.sleep(0.002)
        self._last_words = self.trouble()
        os.close(self._lines.fd)
        self._errors.close()
        self._closed = True

    def _gone(self) -> bool:
        if self._status is None:
            try:
                pid, status, used = os.wait4(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has waited for it
                self._status = 0
            else:
                if pid == self.pid:
                    self._status, self.cpu_s = status, used.ru_utime + used.ru_stime
        return self._status is not None


def _scratch_file() -> IO[bytes]:
    """Where a child's last words go: in memory where there is such a thing, for the disk may be what killed it."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("loadstone"), "w+b")
    return tempfile.TemporaryFile()


def _may_fork() -> bool:
    """Whether this process has a single thread, the system's own included."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    return len(list(Path("/proc/self/task").iterdir())) == 1


def _fork(module: str, hears: int, says: int, errors: int) -> int:
    main = import_module(module).main
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:  # nothing of the parent may run on from here
        os.setpgid(0, 0)
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, signal.SIG_IGN if signal_number == signal.SIGINT else signal.SIG_DFL)
        for fd, place in ((hears, 0), (says, 1), (errors, 2)):
            os.dup2(fd, place)
        os.closerange(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 1 << 20 else 1 << 16)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        main()
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _start(module: str, hears: int, says: int, errors: int) -> int:
    command = [sys.executable, "-m", module]
    return subprocess.Popen(command, stdin=hears, stdout=says, stderr=errors, process_group=0).pid
