"""The worker: one process, one loop, that executes its share of a plan and captures what comes back.

Each turn of the loop takes a batch of ready sockets, sends what is due, then spends at most a slice on work that can wait: first the ends of
replies (proof by framing, the slot given to the next request), then the spool. So neither a thousand replies that end together nor a slow disk
stops the reading, and a request that is due does not wait for either.
"""

import gc
import time
from pathlib import Path

from loadstone.engine.clock import Timer
from loadstone.engine.connection import Connection
from loadstone.engine.counters import Count
from loadstone.engine.ends import End
from loadstone.engine.gauges import STALL_NS, Gauges
from loadstone.engine.pacing import Feed, Pacer
from loadstone.engine.poller import IN
from loadstone.engine.pool import BATCH, Errand, Pool
from loadstone.engine.redirect import FOLLOWED
from loadstone.engine.settings import Job, Phase
from loadstone.engine.spool import NO_TIME, Captured, SpoolWriter
from loadstone.plan import NONE, Plan

ENDS_SLICE_NS = 600_000
SWEEP_NS = 250_000_000  # time-outs are looked at this often
SPARE = 4  # idle connections kept ready in an open loop
BUSY = 32  # ready sockets in one batch that mean that more are waiting
PUT_OFF_NS = 5_000_000  # how long reads may keep the ends of replies and the spool waiting
LOOK_EVERY = 8  # turns of the loop between two samples of read lateness
NO_CAP = 1 << 60


