"""The worker: one process, one loop, that executes its share of a plan and captures what comes back.

Each turn of the loop takes a batch of ready sockets, sends what is due, then spends at most a slice on work that can wait: first the ends of
replies (proof by framing, the slot given to the next request), then the spool. So neither a thousand replies that end together nor a slow disk
stops the reading, and a request that is due does not wait for either.
"""

import gc
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.engine.clock import KERNEL_STAMPS, Timer
from loadstone.engine.connection import HEAD, Connection, UserClockConnection
from loadstone.engine.counters import Count
from loadstone.engine.ends import End
from loadstone.engine.pacing import Feed, Pacer
from loadstone.engine.poller import IN, new_poller
from loadstone.engine.settings import Job, Phase
from loadstone.engine.spool import NO_TIME, Captured, SpoolWriter
from loadstone.plan import NONE, Plan

if TYPE_CHECKING:
    import ssl

BATCH = 128  # sockets read between two looks at what is due
ENDS_SLICE_NS = 600_000
SWEEP_NS = 250_000_000  # time-outs are looked at this often
OPENING = 64  # connects under way at once while warming up
SPARE = 4  # idle connections kept ready in an open loop


class Worker:
    """Runs phases one after another over the same connections. `counters` is its row of the shared counters."""

    def __init__(self, job: Job, counters: memoryview) -> None:
        self.job, self.counters = job, counters
        self.kernel_stamps = KERNEL_STAMPS and job.clock != "user"
        self._connection: type[Connection] = Connection if self.kernel_stamps else UserClockConnection
        self.tls_context: ssl.SSLContext | None = None
        if job.tls:
            from loadstone.engine.tls import TlsConnection, context_of

            self._connection, self.tls_context = TlsConnection, context_of(job.tls)
        self._poller, self._timer = new_poller(), Timer()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._watched: dict[int, int] = {}
        if self._timer.fd is not None:
            self.watch(self._timer.fd, IN, lambda _events: self._timer.clear())
        self._head = job.head.encode("latin-1")
        self._tail = job.tail.encode("latin-1")
        self._address = 0  # the one of job.addresses that answers
        self.connections: set[Connection] = set()
        self.idle: list[Connection] = []
        self.opening = 0
        self.ends: deque[Connection] = deque()
        self._waiting: deque[tuple[int, int, int, int]] = deque()  # due requests without a connection yet: index, planned, tries, sent
        self.in_flight = 0
        self._pacer: Pacer  # of the phase that runs
        self.running = self.stopping = self.cancelling = False
        self._last_connect_error, self._refused = "", 0  # addresses that failed in a row

    # watching descriptors

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        self._handlers[fd] = handler
        had = self._watched.get(fd)
        if had is None:
            self._poller.register(fd, events)
        elif had != events:
            self._poller.modify(fd, events)
        self._watched[fd] = events

    def unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._poller.unregister(fd)
            self._handlers.pop(fd, None)

    # phases

    def prepare(self, phase: Phase) -> None:
        """Open the phase's plan and spool and make the connections it will need, before its clock starts."""
        self._phase, self._plan = phase, Plan(Path(phase.plan))
        self._spool = SpoolWriter(Path(phase.spool), self.job.worker, phase.segment_bytes, self.counters)
        workers, worker = self.job.workers, self.job.worker
        cap = phase.max_concurrency
        self._cap = (1 << 60) if cap is None else cap // workers + (worker < cap % workers)
        wanted = phase.connections // workers + (worker < phase.connections % workers)
        self._refused, until = 0, time.monotonic_ns() + int(self.job.connect_timeout_s * 1e9)
        while (self.opening or len(self.connections) < wanted) and self._refused < len(self.job.addresses) and time.monotonic_ns() < until:
            while self.opening < OPENING and len(self.connections) < wanted and self._open():
                pass
            self._turn(0.05)
        self.stopping = self.cancelling = False

    def run(self, feed: Feed, start_ns: int) -> int:
        """Execute the phase from `start_ns` on. Returns the number of requests sent."""
        counters, spool = self.counters, self._spool
        self._pacer = pacer = Pacer(self._plan, feed, start_ns)
        self.running = True
        if self.stopping:
            self.stop()
        self._sent = 0
        gc.collect()
        gc.freeze()
        gc.disable()
        while (early_ns := start_ns - time.monotonic_ns()) > 0:
            self._turn(early_ns / 1e9)
        self._next_sweep_ns = time.monotonic_ns() + SWEEP_NS
        while True:
            if not self.in_flight and not pacer.has_next():
                break
            self._turn(self._until_next())
            now = time.monotonic_ns()
            self._start_due(now)
            if self.ends:
                self._finish_some()
            elif spool.waiting:
                spool.write_some()
            if now >= self._next_sweep_ns:
                stall = now - self._next_sweep_ns
                if stall > counters[Count.LONGEST_STALL_NS]:
                    counters[Count.LONGEST_STALL_NS] = stall
                self._next_sweep_ns = now + SWEEP_NS
                self._sweep(now)
        self.running = False
        spool.close()
        gc.enable()
        return self._sent

    def _until_next(self) -> float:
        """Seconds the next poll may block: none while work waits; else until the next request is due (the timer wakes it) or a sweep."""
        if self.ends or self._spool.waiting:
            return 0.0
        pacer = self._pacer
        if self.in_flight < self._cap and pacer.has_next():
            wait_ns = pacer.planned_ns - time.monotonic_ns()
            if pacer.planned_ns == NONE or wait_ns <= 0:
                return 0.0
            if self._timer.fd is None:
                return min(wait_ns, SWEEP_NS) / 1e9 if wait_ns > 1_000_000 else 0.0
            self._timer.arm(pacer.planned_ns)
        return SWEEP_NS / 1e9

    def _turn(self, timeout: float) -> None:
        """Take one batch of ready sockets."""
        handlers = self._handlers
        for fd, events in self._poller.poll(timeout, BATCH):
            handler = handlers.get(fd)
            if handler is not None:  # an earlier one of this batch may have closed it
                handler(events)

    # starting requests

    def _start_due(self, now: int) -> None:
        """Start every request that is due and has a slot; a batch of reads at most, so that reading goes on."""
        pacer = self._pacer
        for _ in range(BATCH):
            if self.in_flight >= self._cap or not pacer.has_next():
                return
            if pacer.planned_ns > now:
                break
            index, planned_ns = pacer.index, pacer.planned_ns
            pacer.sent()
            self.in_flight += 1
            self._sent += 1
            self.counters[Count.SENT] = self._sent
            self._assign(index, planned_ns, 1, NO_TIME)
        if pacer.planned_ns != NONE and len(self.idle) + self.opening < SPARE and len(self.connections) < self._cap:
            self._open()

    def _assign(self, index: int, planned_ns: int, tries: int, sent_ns: int) -> None:
        """Give a request a connection: an idle one, else a new one as soon as it is open."""
        if self.idle:
            self.idle.pop().send(index, planned_ns, self._request(index), tries, None if sent_ns == NO_TIME else sent_ns)
            return
        self._waiting.append((index, planned_ns, tries, sent_ns))
        if self.opening < len(self._waiting) and not self._open():
            self._fail_waiting(End.NOT_CONNECTED, self._last_connect_error)

    def _request(self, index: int) -> bytes:
        body = self._plan.body(index)
        return b"%b%d%b%d\r\n\r\n%b" % (self._head, index, self._tail, len(body), body)

    # connections

    def _open(self) -> bool:
        """Begin a new connection. False when not even that was possible."""
        addresses = self.job.addresses
        for _ in addresses:
            try:
                connection = self._connection(self, addresses[self._address])
            except OSError as error:
                self._last_connect_error = error.strerror or str(error)
                self._refused += 1
                self._address = (self._address + 1) % len(addresses)
            else:
                self.connections.add(connection)
                self.opening += 1
                self.counters[Count.CONNECTIONS] += 1
                return True
        return False

    def connected(self, connection: Connection) -> None:
        self.opening -= 1
        self._refused = 0
        self._free(connection)

    def connect_failed(self, connection: Connection, problem: str) -> None:
        self.opening -= 1
        self._last_connect_error = problem
        self._address = (self._address + 1) % len(self.job.addresses)
        self._refused += 1
        self.discard(connection)
        if len(self._waiting) > self.opening and not (self._refused < len(self.job.addresses) and self._open()):
            self._fail_waiting(End.NOT_CONNECTED, problem)

    def _free(self, connection: Connection) -> None:
        """A connection may carry a request: one that waits for it, else it is idle."""
        if self._waiting:
            index, planned_ns, tries, sent_ns = self._waiting.popleft()
            connection.send(index, planned_ns, self._request(index), tries, None if sent_ns == NO_TIME else sent_ns)
        else:
            connection.index = None
            connection.mode = HEAD
            connection.warm = True
            self.idle.append(connection)

    def discard(self, connection: Connection) -> None:
        """Forget a connection."""
        connection.close()
        self.connections.discard(connection)
        if connection in self.idle:
            self.idle.remove(connection)

    def _fail_waiting(self, end: End, detail: str) -> None:
        """The request that waited longest gets no connection."""
        index, planned_ns, tries, sent_ns = self._waiting.popleft()
        captured = Captured()
        captured.index, captured.planned_ns, captured.sent_ns, captured.end_ns = index, planned_ns, sent_ns, time.monotonic_ns()
        captured.connect_ns, captured.end, captured.reused, captured.tries, captured.detail = 0, end, False, tries, detail
        captured.stamps, captured.reads, captured.raw = [], [], b""
        self._captured(captured)

    # ends of replies, between reads

    def _finish_some(self) -> None:
        until = time.monotonic_ns() + ENDS_SLICE_NS
        ends = self.ends
        while ends:
            self._finish(ends.popleft())
            now = time.monotonic_ns()
            self._start_due(now)
            if now > until:
                return

    def _finish(self, connection: Connection) -> None:
        """A reply that looks over: is it? If so, capture it and give its connection back."""
        connection.ended = False
        if connection.index is None:
            return
        why = connection.why
        framing = connection.prove()
        if framing.complete:
            self._capture(connection, End.COMPLETE, "", reusable=why is None and framing.reusable)
        elif framing.broken:
            self._capture(connection, End.BAD_HTTP, framing.broken, reusable=False)
        elif why is None:
            return  # a payload that looked like an end
        elif why[0] == End.CLOSED and connection.reads and framing.ends_by_close(b"".join(connection.reads).partition(b"\r\n\r\n")[0]):
            self._capture(connection, End.COMPLETE, "", reusable=False)
        elif why[0] in (End.CLOSED, End.RESET) and not connection.reads and connection.warm and connection.tries == 1 and not self.cancelling:
            self._replace(connection)
        else:
            self._capture(connection, *why, reusable=False)

    def _replace(self, connection: Connection) -> None:
        """The server had closed an idle connection before it read the request: send it again, once, on a new one."""
        index, planned_ns, sent_ns = connection.index, connection.planned_ns, connection.sent_ns
        assert index is not None
        self.discard(connection)
        self.counters[Count.REPLACED] += 1
        self._waiting.append((index, planned_ns, 2, sent_ns))
        if not self._open():
            self._fail_waiting(End.NOT_CONNECTED, self._last_connect_error)

    def _capture(self, connection: Connection, end: End, detail: str, *, reusable: bool) -> None:
        captured = Captured()
        assert connection.index is not None
        captured.index, captured.planned_ns, captured.sent_ns = connection.index, connection.planned_ns, connection.sent_ns
        captured.end_ns, captured.end, captured.detail = time.monotonic_ns(), end, detail
        captured.connect_ns = 0 if connection.warm else connection.connect_ns
        captured.reused, captured.tries = connection.served > 0, connection.tries
        captured.stamps, captured.reads, captured.raw = connection.stamps, connection.reads, None
        connection.stamps, connection.reads, connection.framing = [], [], None
        connection.served += 1
        self.counters[Count.READS] += len(captured.reads)
        self._captured(captured)
        if reusable and not self.job.close_connections:
            connection.warm = True
            self._free(connection)
        else:
            connection.index = None
            self.discard(connection)
            if self._waiting and self.opening < len(self._waiting) and not self._open():
                self._fail_waiting(End.NOT_CONNECTED, self._last_connect_error)

    def _captured(self, captured: Captured) -> None:
        self.in_flight -= 1
        self.counters[Count.ENDED] += 1
        self._spool.waiting.append(captured)

    # time-outs and interrupts

    def unstamped(self) -> None:
        self.counters[Count.UNSTAMPED] += 1

    def stop(self) -> None:
        """Send no more; those in flight go on."""
        self.stopping = True
        if self.running:
            self._pacer.stop()

    def cancel(self) -> None:
        """Send no more and end those in flight."""
        self.cancelling = True
        self.stop()
        while self._waiting:
            self._fail_waiting(End.CANCELLED, "cancelled before a connection was open")
        for connection in list(self.connections):
            if connection.index is not None:
                connection.fail(End.CANCELLED, "cancelled while in flight")

    def _sweep(self, now: int) -> None:
        """Look at every busy connection: has its time run out, has it fallen silent after the stream's end mark?"""
        self._spool.sample_clock()
        job = self.job
        connect_ns, request_ns, idle_ns = (int(s * 1e9) for s in (job.connect_timeout_s, job.request_timeout_s, job.idle_timeout_s))
        for connection in list(self.connections):
            if connection.index is None:
                if connection.connect_ns == 0 and connect_ns and now - connection.opened_ns > connect_ns:
                    self.opening -= 1
                    self.discard(connection)
                    if len(self._waiting) > self.opening:
                        self._fail_waiting(End.CONNECT_TIMEOUT, f"no connection within {job.connect_timeout_s:g} s (--connect-timeout)")
                continue
            if len(connection.reads) != connection.checked_reads:
                connection.checked_reads, connection.quiet_since_ns = len(connection.reads), now
            elif connection.says_done():
                connection.fail(End.OPEN_AFTER_DONE, "the server said [DONE] and left the reply open")
                continue
            if request_ns and now - connection.sent_ns > request_ns:
                connection.fail(End.REQUEST_TIMEOUT, f"not finished within {job.request_timeout_s:g} s (--request-timeout)")
            elif idle_ns and now - connection.quiet_since_ns > idle_ns:
                connection.fail(End.IDLE_TIMEOUT, f"no byte for {job.idle_timeout_s:g} s (--idle-timeout)")

    def close(self) -> None:
        for connection in list(self.connections):
            self.discard(connection)
        self._timer.close()
        self._poller.close()
