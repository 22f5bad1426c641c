"""What is kept of a request that is over, from its connection or from what waited for one."""

import time

from loadstone.engine.connection import Connection
from loadstone.engine.ends import End
from loadstone.engine.errand import Errand
from loadstone.engine.pool import Pool
from loadstone.engine.spool import NO_TIME, Captured


def answered(connection: Connection, end: End, detail: str, start_ns: int) -> Captured:
    """Of the request on a connection. `start_ns`: when the phase began; what connections took that were made before is not its own."""
    errand = connection.errand
    captured = _of(errand, connection.pool, end, detail)
    captured.sent_ns = connection.sent_ns
    made_for_it = not connection.served and connection.opened_ns >= start_ns
    captured.connect_ns, captured.tls_ns = (connection.connect_ns, connection.tls_ns) if made_for_it else (0, 0)
    captured.reused = connection.served > 0
    captured.stamps, captured.reads, captured.raw = connection.stamps, connection.reads, None
    return captured


def unanswered(errand: Errand, pool: Pool, end: End, detail: str) -> Captured:
    """Of a request that is on no connection."""
    captured = _of(errand, pool, end, detail)
    captured.sent_ns = NO_TIME if errand.sent_ns is None else errand.sent_ns
    captured.connect_ns, captured.tls_ns, captured.reused = 0, 0, False
    captured.stamps, captured.reads, captured.raw = [], [], b""
    return captured


def _of(errand: Errand, pool: Pool, end: End, detail: str) -> Captured:
    captured = Captured()
    captured.index, captured.planned_ns, captured.tries = errand.number, errand.planned_ns, errand.tries
    captured.end_ns, captured.end, captured.detail = time.monotonic_ns(), end, detail
    captured.server, captured.retried = pool.number, errand.retried
    return captured
