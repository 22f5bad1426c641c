"""Executing a plan: workers that capture, a decoder that follows them, counters that all of them share, and the interrupts of a person."""

import resource
import select
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from loadstone.bench.children import Child
from loadstone.bench.decoder import DecoderDone, DecoderJob, read_out
from loadstone.bench.interrupts import Interrupts
from loadstone.engine.counters import Count, Counters, Decoded
from loadstone.engine.process import Answer, Order
from loadstone.engine.settings import Job, Phase
from loadstone.errors import LoadstoneError, UsageError
from loadstone.records import FAILED, Record, Records
from loadstone.report.live import Live, Progress

START_DELAY_NS = 20_000_000  # from the order to the start: every worker has heard it by then
LOOK_S = 0.1
RESERVED_FILES = 64  # descriptors that a worker needs beside its connections


class Measured(msgspec.Struct, kw_only=True):
    """What one phase left behind."""

    records: Records
    planned: int
    sent: int
    start_ns: int
    interrupted: bool
    cancelled_after_s: float | None = None
    lost_workers: list[str] = []
    worker_cpu_s: float = 0.0
    decoder_cpu_s: float = 0.0


class SpoolKeptError(LoadstoneError):
    """What was captured could not be decoded: it stays on disk."""

    exit_code = 1


class Processes:
    """The workers and the decoder of a run, over all its phases."""

    def __init__(self, jobs: list[Job], folder: Path) -> None:
        self.folder = folder
        self.counters = Counters(folder / "counters", rows=1 + len(jobs))
        self.decoder = Child("loadstone.bench.decoder")
        self.workers = [Child("loadstone.engine.process") for _ in jobs]
        for child, job in zip(self.workers, jobs, strict=True):
            child.tell(job)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        for child in (*self.workers, self.decoder):
            child.end()

    def tell(self, order: Order) -> None:
        """Give every worker an order."""
        for child in self.workers:
            child.tell(order)

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


def measure(
    processes: Processes,
    phase: Phase,
    job: DecoderJob,
    *,
    planned: int,
    last_due_ns: int | None,
    drain_grace_s: float,
    live: Live,
    interrupts: Interrupts,
) -> Measured:
    """Run one phase to its end: all requests over, or interrupted. Whatever was captured is decoded and returned.

    Raises SpoolKeptError if the decoder died: the spool is then still there.
    """
    decoder = processes.decoder
    processes.prepare(phase)
    decoder.tell(job)
    start_ns = time.monotonic_ns() + START_DELAY_NS
    processes.tell(Order(do="run", start_ns=start_ns))
    watch = _Watch(processes, planned, last_due_ns, start_ns, live)
    measured = watch.until_sent(interrupts, drain_grace_s)
    decoder.tell({"do": "finish"})
    done: DecoderDone | None = None
    while done is None and not decoder.ended:
        select.select([decoder], [], [], LOOK_S)
        for line in decoder.answers():
            done = msgspec.json.decode(line, type=DecoderDone)
        watch.show("decoding")
    trouble = decoder.trouble()
    if done is None:
        last = trouble.splitlines()[-1] if trouble else "it gave no reason"
        raise SpoolKeptError(f"the decoder died: {last}. What was captured is kept in {Path(job.spool).parent}")
    if job.debug and trouble:
        live.say(trouble)
    measured.decoder_cpu_s = done.cpu_s
    found = read_out(Path(job.out))
    measured.records = Records(with_lost(found, measured) if measured.lost_workers else found)
    return measured


def with_lost(found: Iterable[Record], measured: Measured) -> Iterator[Record]:
    """`found`, and a failed record for each request that was sent but left no trace, because its worker died. Which ones those are is known from the
    plan's order: the first that are missing.
    """
    seen = set()
    for record in found:
        seen.add(record.index)
        yield record
    missing = (index for index in range(measured.planned) if index not in seen)
    for index in islice(missing, max(measured.sent - len(seen), 0)):
        yield Record(index=index, status=FAILED, reason="worker died", error=f"the worker process died: {measured.lost_workers[0]}")


class _Watch:
    """Follows a running phase: shows how far it is, and hears interrupts."""

    def __init__(self, processes: Processes, planned: int, last_due_ns: int | None, start_ns: int, live: Live) -> None:
        self.processes, self.planned, self.start_ns, self.live = processes, planned, start_ns, live
        self.last_due_s = None if last_due_ns is None else last_due_ns / 1e9

    def show(self, phase: str) -> None:
        if not self.live.due():
            return
        total, decoded = self.processes.counters.total, self.processes.counters.row(0)
        self.live.update(
            Progress(
                elapsed_s=max(time.monotonic_ns() - self.start_ns, 0) / 1e9,
                planned=self.planned,
                sent=total(Count.SENT),
                ended=total(Count.ENDED),
                failed=decoded[Decoded.FAILED],
                output_tokens=decoded[Decoded.OUTPUT_TOKENS],
                last_due_s=self.last_due_s,
                phase=phase,
            )
        )

    def until_sent(self, interrupts: Interrupts, drain_grace_s: float) -> Measured:
        """Wait until every worker is done."""
        processes = self.processes
        running = list(processes.workers)
        measured = Measured(records=Records([]), planned=self.planned, sent=0, start_ns=self.start_ns, interrupted=False)
        stop_by: float | None = None
        cancelled = False
        while running:
            ready, _, _ = select.select(running, [], [], LOOK_S)
            for child in ready:
                for line in child.answers():
                    answer = msgspec.json.decode(line, type=Answer)
                    measured.sent += answer.sent
                    measured.worker_cpu_s += answer.cpu_s
                    running.remove(child)
                if child.ended and child in running:  # it died: what it spooled is still there
                    running.remove(child)
                    row = processes.counters.row(1 + processes.workers.index(child))
                    measured.sent += row[Count.SENT]
                    measured.lost_workers.append(child.trouble().splitlines()[-1] if child.trouble() else "no reason given")
            if interrupts.count and stop_by is None:
                measured.interrupted = True
                stop_by = time.monotonic() + drain_grace_s
                processes.tell(Order(do="stop"))
                left = processes.counters.total(Count.SENT) - processes.counters.total(Count.ENDED)
                self.live.say(f"interrupted: no more is sent; {left} in flight get {drain_grace_s:g} s (Ctrl-C again ends them at once)")
            if stop_by is not None and not cancelled and (interrupts.count > 1 or time.monotonic() > stop_by):
                cancelled = True
                processes.tell(Order(do="cancel"))
            self.show("running" if stop_by is None else "draining")
        return measured


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


def client_health(processes: Processes, measured: Measured, wall_s: float) -> dict[str, Any]:
    """What the client itself did: for the result's `client`."""
    total = processes.counters.total
    return {
        "workers": len(processes.workers),
        "connections": total(Count.CONNECTIONS),
        "stale_connections_replaced": total(Count.REPLACED),
        "reads": total(Count.READS),
        "reads_without_kernel_stamp": total(Count.UNSTAMPED),
        "longest_stall_ms": max(processes.counters.row(1 + w)[Count.LONGEST_STALL_NS] for w in range(len(processes.workers))) / 1e6,
        "worker_cpu_share": measured.worker_cpu_s / wall_s / len(processes.workers) if wall_s else None,
        "worker_cpu_s": measured.worker_cpu_s,
        "decoder_cpu_s": measured.decoder_cpu_s,
    }
