"""Time-outs: connections and requests whose time has run out, and replies that fell silent after their end. Looked at a few times a second."""

from loadstone.engine.ends import End
from loadstone.engine.pool import Pool
from loadstone.engine.settings import Job


class Timeouts:
    """The limits of a job, held against the connections of its pools."""

    def __init__(self, job: Job, pools: list[Pool]) -> None:
        self._job, self._pools = job, pools
        self._connect_ns, self._request_ns, self._idle_ns = (
            int(seconds * 1e9) for seconds in (job.connect_timeout_s, job.request_timeout_s, job.idle_timeout_s)
        )
        self._late = f"not finished within {job.request_timeout_s:g} s (--request-timeout)"

    def look(self, now: int) -> None:
        for pool in self._pools:
            if self._job.retries:
                pool.lose_late(now - self._request_ns, self._late)
            self._look_at(pool, now)

    def _look_at(self, pool: Pool, now: int) -> None:
        for connection in list(pool.connections):
            if connection.index is None:
                if connection.opening and now - connection.opened_ns > self._connect_ns:
                    pool.too_late(connection)
                continue
            if len(connection.reads) != connection.checked_reads:
                connection.checked_reads, connection.quiet_since_ns = len(connection.reads), now
            elif connection.reads and connection.fed < len(connection.reads) and connection.prove().complete:
                connection.over()  # its end had come, with more bytes behind it
                continue
            elif connection.says_done():
                connection.fail(End.OPEN_AFTER_DONE, "the server said [DONE] and left the reply open")
                continue
            if now - connection.sent_ns > self._request_ns:
                connection.fail(End.REQUEST_TIMEOUT, self._late)
            elif self._idle_ns and now - connection.quiet_since_ns > self._idle_ns:
                connection.fail(End.IDLE_TIMEOUT, f"no byte for {self._job.idle_timeout_s:g} s (--idle-timeout)")