class Worker:
    """Runs phases one after another over the same connections. `counters` is its row of the shared counters."""

    def __init__(self, job: Job, counters: memoryview) -> None:
        self.job, self.counters = job, counters
        self.pool = Pool(job, counters, self._request, self._lost)
        self._timer = Timer()
        if self._timer.fd is not None:
            self.pool.watch(self._timer.fd, IN, lambda _events: self._timer.clear())
        self._head, self._tail = b"", job.tail.encode("latin-1")
        self._pacer: Pacer  # of the phase that runs
        self.in_flight = self._sent = 0
        self.running = self.stopping = self.cancelling = False
        self._start_ns = 0  # of the phase that runs
        self._held_since_ns = 0  # sending has been held back since then, because decoding is too far behind; 0: it is not
        self.gauges = Gauges()

    # phases

    def prepare(self, phase: Phase) -> None:
        """Open the phase's plan and spool and make the connections it will need, before its clock starts."""
        job = self.job
        self._phase, self._plan = phase, Plan(Path(phase.plan))
        self._head = (job.head + phase.id_mark).encode("latin-1")
        self._spool = SpoolWriter(Path(phase.spool), job.worker, phase.segment_bytes, self.counters)
        self._cap = NO_CAP if phase.max_concurrency is None else _share(phase.max_concurrency, job)
        self.stopping = self.cancelling = False
        self.pool.open_ahead(_share(phase.connections, job), job.connect_timeout_s, lambda: self.cancelling)

    def run(self, feed: Feed, start_ns: int) -> int:
        """Execute the phase from `start_ns` on. Returns the number of requests sent."""
        self._pacer = Pacer(self._plan, feed, start_ns, self._phase.duration_ns)
        self._sent, self.running, self._start_ns = 0, True, start_ns
        if self.stopping:
            self.stop()
        try:
            return self._loop(start_ns)
        finally:  # whatever happens, what was captured is written
            self.running = False
            self._spool.close()
            gc.enable()

    def _loop(self, start_ns: int) -> int:
        pool, spool, pacer = self.pool, self._spool, self._pacer
        poll, handlers, ends, counters = pool.poller.poll, pool.handlers, pool.ends, self.counters
        gc.collect()
        gc.freeze()
        gc.disable()
        while (early_ns := start_ns - time.monotonic_ns()) > 0:
            pool.turn(early_ns / 1e9)
        self.gauges = gauges = Gauges()
        next_sweep_ns, put_off_ns, turns = time.monotonic_ns() + SWEEP_NS, 0, 0
        asleep_ns = time.monotonic_ns()
        while self.in_flight or (self._cap and pacer.has_next()):
            wait_s = self._until_next()
            ready = poll(wait_s, BATCH)
            woke = time.monotonic_ns()
            if woke - asleep_ns > wait_s * 1e9 + STALL_NS:
                gauges.overslept(woke - asleep_ns - int(wait_s * 1e9))
            for fd, events in ready:
                try:
                    handlers[fd](events)
                except Exception as error:  # a fault of ours with one connection must not cost the others
                    self._spoil(fd, error)
            turns += 1
            if ready and not turns % LOOK_EVERY:
                self._look(ready[-1][0])
            now = time.monotonic_ns()
            self._start_due(now)
            if len(ready) < BUSY or now > put_off_ns:  # while reads queue up, all else waits, but not for ever
                put_off_ns = now + PUT_OFF_NS
                if ends:
                    self._finish_some()
                elif spool.waiting:
                    spool.write_some()
            if now >= next_sweep_ns:
                next_sweep_ns = now + SWEEP_NS
                self._sweep(now)
            asleep_ns = time.monotonic_ns()
            gauges.turn(asleep_ns - woke)
        counters[Count.SENT] = self._sent
        return self._sent

    def _spoil(self, fd: int, error: Exception) -> None:
        """Fail the request on a connection that we could not handle; an error that is no connection's goes on."""
        connection = getattr(self.pool.handlers.get(fd), "__self__", None)
        if not isinstance(connection, Connection):
            raise error
        self.pool.unwatch(fd)
        connection.fail(End.BAD_HTTP, f"loadstone could not handle the reply: {type(error).__name__}: {error}")

    def _until_next(self) -> float:
        """Seconds the next poll may block: none while work waits; else until the next request is due (the timer wakes it) or a sweep."""
        if self.pool.ends or self._spool.waiting:
            return 0.0
        pacer = self._pacer
        if self.in_flight < self._cap and not self._held_since_ns and pacer.has_next():
            wait_ns = pacer.planned_ns - time.monotonic_ns()
            if pacer.planned_ns == NONE or wait_ns <= 0:
                return 0.0
            if self._timer.fd is None:
                return min(wait_ns, SWEEP_NS) / 1e9 if wait_ns > 1_000_000 else 0.0
            self._timer.arm(pacer.planned_ns)
        return SWEEP_NS / 1e9

    def _look(self, fd: int) -> None:
        """Sample how long the newest data had been there before it was read."""
        connection = getattr(self.pool.handlers.get(fd), "__self__", None)
        if isinstance(connection, Connection) and connection.index is not None and connection.stamps:
            stamp = connection.stamps[-1]
            if isinstance(stamp, bytes):
                self.gauges.read(stamp)

    # starting requests

    def _start_due(self, now: int) -> None:
        """Start every request that is due and has a slot; a batch at most, so that reading goes on."""
        pacer, pool = self._pacer, self.pool
        for _ in range(BATCH):
            if self.in_flight >= self._cap or self._held_since_ns or not pacer.has_next():
                return
            if pacer.planned_ns > now:
                break
            index, planned_ns = pacer.index, pacer.planned_ns
            pacer.sent()
            self.in_flight += 1
            self._sent += 1
            self.counters[Count.SENT] = self._sent
            pool.assign(Errand(index, planned_ns))
            if planned_ns != NONE and self.in_flight < self._cap:  # with a slot to spare, the cap has held nothing back
                self.gauges.send_late.add(time.monotonic_ns() - planned_ns)
        if pacer.planned_ns != NONE and not self.job.fresh and len(pool.idle) + pool.opening < SPARE and len(pool.connections) < self._cap:
            pool.open()

    def _request(self, index: int) -> bytes:
        body = self._plan.body(index % len(self._plan))
        return b"%b%d%b%d\r\n\r\n%b" % (self._head, index, self._tail, len(body), body)

    # ends of replies, between reads

    def _finish_some(self) -> None:
        until = time.monotonic_ns() + ENDS_SLICE_NS
        ends = self.pool.ends
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
            reusable = why is None and framing.reusable
            redirected = framing.status in FOLLOWED and not self.cancelling
            if not (redirected and self.pool.follow(connection, self._head, reusable=reusable)):
                self._capture(connection, End.COMPLETE, "", reusable=reusable)
        elif framing.broken:
            self._capture(connection, End.BAD_HTTP, framing.broken, reusable=False)
        elif why is None:
            return  # a payload that looked like an end
        elif why[0] == End.CLOSED and connection.reads and framing.ends_by_close(b"".join(connection.reads).partition(b"\r\n\r\n")[0]):
            self._capture(connection, End.COMPLETE, "", reusable=False)
        elif connection.was_stale and not self.cancelling:
            self.pool.replace(connection)
        else:
            self._capture(connection, *why, reusable=False)

    def _capture(self, connection: Connection, end: End, detail: str, *, reusable: bool) -> None:
        captured = Captured()
        assert connection.index is not None
        captured.index, captured.planned_ns, captured.sent_ns = connection.index, connection.planned_ns, connection.sent_ns
        captured.end_ns, captured.end, captured.detail = time.monotonic_ns(), end, detail
        made_for_it = not connection.served and connection.opened_ns >= self._start_ns
        captured.connect_ns, captured.tls_ns = (connection.connect_ns, connection.tls_ns) if made_for_it else (0, 0)
        captured.reused, captured.tries = connection.served > 0, connection.tries
        captured.stamps, captured.reads, captured.raw = connection.stamps, connection.reads, None
        if connection.framing is not None:
            connection.framing.close()
        connection.stamps, connection.reads, connection.framing = [], [], None
        connection.served += 1
        self.counters[Count.READS] += len(captured.reads)
        self._captured(captured)
        if reusable and not connection.unsent:
            connection.warm = True
            self.pool.free(connection)
        else:
            self.pool.retire(connection)

    def _lost(self, errand: Errand, end: End, detail: str) -> None:
        """A request that got no connection."""
        captured = Captured()
        captured.index, captured.planned_ns, captured.end_ns = errand.number, errand.planned_ns, time.monotonic_ns()
        captured.sent_ns = NO_TIME if errand.sent_ns is None else errand.sent_ns
        captured.connect_ns, captured.tls_ns, captured.end, captured.reused, captured.tries, captured.detail = 0, 0, end, False, errand.tries, detail
        captured.stamps, captured.reads, captured.raw = [], [], b""
        self._captured(captured)

    def _captured(self, captured: Captured) -> None:
        self.in_flight -= 1
        self.counters[Count.ENDED] += 1
        self._spool.waiting.append(captured)

    # time-outs and interrupts

    def stop(self) -> None:
        """Send no more; those in flight go on."""
        self.stopping = True
        if self.running:
            self._pacer.stop()

    def cancel(self) -> None:
        """Send no more and end those in flight."""
        self.cancelling = True
        self.stop()
        self.pool.lose_waiting(End.CANCELLED, "cancelled before a connection was open")
        for connection in list(self.pool.connections):
            if connection.index is not None:
                connection.fail(End.CANCELLED, "cancelled while in flight")

    def _sweep(self, now: int) -> None:
        """Look at every connection: has its time run out, has it fallen silent after the stream's end mark? And is decoding keeping up?"""
        self._spool.sample_clock()
        self._hold(now)
        job = self.job
        connect_ns, request_ns, idle_ns = (int(s * 1e9) for s in (job.connect_timeout_s, job.request_timeout_s, job.idle_timeout_s))
        for connection in list(self.pool.connections):
            if connection.index is None:
                if connection.opening and now - connection.opened_ns > connect_ns:
                    self.pool.too_late(connection)
                continue
            if len(connection.reads) != connection.checked_reads:
                connection.checked_reads, connection.quiet_since_ns = len(connection.reads), now
            elif connection.reads and connection.fed < len(connection.reads) and connection.prove().complete:
                connection.over()  # its end had come, with more bytes behind it
                continue
            elif connection.says_done():
                connection.fail(End.OPEN_AFTER_DONE, "the server said [DONE] and left the reply open")
                continue
            if now - connection.sent_ns > request_ns:
                connection.fail(End.REQUEST_TIMEOUT, f"not finished within {job.request_timeout_s:g} s (--request-timeout)")
            elif idle_ns and now - connection.quiet_since_ns > idle_ns:
                connection.fail(End.IDLE_TIMEOUT, f"no byte for {job.idle_timeout_s:g} s (--idle-timeout)")

    def _hold(self, now: int) -> None:
        """Send nothing while more of the spool than the limit waits to be decoded: disk use stays bounded, and the report says so."""
        behind = self.counters[Count.SPOOLED_BYTES] - self.counters[Count.DECODED_BYTES]
        limit = self._phase.spool_limit_bytes
        if self._held_since_ns and behind < limit // 2:
            self.gauges.held_ns += now - self._held_since_ns
            self._held_since_ns = 0
        elif not self._held_since_ns and behind > limit:
            self._held_since_ns = now

    def close(self) -> None:
        self.pool.close()
        self._timer.close()


def _share(total: int, job: Job) -> int:
    """This worker's part of a number that all workers share."""
    return total // job.workers + (job.worker < total % job.workers)
