"""The memory of a whole run while it runs: of the command and of all processes it has started, added up."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from support.truth import CORES, pinned

LOOK_S = 0.25
TIMEOUT_S = 1800.0


class Memory(NamedTuple):
    """Bytes of resident memory, pages that several processes share counted once (PSS). `anonymous`: without the pages of files, which the system may
    take back at any time.
    """

    resident: int
    anonymous: int


class Watched(NamedTuple):
    """The peaks of a run: of the sum at one instant, and of each process by its order of birth (the command, the decoder, the workers)."""

    total: Memory
    processes: list[Memory]
    wall_s: float


def watch(command: Sequence[str | Path]) -> Watched:
    """Run `command` to its end on the cores that the server leaves, looking at its memory four times a second. Ends the program with the command's
    own words if it fails.
    """
    environment = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"}
    begun, total, peaks = time.monotonic(), Memory(0, 0), dict[int, Memory]()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=pinned(CORES[:-1]))
    while child.poll() is None:
        found = {pid: memory for pid in [child.pid, *_children(child.pid)] if (memory := _of(pid)) is not None}
        total = _higher(total, Memory(sum(each.resident for each in found.values()), sum(each.anonymous for each in found.values())))
        for pid, memory in found.items():
            peaks[pid] = _higher(peaks.get(pid, memory), memory)
        if time.monotonic() - begun > TIMEOUT_S:
            child.terminate()
        time.sleep(LOOK_S)
    trouble = child.communicate()[1]
    if child.returncode:
        sys.exit(f"{Path(command[0]).name} ended with {child.returncode}:\n{trouble.strip()[-2000:]}")
    return Watched(total, [peaks[pid] for pid in sorted(peaks)], time.monotonic() - begun)


def _higher(one: Memory, other: Memory) -> Memory:
    return Memory(max(one.resident, other.resident), max(one.anonymous, other.anonymous))


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # it has ended since
        return []


def _of(pid: int) -> Memory | None:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return None
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return Memory(kilobytes["Pss"] * 1024, kilobytes["Pss_Anon"] * 1024)
