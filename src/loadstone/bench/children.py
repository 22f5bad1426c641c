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


class Child:
    """One process, running `main` of a module. Its standard error is kept for when it dies."""

    def __init__(self, module: str) -> None:
        self.module = module
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
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")[-4000:].strip()

    def died(self, doing: str) -> LoadstoneError:
        trouble = self.trouble()
        last = trouble.splitlines()[-1] if trouble else "it gave no reason"
        return LoadstoneError(f"a process of the run ({self.module}) died while {doing}: {last}")

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)

    def end(self, timeout_s: float = 10.0) -> None:
        """Close its input, which asks it to leave, and see that it does."""
        os.close(self._tells)
        until = time.monotonic() + timeout_s
        while not _gone(self.pid):
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                until += timeout_s
            time.sleep(0.002)
        os.close(self._lines.fd)
        self._errors.close()


def _scratch_file() -> IO[bytes]:
    """Where a child's last words go: in memory where there is such a thing, for the disk may be what killed it."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("loadstone"), "w+b")
    return tempfile.TemporaryFile()


def _gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # somebody else has waited for it
        return True


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
