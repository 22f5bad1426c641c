"""The worker: one process, one loop, that executes its share of a plan and captures what comes back.

Each turn of the loop takes a batch of ready sockets, sends what is due, then spends at most a slice on work that can wait: first the ends of
replies (proof by framing, the slot given to the next request), then the spool. So neither a thousand replies that end together nor a slow disk
stops the reading, and a request that is due does not wait for either.
"""

import gc
import time
from itertools import cycle
from pathlib import Path

from loadstone.engine.balance import Balance
from loadstone.engine.capture import answered, unanswered
from loadstone.engine.clock import Timer
from loadstone.engine.connection import Connection
from loadstone.engine.counters import Count
from loadstone.engine.ends import End
from loadstone.engine.errand import Errand
from loadstone.engine.gauges import STALL_NS, Gauges
from loadstone.engine.pacing import NEVER, Feed, Pacer
from loadstone.engine.poller import IN
from loadstone.engine.pool import Pool
from loadstone.engine.redirect import FOLLOWED
from loadstone.engine.retry import Retries
from loadstone.engine.settings import Job, Phase
from loadstone.engine.sockets import BATCH, Sockets
from loadstone.engine.spool import Captured, SpoolWriter
from loadstone.engine.timeouts import Timeouts
from loadstone.plan import NONE, Plan

ENDS_SLICE_NS = 600_000
SWEEP_NS = 250_000_000  # time-outs are looked at this often
SPARE = 4  # idle connections kept ready in an open loop
BUSY = 32  # ready sockets in one batch that mean that more are waiting
PUT_OFF_NS = 5_000_000  # how long reads may keep the ends of replies and the spool waiting
LOOK_EVERY = 8  # turns of the loop between two samples of read lateness
NO_CAP = 1 << 60
WAITED = "while it waited to be tried again (--retries)"


