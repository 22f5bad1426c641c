"""Executing a plan: start all workers at one instant, follow them, stop them by rule or by a person's interrupt, decode what they captured."""

import select
import time
from itertools import count, islice
from pathlib import Path

import msgspec

from loadstone.bench.decoder import DecoderDone, DecoderJob
from loadstone.bench.interrupts import Interrupts
from loadstone.bench.kept import SpoolKeptError
from loadstone.bench.processes import Processes
from loadstone.bench.record_file import RecordFile
from loadstone.engine.counters import Count, Decoded
from loadstone.engine.gauges import Health
from loadstone.engine.process import Answer, Order
from loadstone.engine.settings import Phase
from loadstone.records import FAILED, ColumnWriter, Record, Records
from loadstone.report.live import Live, Progress

START_DELAY_NS = 20_000_000  # from the order to the start: every worker has heard it by then
LOOK_S = 0.1
OVERTIME_NS = 250_000_000  # the workers themselves stop sending at the end of the duration; the parent sees to it after this
PATIENCE_S = 10.0  # that a worker has to hear that all is cancelled
ENOUGH_ENDED = 20  # requests that must be over before an error rate means anything


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """When to stop before the plan is done. `duration_s`: send nothing later than this; `max_error_rate`: give up when more than this share of the
    requests that are over has failed. Requests in flight then get `grace_s`, and are cancelled.
    """

    grace_s: float
    duration_s: float | None = None
    max_error_rate: float | None = None


class Measured(msgspec.Struct, kw_only=True):
    """What one phase left behind. `stopped` says why it was ended early: "" if it was not, else interrupt, duration, error rate."""

    records: Records
    planned: int
    start_ns: int
    sent: int = 0
    stopped: str = ""
    lost_workers: list[str] = []
    health: list[Health] = []
    trouble: str = ""  # what the decoder could not do
    decoder_cpu_s: float = 0.0
    wall_s: float = 0.0


def measure(
    processes: Processes,
    phase: Phase,
    job: DecoderJob,
    *,
    planned: int,
    last_due_ns: int | None,
    rules: Rules,
    live: Live,
    interrupts: Interrupts,
) -> Measured:
    """Run one phase to its end: all requests over, or stopped. Whatever was captured is decoded and returned.

    Raises SpoolKeptError if the decoder died: the spool is then still there.
    """
    decoder = processes.decoder
    processes.prepare(phase)
    decoder.tell(job)
    start_ns = time.monotonic_ns() + START_DELAY_NS
    processes.tell(Order(do="run", start_ns=start_ns))
    watch = _Watch(processes, planned, last_due_ns, start_ns, rules, live)
    with interrupts.counted():
        measured = watch.until_sent(interrupts)
        decoder.tell({"do": "finish"})
        done, interrupted = None, interrupts.count
        while done is None and not decoder.ended:
            select.select([decoder], [], [], LOOK_S)
            for line in decoder.answers():
                done = msgspec.json.decode(line, type=DecoderDone)
            watch.show("decoding")
            if interrupts.count > interrupted:
                live.say("what was captured is being decoded for the report; Ctrl-C again leaves it")
                if interrupts.count > interrupted + 1:
                    raise KeyboardInterrupt
    trouble = decoder.trouble()
    if done is None:
        last = trouble.splitlines()[-1] if trouble else "it gave no reason"
        raise SpoolKeptError(f"the decoder died: {last}. What was captured is kept in {Path(job.spool).parent}")
    if job.debug and trouble:
        live.say(trouble)
    measured.decoder_cpu_s, measured.trouble = done.cpu_s, done.trouble
    measured.records = Records.open(Path(job.out))
    if measured.lost_workers:
        lost = Path(job.out).with_name("lost")
        write_lost(lost, measured, job.records)
        measured.records = Records.open(Path(job.out), lost)
    return measured


