"""The processes of a run, over all its phases: workers that capture and one decoder that follows them; and how many files they may open."""

import math
import os
import resource
import select
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from loadstone.bench.children import Child
from loadstone.config import RunConfig
from loadstone.engine.counters import Counters
from loadstone.engine.process import ENDLESS, Answer, Order
from loadstone.engine.settings import Job, Phase
from loadstone.errors import UsageError

RESERVED_FILES = 64  # descriptors that a worker needs beside its connections
STREAMS_A_WORKER = 1000  # at 50 tokens a second each, two thirds of what one core takes (docs/benchmarks.md)
RATE_A_WORKER = 2000.0  # requests a second


class Processes:
    """They run from the constructor until the block ends; what workers are to do is told to them with `begin`."""

    def __init__(self, workers: int, folder: Path) -> None:
        self.folder = folder
        self.counters = Counters(folder / "counters", rows=1 + workers)
        self.decoder = Child("loadstone.bench.decoder")
        self.workers = [Child("loadstone.engine.process") for _ in range(workers)]

    def begin(self, job: Job) -> None:
        """Give each worker its job: `job` with its own number."""
        for number, child in enumerate(self.workers):
            child.tell(msgspec.structs.replace(job, worker=number))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        for child in (*self.workers, self.decoder):
            child.end()

    def tell(self, order: Order) -> None:
        """Give every worker an order."""
        for child in self.workers:
            child.tell(order)

    def renew_decoder(self) -> Child:
        """Start another decoder in place of the one that there is, which is ended if it has not died yet, and returned."""
        old = self.decoder
        if not old.ended:  # else it has died of something else, which shall be told
            old.kill()
        old.end()
        self.decoder = Child("loadstone.bench.decoder")
        return old

    def prepare(self, phase: Phase) -> int:
        """Have every worker open the plan and its connections. Returns how many connections are open."""
        spool = Path(phase.spool)
        spool.mkdir(parents=True)
        (spool / "next").write_bytes(bytes(8))
        for row in range(self.counters.rows):
            self.counters.row(row)[:] = memoryview(bytes(8 * len(self.counters.row(row)))).cast("q")
        self.tell(Order(do="prepare", phase=phase))
        return sum(self._answer(child).open_connections for child in self.workers)

    def _answer(self, child: Child) -> Answer:
        while True:
            select.select([child], [], [], 1.0)
            for line in child.answers():
                return msgspec.json.decode(line, type=Answer)
            if child.ended:
                raise child.died("preparing the run")


def workers_for(config: RunConfig) -> int:
    """How many workers to start: --workers, or by the load when that is 0: one for a small load, else as many as it needs, and one core left for the
    decoder and everybody else.
    """
    most = min(limit for limit in (config.max_concurrency, config.num_prompts, ENDLESS) if limit)  # each has a slot and a request of its own
    if config.workers:
        return min(config.workers, most)
    rate = config.ramp_up_end_rps or config.request_rate
    if math.isfinite(rate):
        needed = math.ceil(rate / RATE_A_WORKER)
    else:
        needed = math.ceil((config.max_concurrency or config.num_prompts) / STREAMS_A_WORKER)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(needed, cores - 1, most))


def raise_file_limit(connections: int) -> None:
    """Let this process and its children open as many files as the system allows. UsageError if `connections` cannot be had even so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and connections + RESERVED_FILES > hard:
        raise UsageError(
            f"this load needs {connections} connections at once, but the system lets a process open only {hard} files: "
            f"raise the hard limit (ulimit -Hn), or set --max-concurrency to at most {hard - RESERVED_FILES}"
        )
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, connections + RESERVED_FILES, 65536)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):  # macOS says no to more than its own maximum
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, 10240), hard))