class Worker:
    """Runs phases one after another over the same connections. `counters` is its row of the shared counters."""

    def __init__(self, job: Job, counters: memoryview) -> None:
        self.job, self.counters = job, counters
        self.sockets = Sockets()
        self.pools = [Pool(job, number, self.sockets, counters, self._body, self._lost) for number in range(len(job.sites))]
        self._spares = cycle(self.pools)
        self._retries = Retries(job)
        self._timeouts = Timeouts(job, self.pools)
        self._timer = Timer()
        if self._timer.fd is not None:
            self.sockets.watch(self._timer.fd, IN, lambda _events: self._timer.clear())
        self._pacer: Pacer  # of the phase that runs
        self.in_flight = self._sent = 0
        self.running = self.stopping = self.cancelling = False
        self._start_ns, self._end_ns = 0, NEVER  # of the phase that runs
        self._held_since_ns = 0  # sending has been held back since then, because decoding is too far behind; 0: it is not
        self.gauges = Gauges()

    # phases

    def prepare(self, phase: Phase) -> None:
        """Open the phase's plan and spool and make the connections it will need, before its clock starts."""
        job = self.job
        self._phase, self._plan = phase, Plan(Path(phase.plan))
        self._balance = Balance(phase.balance, self._plan, self.pools)
        self._spool = SpoolWriter(Path(phase.spool), job.worker, phase.segment_bytes, self.counters)
        self._cap = NO_CAP if phase.max_concurrency is None else _share(phase.max_concurrency, job)
        self.stopping = self.cancelling = False
        wanted, servers = _share(phase.connections, job), len(self.pools)
        for pool in self.pools:
            pool.begin(phase.id_mark)
            pool.open_ahead(wanted // servers + (pool.number < wanted % servers), job.connect_timeout_s, lambda: self.cancelling)

    def run(self, feed: Feed, start_ns: int) -> int:
        """Execute the phase from `start_ns` on. Returns the number of requests sent."""
        self._pacer = Pacer(self._plan, feed, start_ns, self._phase.duration_ns)
        self._sent, self.running, self._start_ns = 0, True, start_ns
        self._end_ns = start_ns + self._phase.duration_ns if self._phase.duration_ns else NEVER
        if self.stopping:
            self.stop()
        try:
            return self._loop(start_ns)
        finally:  # whatever happens, what was captured is written
            self.running = False
            self._spool.close()
            gc.enable()

    def _loop(self, start_ns: int) -> int:
        sockets, spool, pacer = self.sockets, self._spool, self._pacer
        poll, handlers, ends, counters = sockets.poller.poll, sockets.handlers, sockets.ends, self.counters
        gc.collect()
        gc.freeze()
        gc.disable()
        while (early_ns := start_ns - time.monotonic_ns()) > 0:
            sockets.turn(early_ns / 1e9)
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
        connection = getattr(self.sockets.handlers.get(fd), "__self__", None)
        if not isinstance(connection, Connection):
            raise error
        self.sockets.unwatch(fd)
        connection.fail(End.BAD_HTTP, f"loadstone could not handle the reply: {type(error).__name__}: {error}")

    def _until_next(self) -> float:
        """Seconds the next poll may block: none while work waits; else until the next try of a request is due (the timer wakes it) or a sweep."""
        if self.sockets.ends or self._spool.waiting:
            return 0.0
        pacer, due_ns = self._pacer, self._retries.due_ns
        if self.in_flight < self._cap and not self._held_since_ns and pacer.has_next():
            if pacer.planned_ns == NONE:
                return 0.0
            due_ns = min(due_ns, pacer.planned_ns)
        return SWEEP_NS / 1e9 if due_ns == NEVER else self._timer.until(due_ns, SWEEP_NS)

    def _look(self, fd: int) -> None:
        """Sample how long the newest data had been there before it was read."""
        connection = getattr(self.sockets.handlers.get(fd), "__self__", None)
        if isinstance(connection, Connection) and connection.index is not None and connection.stamps:
            stamp = connection.stamps[-1]
            if isinstance(stamp, bytes):
                self.gauges.read(stamp)

    # starting requests

    def _start_due(self, now: int) -> None:
        """Start every request that is due and has a slot; a batch at most, so that reading goes on."""
        pacer = self._pacer
        if self._retries.due_ns <= now:
            self._try_again(now)
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
            self._balance.pick(index).assign(Errand(index, planned_ns, now))
            if planned_ns != NONE and self.in_flight < self._cap:  # with a slot to spare, the cap has held nothing back
                self.gauges.send_late.add(time.monotonic_ns() - planned_ns)
        if pacer.planned_ns != NONE and not self.job.fresh:
            pool = next(self._spares)
            if len(pool.idle) + pool.opening < SPARE and len(pool.connections) < self._cap:
                pool.open()

    def _body(self, index: int) -> bytes:
        return self._plan.body(index % len(self._plan))

    # ends of replies, between reads

    def _finish_some(self) -> None:
        until = time.monotonic_ns() + ENDS_SLICE_NS
        ends = self.sockets.ends
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
            if not (redirected and connection.pool.follow(connection, reusable=reusable)):
                self._capture(connection, End.COMPLETE, "", reusable=reusable)
        elif framing.broken:
            self._capture(connection, End.BAD_HTTP, framing.broken, reusable=False)
        elif why is None:
            return  # a payload that looked like an end
        elif why[0] == End.CLOSED and connection.reads and framing.ends_by_close(b"".join(connection.reads)):
            self._capture(connection, End.COMPLETE, "", reusable=False)
        elif connection.was_stale and not self.cancelling:
            connection.pool.replace(connection)
        else:
            self._capture(connection, *why, reusable=False)

    def _capture(self, connection: Connection, end: End, detail: str, *, reusable: bool) -> None:
        if self.job.retries and not self.stopping and self._retries.take_reply(connection, end, self._end_ns):
            connection.pool.take_back(connection, reusable=reusable)
            return
        captured = answered(connection, end, detail, self._start_ns)
        self.counters[Count.READS] += len(captured.reads)
        self._captured(captured)
        connection.pool.take_back(connection, reusable=reusable)

    def _lost(self, pool: Pool, errand: Errand, end: End, detail: str) -> None:
        """A request that got no connection."""
        pool.in_flight -= 1
        if not (self.job.retries and not self.stopping and self._retries.take_lost(pool, errand, end, self._end_ns)):
            self._captured(unanswered(errand, pool, end, detail))

    def _captured(self, captured: Captured) -> None:
        self.in_flight -= 1
        self.counters[Count.ENDED] += 1
        self._spool.waiting.append(captured)

    # further tries

    def _try_again(self, now: int) -> None:
        """Start the tries that are due. What has waited beyond the end of the phase's duration is not tried again."""
        for errand, pool in self._retries.due(now):
            if now >= self._end_ns:
                self._captured(unanswered(errand, pool, End.CANCELLED, WAITED))
            else:
                self._balance.another(errand.number, pool).assign(errand._replace(began_ns=now))

    # interrupts

    def stop(self) -> None:
        """Send no more; those in flight go on, those that wait to be tried again do not."""
        self.stopping = True
        if self.running:
            self._pacer.stop()
            for errand, pool in self._retries.all():
                self._captured(unanswered(errand, pool, End.CANCELLED, WAITED))

    def cancel(self) -> None:
        """Send no more and end those in flight."""
        self.cancelling = True
        self.stop()
        for pool in self.pools:
            pool.lose_waiting(End.CANCELLED, "cancelled before a connection was open")
            for connection in list(pool.connections):
                if connection.index is not None:
                    connection.fail(End.CANCELLED, "cancelled while in flight")

    def _sweep(self, now: int) -> None:
        """Look at every connection: has its time run out, has it fallen silent after the stream's end mark? And is decoding keeping up?"""
        self._spool.sample_clock()
        self._hold(now)
        self._timeouts.look(now)

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
        for pool in self.pools:
            pool.close()
        self.sockets.close()
        self._timer.close()


def _share(total: int, job: Job) -> int:
    """This worker's part of a number that all workers share."""
    return total // job.workers + (job.worker < total % job.workers)