def write_lost(folder: Path, measured: Measured, lines: str | None) -> None:
    """A failed record for each request that was sent but left no trace, because its worker died. Which ones those are is known from the plan's order:
    the first that are missing.
    """
    seen = set(measured.records.index.tolist())
    missing = (index for index in count() if index not in seen)
    with ColumnWriter(folder) as lost, RecordFile(lines) as file:
        for index in islice(missing, max(measured.sent - len(seen), 0)):
            record = Record(index=index, status=FAILED, reason="worker died", error=f"the worker process died: {measured.lost_workers[0]}")
            lost.add(record)
            file.add(record)


class _Watch:
    """Follows a running phase: shows how far it is, stops it when it is time to."""

    def __init__(self, processes: Processes, planned: int, last_due_ns: int | None, start_ns: int, rules: Rules, live: Live) -> None:
        self.processes, self.planned, self.start_ns, self.rules, self.live = processes, planned, start_ns, rules, live
        self.last_due_s = rules.duration_s if last_due_ns is None else last_due_ns / 1e9
        self._stop_by: float | None = None
        self._cancelled_s: float | None = None

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

    def until_sent(self, interrupts: Interrupts) -> Measured:
        """Wait until every worker is done."""
        running = list(self.processes.workers)
        measured = Measured(records=Records([]), planned=self.planned, start_ns=self.start_ns)
        while running:
            ready, _, _ = select.select(running, [], [], LOOK_S)
            for child in ready:
                for line in child.answers():
                    answer = msgspec.json.decode(line, type=Answer)
                    measured.sent += answer.sent
                    measured.health.append(answer.health)
                    running.remove(child)
                if child.ended and child in running:  # it died: what it spooled is still there
                    running.remove(child)
                    row = self.processes.counters.row(1 + self.processes.workers.index(child))
                    measured.sent += row[Count.SENT]
                    measured.lost_workers.append(child.trouble().splitlines()[-1] if child.trouble() else "no reason given")
            self._stop(measured, interrupts)
            if self._cancelled_s is not None and time.monotonic() > self._cancelled_s + PATIENCE_S:
                for child in running:  # it hears nothing any more: stopped, or stuck in the kernel
                    child.kill()
            self.show("running" if self._stop_by is None else "draining")
        measured.wall_s = (time.monotonic_ns() - self.start_ns) / 1e9
        return measured

    def _stop(self, measured: Measured, interrupts: Interrupts) -> None:
        """Look whether it is time to stop sending, or to end what is still in flight."""
        if interrupts.count and measured.stopped != "interrupt":
            measured.stopped = "interrupt"
            self._stop_by = min(self._stop_by or float("inf"), time.monotonic() + self.rules.grace_s)
            self.processes.tell(Order(do="stop"))
            grace = f"{self._in_flight()} in flight get {self.rules.grace_s:g} s (Ctrl-C again ends them at once)"
            self.live.say(f"interrupted: no more is sent; {grace}")
        elif self._stop_by is None and (reason := self._rule()):
            measured.stopped = reason
            self._stop_by = time.monotonic() + self.rules.grace_s
            self.processes.tell(Order(do="stop"))
        if self._stop_by is not None and self._cancelled_s is None and (interrupts.count > 1 or time.monotonic() > self._stop_by):
            self._cancelled_s = time.monotonic()
            self.processes.tell(Order(do="cancel"))

    def _rule(self) -> str:
        """The rule that ends the run now, or ""."""
        rules = self.rules
        if rules.duration_s is not None and time.monotonic_ns() - self.start_ns > rules.duration_s * 1e9 + OVERTIME_NS:
            return "duration"
        if rules.max_error_rate is not None:
            decoded = self.processes.counters.row(0)
            failed, ended = decoded[Decoded.FAILED], decoded[Decoded.FAILED] + decoded[Decoded.COMPLETED]
            if ended >= ENOUGH_ENDED and failed > rules.max_error_rate * ended:
                return "error rate"
        return ""

    def _in_flight(self) -> int:
        return self.processes.counters.total(Count.SENT) - self.processes.counters.total(Count.ENDED)
