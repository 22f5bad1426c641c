"""A simulated server as a child process, for tests and demos.

with loadstone.simulator.running(step_us=20_000, max_num_seqs=1000) as server:
    ...  # load server.url
    print(server.truth()["ttft_ms"])
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from loadstone.errors import LoadstoneError

START_S = 30.0
STOP_S = 10.0


class Simulated:
    """A running simulated server. `url` is its base address, without a path."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid
        self.port = int(url.rsplit(":", 1)[1])

    def truth(self, requests: bool = False) -> dict[str, Any]:
        """What GET /truth answers; with `requests`, the list of finished requests too."""
        import msgspec

        document: dict[str, Any] = msgspec.json.decode(self._call("/truth?requests=1" if requests else "/truth"))
        return document

    def reset(self) -> None:
        """Let the truth start afresh."""
        self._call("/truth/reset", method="POST")

    def _call(self, path: str, method: str = "GET") -> bytes:
        from urllib.request import ProxyHandler, Request, build_opener

        opener = build_opener(ProxyHandler({}))  # never through a proxy: it is this machine
        with opener.open(Request(self.url + path, method=method), timeout=60) as answer:
            body: bytes = answer.read()
        return body


@contextlib.contextmanager
def running(**options: Any) -> Iterator[Simulated]:
    """Run `loadstone simulate` on a free port until the block ends. `options` are the flags with underscores: `step_us=20_000`, `server_times=True`.

    The child ends with the block, and when this process dies however it dies: its standard input is a pipe that closes then. An interrupt at the
    terminal does not reach it: a run that drains still needs its server.
    Raises LoadstoneError with the child's own words when it does not come up.
    """
    import subprocess
    import tempfile

    command = [sys.executable, "-m", "loadstone", "simulate", *flags({"port": 0, "until_stdin_closes": True, **options})]
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, process_group=0)
        try:
            line = _first_line(child)
            if not line.startswith("listening on "):
                child.kill()
                child.wait()
                errors.seek(0)
                raise LoadstoneError(f"the simulated server did not start: {(line + errors.read().decode(errors='replace')).strip()}")
            yield Simulated(line.removeprefix("listening on ").strip(), child.pid)
        finally:
            _end(child)


def flags(options: dict[str, Any]) -> list[str]:
    """Options as command-line flags: True is a switch, False and None are left out."""
    given: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        flag = "--" + name.replace("_", "-")
        given.append(flag if value is True else f"{flag}={value}")
    return given


def _first_line(child: Any) -> str:
    """The first line the child prints, or "" when it ends without one. Raises LoadstoneError after START_S."""
    import select

    if not select.select([child.stdout], [], [], START_S)[0]:
        raise LoadstoneError(f"the simulated server did not start within {START_S:.0f} s")
    line: bytes = child.stdout.readline()
    return line.decode()


def _end(child: Any) -> None:
    import subprocess

    child.terminate()
    try:
        child.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
