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
import sys
from pathlib import Path

import msgspec

from loadstone.engine.counters import Counters
from loadstone.engine.pacing import Feed, SharedQueue, Stripe
from loadstone.engine.settings import Job, Phase
from loadstone.engine.worker import Worker
from loadstone.plan import NONE


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
    problem: str = ""
    cpu_s: float = 0.0


class Orders:
    """Reads orders from a descriptor; those that a running phase must hear act at once, the others wait their turn."""

    def __init__(self, fd: int) -> None:
        self.fd, self._rest, self.queue, self.closed = fd, b"", list[Order](), False
        self.worker: Worker | None = None

    def readable(self, _events: int = 0) -> None:
        data = os.read(self.fd, 1 << 16)
        if not data:
            self.closed = True
            if self.worker:
                self.worker.unwatch(self.fd)
                self.worker.cancel()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            order = msgspec.json.decode(line, type=Order)
            if order.do == "stop" and self.worker:
                self.worker.stop()
            elif order.do == "cancel" and self.worker:
                self.worker.cancel()
            else:
                self.queue.append(order)

    def line(self) -> bytes:
        """The first line, waited for."""
        while b"\n" not in self._rest:
            data = os.read(self.fd, 1 << 16)
            if not data:
                raise SystemExit(0)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def next(self) -> Order | None:
        """The next order, waited for; None when there will be none."""
        while not self.queue and not self.closed:
            self.readable()
        return self.queue.pop(0) if self.queue else None


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    orders = Orders(0)
    job = msgspec.json.decode(orders.line(), type=Job)
    counters = Counters(Path(job.counters)).row(1 + job.worker)
    worker = Worker(job, counters, orders.fd, orders.readable)
    feed: Feed | None = None
    phase: Phase | None = None
    while (order := orders.next()) is not None:
        orders.worker = worker
        if order.do == "prepare" and order.phase:
            phase = order.phase
            worker.prepare(phase)
            say(Answer(said="ready", open_connections=len(worker.connections)))
        elif order.do == "run" and phase:
            feed = _feed(job, phase)
            sent = worker.run(feed, order.start_ns)
            times = os.times()
            say(Answer(said="done", sent=sent, cpu_s=times.user + times.system))
        if orders.closed:
            break
    worker.close()


def _feed(job: Job, phase: Phase) -> Feed:
    """Capped or closed loops share one queue over several workers; else each has its stripe."""
    from loadstone.plan import Plan

    plan = Plan(Path(phase.plan))
    if job.workers == 1 or (phase.max_concurrency is None and (not len(plan) or plan.due_ns(0) != NONE)):
        return Stripe(job.worker, job.workers, len(plan))
    return SharedQueue(Path(phase.spool) / "next", len(plan))


def say(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
