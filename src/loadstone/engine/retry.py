"""Trying again (--retries): after which ends, how long later, and the requests that wait for it. docs/servers.md states the rules for people.

A request that waits keeps its slot of --max-concurrency, and nothing else waits with it: the worker's timer wakes it.
"""

import re
import time
from collections.abc import Iterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

from loadstone.engine.ends import End
from loadstone.engine.errand import Attempt, Errand
from loadstone.engine.framing import final_head
from loadstone.engine.pacing import NEVER

if TYPE_CHECKING:
    from loadstone.engine.connection import Connection
    from loadstone.engine.pool import Pool
    from loadstone.engine.settings import Job

STATUSES = frozenset((429, 502, 503, 504, 529))  # too many requests, and a server or a gateway that is overloaded; 529 is Anthropic's word for it
NO_WAY = (End.NOT_CONNECTED, End.CONNECT_TIMEOUT)
CUT = (End.CLOSED, End.RESET)  # tried again if no byte of the reply had come
FIRST_S, MOST_S = 0.5, 8.0  # the longest back-off after the first try, and after any
NO_DATE = (ValueError, TypeError, IndexError, OverflowError, OSError)  # what a stranger's date can make of Python's parser
_AFTER = re.compile(rb"(?i)\r\nretry-after:[ \t]*([^\r\n]*)")
_DATE = re.compile(rb"(?i)\r\ndate:[ \t]*([^\r\n]*)")


def may_help(end: End, status: int, silent: bool) -> bool:
    """Whether another try may go better. `status` is that of the reply, 0 if its head had not come; `silent`: no byte of it had."""
    return status in STATUSES or end in NO_WAY or (silent and end in CUT)


def pause_ns(reply: bytes, seed: int, number: int, failed: int) -> int:
    """Nanoseconds between the end of try `failed` (from 1) of request `number` and the next one: what the reply's Retry-After asks for, else a random
    part, from a half to all, of 0.5 s that double with each try up to 8 s. The same for the same seed, whatever worker it is.
    """
    asked_s = retry_after_s(reply)
    if asked_s is None:
        longest_s = min(FIRST_S * 2.0 ** min(failed - 1, 10), MOST_S)
        asked_s = longest_s * Random(f"{seed} {number} {failed}").uniform(0.5, 1.0)
    return round(asked_s * 1e9)


def retry_after_s(reply: bytes) -> float | None:
    """Seconds that the reply's Retry-After asks to wait: a number, or a date held against the reply's own Date (else this machine's clock), so that
    two clocks that differ do no harm. None without a header that can be read.
    """
    head = final_head(reply) + b"\r\n"
    found = _AFTER.search(head)
    if found is None:
        return None
    text = found[1].decode("latin-1").strip()
    try:
        return min(max(float(text), 0.0), 1e9) if re.fullmatch(r"\d+(\.\d+)?", text) else max(_date_s(text) - _now_s(head), 0.0)
    except NO_DATE:
        return None


def _now_s(head: bytes) -> float:
    if date := _DATE.search(head):
        try:
            return _date_s(date[1].decode("latin-1"))
        except NO_DATE:
            pass
    return time.time()


def _date_s(text: str) -> float:
    date = parsedate_to_datetime(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


class Retries:
    """The requests of a worker that wait to be tried again. `due_ns` is when the first of them is to go; NEVER: there is none."""

    def __init__(self, job: "Job") -> None:
        self._most, self._seed, self._limit_ns = job.retries, job.seed, job.request_timeout_s * 1e9
        self._heap: list[tuple[int, int, Errand, Pool]] = []
        self.due_ns = NEVER

    def take_reply(self, connection: "Connection", end: End, end_ns: int) -> bool:
        """Whether the request on a connection, whose reply has come to `end`, is to be tried again; it then waits for that. See `_take`."""
        reads, framing = connection.reads, connection.framing
        status = framing.status if framing is not None and framing.has_head else 0
        if end == End.CANCELLED or not may_help(end, status, not reads):
            return False
        errand = connection.errand._replace(sent_ns=connection.sent_ns, began_ns=connection.put_ns)
        return self._take(connection.pool, errand, end, status, b"".join(reads), end_ns)

    def take_lost(self, pool: "Pool", errand: "Errand", end: End, end_ns: int) -> bool:
        """The same of a request that got no connection."""
        return may_help(end, 0, True) and self._take(pool, errand, end, 0, b"", end_ns)

    def _take(self, pool: "Pool", errand: "Errand", end: End, status: int, reply: bytes, end_ns: int) -> bool:
        """False if it has had all its tries, or if there would be no time for another. None waits beyond `end_ns`."""
        failed = len(errand.retried) + 1
        if failed > self._most:
            return False
        now, first_ns = time.monotonic_ns(), errand.began_ns if errand.sent_ns is None else errand.sent_ns
        due_ns = now + pause_ns(reply, self._seed, errand.number, failed)
        if due_ns - first_ns >= self._limit_ns:
            return False
        attempt = Attempt(pool.number, end, status, errand.began_ns, now)
        errand = Errand(errand.number, errand.planned_ns, now, sent_ns=first_ns, retried=(*errand.retried, attempt))
        heappush(self._heap, (min(due_ns, end_ns), errand.number, errand, pool))
        self.due_ns = self._heap[0][0]
        return True

    def due(self, now_ns: int) -> "Iterator[tuple[Errand, Pool]]":
        """Those whose time has come, with the pool of the server that they were on."""
        while self.due_ns <= now_ns:
            _, _, errand, pool = heappop(self._heap)
            self.due_ns = self._heap[0][0] if self._heap else NEVER
            yield errand, pool

    def all(self) -> "Iterator[tuple[Errand, Pool]]":
        """Every one of them."""
        return self.due(NEVER - 1)
