"""A worker as a process: its job and its orders come as JSON lines on standard input, its answers go to standard output.

    -> {job}                       first line
    -> {"do": "prepare", phase}    <- ready
    -> {"do": "run", start_ns}     <- done {sent}
    -> {"do": "stop"} | {"do": "cancel"}      at any time
    end of input                   cancel, write the spool, leave

It looks at its parent through this and the shared counters only.
"""

import os
import signal
from pathlib import Path

import msgspec

from loadstone.engine.counters import Counters
from loadstone.engine.gauges import Health
from loadstone.engine.lines import Lines
from loadstone.engine.pacing import Feed, SharedQueue, Stripe
from loadstone.engine.poller import IN
from loadstone.engine.settings import Job, Phase
from loadstone.engine.worker import Worker
from loadstone.plan import NONE, Plan

ENDLESS = 1 << 62


class Order(msgspec.Struct, kw_only=True):
    """What the parent asks for."""

    do: str  # prepare, run, stop, cancel
    phase: Phase | None = None
    start_ns: int = 0


class Answer(msgspec.Struct, kw_only=True):
    """What the worker says."""

    said: str  # ready, done
    sent: int = 0
    open_connections: int = 0
    health: Health = Health()


class Orders:
    """Orders from a pipe. Those that a running phase must hear act at once, the others wait their turn."""

    def __init__(self, lines: Lines, worker: Worker) -> None:
        self._lines, self._worker = lines, worker
        self._waiting: list[Order] = []

    def readable(self, _events: int = 0) -> None:
        """Take what has come while a phase runs."""
        for line in self._lines.arrived():
            self._hear(line)
        if self._lines.closed:
            self._worker.sockets.unwatch(self._lines.fd)
            self._worker.cancel()

    def next(self) -> Order | None:
        """The next order, waited for; None when there will be none."""
        while not self._waiting:
            line = self._lines.next()
            if line is None:
                return None
            self._hear(line)
        return self._waiting.pop(0)

    def _hear(self, line: bytes) -> None:
        order = msgspec.json.decode(line, type=Order)
        if order.do == "stop":
            self._worker.stop()
        elif order.do == "cancel":
            self._worker.cancel()
        else:
            self._waiting.append(order)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    lines = Lines(0)
    line = lines.next()
    if line is None:
        return
    job = msgspec.json.decode(line, type=Job)
    worker = Worker(job, Counters(Path(job.counters)).row(1 + job.worker))
    orders = Orders(lines, worker)
    worker.sockets.watch(lines.fd, IN, orders.readable)
    phase: Phase | None = None
    while (order := orders.next()) is not None:
        if order.do == "prepare" and order.phase:
            phase = order.phase
            worker.prepare(phase)
            say(Answer(said="ready", open_connections=sum(len(pool.connections) for pool in worker.pools)))
        elif order.do == "run" and phase:
            sent = worker.run(_feed(job, phase), order.start_ns)
            say(Answer(said="done", sent=sent, health=worker.gauges.health()))
    worker.close()


def _feed(job: Job, phase: Phase) -> Feed:
    """Capped or closed loops share one queue over several workers; else each has its stripe."""
    plan = Plan(Path(phase.plan))
    requests = ENDLESS if phase.repeat and len(plan) else len(plan)
    if job.workers == 1 or (phase.max_concurrency is None and (not len(plan) or plan.due_ns(0) != NONE)):
        return Stripe(job.worker, job.workers, requests)
    return SharedQueue(Path(phase.spool) / "next", requests)


def say(answer: Answer) -> None:
    os.write(1, msgspec.json.encode(answer) + b"\n")


if __name__ == "__main__":
    main()
