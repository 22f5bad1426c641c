"""Executing a plan: start all workers at one instant, follow them, stop them by rule or by a person's interrupt, decode what they captured."""

import select
import time
from pathlib import Path

import msgspec

from loadstone.bench.decoder import DecoderJob
from loadstone.bench.decoding import Decoding
from loadstone.bench.interrupts import Interrupts
from loadstone.bench.kept import SpoolKeptError, let_stay
from loadstone.bench.lost import note_of_lost, write_lost
from loadstone.bench.processes import Processes
from loadstone.engine.counters import Count, Decoded
from loadstone.engine.gauges import Health
from loadstone.engine.process import Answer, Order
from loadstone.engine.settings import Phase
from loadstone.records import Records
from loadstone.report.live import Live, Progress

START_DELAY_NS = 20_000_000  # from the order to the start: every worker has heard it by then
LOOK_S = 0.1
OVERTIME_NS = 250_000_000  # the workers themselves stop sending at the end of the duration; the parent sees to it after this
PATIENCE_S = 10.0  # that a worker has to hear that all is cancelled
DECODER = "decoder died"  # why a load was stopped
ENOUGH_ENDED = 20  # requests that must be over before an error rate means anything


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """When to stop before the plan is done. `duration_s`: send nothing later than this; `max_error_rate`: give up when more than this share of the
    requests that are over has failed. Requests in flight then get `grace_s`, and are cancelled.
    """

    grace_s: float
    duration_s: float | None = None
    max_error_rate: float | None = None


class Measured(msgspec.Struct, kw_only=True):
    """What one phase left behind. `stopped` says why it was ended early: "" if it was not, else interrupt, duration, error rate, decoder died."""

    records: Records
    planned: int
    start_ns: int
    sent: int = 0
    stopped: str = ""
    lost_workers: list[str] = []
    health: list[Health] = []
    notes: list[str] = []  # what a reader of the report must know of the decoding
    decoder_died: bool = False  # so often that it was given up
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

    Raises SpoolKeptError if the records have no place on the disk: the spool is then still there.
    """
    processes.prepare(phase)
    decoding = Decoding(processes, job, live.say)
    start_ns = time.monotonic_ns() + START_DELAY_NS
    processes.tell(Order(do="run", start_ns=start_ns))
    watch = _Watch(processes, decoding, planned, last_due_ns, start_ns, rules, live)
    with interrupts.counted():
        measured = watch.until_sent(interrupts)
        decoding.finish()
        interrupted = interrupts.count
        while not decoding.over:
            select.select(decoding.children, [], [], LOOK_S)
            decoding.look()
            watch.show("decoding")
            if interrupts.count > interrupted:
                live.say("what was captured is being decoded for the report; Ctrl-C again leaves it")
                if interrupts.count > interrupted + 1:
                    raise KeyboardInterrupt
    if job.debug and (trouble := processes.decoder.trouble()):
        live.say(trouble)
    measured.decoder_cpu_s = decoding.cpu_s
    measured.notes += decoding.notes()
    if decoding.done and decoding.done.trouble:
        measured.notes.append(decoding.done.trouble)
    folders = decoding.folders
    if measured.lost_workers or decoding.given_up:
        folders.append(Path(job.out) / "lost")
        try:
            lost = write_lost(folders[-1], decoding, measured)
        except OSError as error:
            raise SpoolKeptError(f"the records cannot be written ({error}). What was captured is kept in {Path(job.spool).parent}") from None
        if decoding.given_up:
            measured.decoder_died, measured.stopped = True, measured.stopped or DECODER
            if lost and not phase.id_mark:  # else it was a warm-up, of which nobody wants to know
                let_stay(Path(job.spool).parent)
                measured.notes.append(note_of_lost(lost, Path(job.spool).parent))
    measured.records = Records.open(*folders)
    return measured


class _Watch:
    """Follows a running phase: shows how far it is, stops it when it is time to."""

    def __init__(
        self, processes: Processes, decoding: Decoding, planned: int, last_due_ns: int | None, start_ns: int, rules: Rules, live: Live
    ) -> None:
        self.processes, self.decoding, self.planned, self.start_ns, self.rules, self.live = processes, decoding, planned, start_ns, rules, live
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
            ready, _, _ = select.select([*running, *self.decoding.children], [], [], LOOK_S)
            self.decoding.look()
            for child in [each for each in running if each in ready]:
                for line in child.answers():
                    answer = msgspec.json.decode(line, type=Answer)
                    measured.sent += answer.sent
                    measured.health.append(answer.health)
                    running.remove(child)
                if child.ended and child in running:  # it died: what it spooled is still there
                    running.remove(child)
                    row = self.processes.counters.row(1 + self.processes.workers.index(child))
                    measured.sent += row[Count.SENT]
                    measured.lost_workers.append(child.why)
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
        if self.decoding.given_up:  # what is captured from now on would fill the disk
            return DECODER
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
