"""Running one client against the truth server, each on a core of its own where there are two, and what the client then cost."""

import compileall
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

import loadstone
from loadstone.records import Record, read_records

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
TIMEOUT_S = 120.0


class Reply(NamedTuple):
    """One line of the truth server's log; times are CLOCK_MONOTONIC ns."""

    read_ns: int
    first_ns: int
    last_ns: int
    tokens: int


class TruthServer(NamedTuple):
    port: int
    pid: int

    def cpu_s(self) -> float:
        """CPU that the server has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Ran(NamedTuple):
    """A client's run: the processor time of its whole process tree, start-up included, and the wall time."""

    cpu_s: float
    wall_s: float
    started_ns: int


def pinned(cores: Sequence[int]) -> Callable[[], None] | None:
    """For `preexec_fn`: stay on these cores. None where there is one core only."""
    return (lambda: os.sched_setaffinity(0, cores)) if len(CORES) > 1 else None


@contextmanager
def truth_server(program: Path, step_us: int, log: Path) -> Iterator[TruthServer]:
    """The server on the last core, ended with the block; then `log` holds its log. It ends by itself when this process is gone."""
    child = subprocess.Popen([program, str(step_us), log], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=pinned(CORES[-1:]))
    try:
        yield TruthServer(int(_line(child.stdout)), child.pid)
    finally:
        child.communicate()


def run_client(command: Sequence[str | Path], *, free: bool = False) -> Ran:
    """Run `command` to its end on the cores that the server leaves (`free`: on any). Ends the program with the command's own words if it fails."""
    compileall.compile_dir(str(Path(loadstone.__file__).parent), quiet=2)  # as an installed package is
    environment = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "PYTHONDONTWRITEBYTECODE")}
    before, begun_ns = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic_ns()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, preexec_fn=None if free else pinned(CORES[:-1])
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"{Path(command[0]).name} did not end within {TIMEOUT_S:.0f} s")
    wall_s, after = (time.monotonic_ns() - begun_ns) / 1e9, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{Path(command[0]).name} ended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    return Ran(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s, begun_ns)


class Serve(NamedTuple):
    """A finished `loadstone bench serve`."""

    ran: Ran
    result: dict[str, Any]
    records: list[Record]


def serve(port: int, folder: Path, flags: Sequence[str], *, free: bool = False, records: bool = True) -> Serve:
    """Run `loadstone bench serve` against the truth server, with or without --records; nothing is left of it but what is returned."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path, command = Path(scratch) / "records.jsonl", [sys.executable, "-m", "loadstone", "bench", "serve"]
        common = ["--base-url", f"http://127.0.0.1:{port}", "--model", "truth", "--ready-check-timeout-sec", "0", "--disable-tqdm"]
        output = ["--save-result", "--result-dir", scratch, "--result-filename", "result.json"]
        output += ["--records", str(path)] if records else []
        ran = run_client([*command, *common, *output, *flags], free=free)
        result = msgspec.json.decode((Path(scratch) / "result.json").read_bytes())
        return Serve(ran, result, read_records(path)[1] if records else [])


def read_log(log: Path) -> dict[str, Reply]:
    """The truth server's replies by request id."""
    replies = {}
    for line in log.read_text().splitlines():
        name, *numbers = line.split()
        replies[name] = Reply(*map(int, numbers))
    return replies


def machine() -> str:
    """One line on the machine, for a page of figures."""
    import platform

    model = next((line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
    return f"{time.strftime('%Y-%m-%d')}, {model}, {len(CORES)} cores, Linux {platform.release()}, Python {platform.python_version()}"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _line(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    if not select.select([stream], [], [], 10)[0]:
        sys.exit("the truth server did not start")
    return stream.readline()
