"""The connections of a worker to one server: opened ahead of need, given to requests, kept alive, replaced."""

import socket
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from loadstone.engine.clock import KERNEL_STAMPS
from loadstone.engine.connection import HEAD, Connection
from loadstone.engine.counters import Count
from loadstone.engine.ends import End
from loadstone.engine.errand import Errand
from loadstone.engine.redirect import moved
from loadstone.engine.settings import Job
from loadstone.engine.sockets import Sockets
from loadstone.engine.user_clock import UserClockConnection

if TYPE_CHECKING:
    import ssl

OPENING = 64  # connects under way at once before the clock starts: a listener's backlog is short


class Bound(NamedTuple):
    """A request for which a connection of its own is being made, and how many addresses are left to try."""

    errand: Errand
    left: int


class Pool:
    """`body(index)` gives the body of a request; `lost(pool, errand, end, detail)` hears of one that got no connection."""

    def __init__(
        self,
        job: Job,
        number: int,
        sockets: Sockets,
        counters: memoryview,
        body: Callable[[int], bytes],
        lost: "Callable[[Pool, Errand, End, str], None]",
    ) -> None:
        self.job, self.number, self.counters = job, number, counters
        self.site = job.sites[number]
        self.head, self._tail = b"", job.tail.encode("latin-1")  # of a request, the first up to its number
        self._body, self._lost = body, lost
        self.kernel_stamps = KERNEL_STAMPS and job.clock != "user"
        self.tls_context: ssl.SSLContext | None = None
        self._kind: type[Connection] = Connection if self.kernel_stamps else UserClockConnection
        if self.site.tls:
            from loadstone.engine.tls import TlsConnection, context_of

            self._kind, self.tls_context = TlsConnection, context_of(self.site.tls)
        self._sockets = sockets
        self.watch, self.unwatch, self.ends = sockets.watch, sockets.unwatch, sockets.ends
        self.connections: set[Connection] = set()
        self.idle: list[Connection] = []
        self.in_flight = 0  # requests that are on this server, or on their way
        self.opening = 0
        self._waiting: deque[Errand] = deque()
        self._again: deque[Errand] = deque()  # second tries: they wait for a connection that is new
        self._bound: dict[Connection, Bound] = {}  # where each request has a connection of its own
        self._address = 0  # the one of site.addresses that answers
        self._refused, self._trouble = 0, ""  # addresses that failed in a row, and the last one's words
        self.refused_ns = 0  # when a connection last could not be made

    def begin(self, id_mark: str) -> None:
        """A phase begins, in whose request ids `id_mark` stands before the number."""
        self.head = (self.site.head + id_mark).encode("latin-1")

    def unstamped(self) -> None:
        self.counters[Count.UNSTAMPED] += 1

    # opening

    def open_ahead(self, wanted: int, timeout_s: float, stopped: Callable[[], bool]) -> None:
        """Have `wanted` connections open, or as many as can be had before it is `stopped`: what is missing shows when it is needed."""
        if self.job.fresh:
            return
        self._refused, until = 0, time.monotonic() + timeout_s
        while (self.opening or len(self.connections) < wanted) and self._refused < len(self.site.addresses):
            if stopped() or time.monotonic() > until:
                return
            while self.opening < OPENING and len(self.connections) < wanted and self.open():
                pass
            self._sockets.turn(0.05)

    def open(self, bound: Bound | None = None, began_ns: int | None = None) -> bool:
        """Begin a new connection. False when not even that was possible. `bound`: it is for that request, which has waited since `began_ns`."""
        addresses = self.site.addresses
        for _ in addresses:
            try:
                connection = self._kind(self, addresses[self._address])
            except OSError as error:
                self._failed(self._named(error.strerror or str(error)))
            else:
                if bound:
                    self._bound[connection] = bound
                if began_ns is not None:
                    connection.opened_ns = began_ns
                self.connections.add(connection)
                self.opening += 1
                self.counters[Count.CONNECTIONS] += 1
                return True
        return False

    def _failed(self, problem: str) -> None:
        self._trouble = problem
        self._refused += 1
        self.refused_ns = time.monotonic_ns()
        self._address = (self._address + 1) % len(self.site.addresses)

    def _named(self, problem: str) -> str:
        """`problem` as that of the proxy or of the socket file, where the way leads over one."""
        if problem.startswith(("TLS", "the proxy")):
            return problem
        if self.site.addresses[0].family == socket.AF_UNIX:
            return f"--uds {self.site.addresses[0].place}: {problem}"
        return f"the proxy {self.site.route.proxy}: {problem}" if self.site.route.proxy else problem

    def connected(self, connection: Connection) -> None:
        self.opening -= 1
        self._refused = 0
        if self._bound and (bound := self._bound.pop(connection, None)):
            self._send(connection, bound.errand)
        elif self._again:
            self._send(connection, self._again.popleft())
        else:
            self.free(connection)

    def connect_failed(self, connection: Connection, problem: str) -> None:
        """Try the next address; when all have failed, the request that waited longest gets no connection."""
        self.opening -= 1
        problem = self._named(problem)
        self._failed(problem)
        bound = self._bound.pop(connection, None)
        self.discard(connection)
        if bound:
            errand, left = bound
            if left < 2 or not self.open(Bound(errand, left - 1), connection.opened_ns):
                self._lost(self, errand, End.NOT_CONNECTED, problem)
            return
        if self._wanted() > self.opening and not (self._refused < len(self.site.addresses) and self.open()):
            self._lost(self, self._oldest(), End.NOT_CONNECTED, problem)

    def too_late(self, connection: Connection) -> None:
        """A connect that has taken too long."""
        self.opening -= 1
        self._failed(self._named(f"no connection within {self.job.connect_timeout_s:g} s (--connect-timeout)"))
        bound = self._bound.pop(connection, None)
        self.discard(connection)
        if bound:
            self._lost(self, bound.errand, End.CONNECT_TIMEOUT, self._trouble)
        elif self._wanted() > self.opening:
            self._lost(self, self._oldest(), End.CONNECT_TIMEOUT, self._trouble)

    # giving and taking back

    def assign(self, errand: Errand) -> None:
        """Give a request a connection: an idle one, else a new one as soon as it is open."""
        self.in_flight += 1
        if self.job.fresh:
            self._open_for(errand)
            return
        if self.idle:
            self._send(self.idle.pop(), errand)
            return
        self._waiting.append(errand)
        self._open_for_waiting()

    def _wanted(self) -> int:
        """Requests that wait for a connection."""
        return len(self._waiting) + len(self._again)

    def _oldest(self) -> Errand:
        return (self._again or self._waiting).popleft()

    def _send(self, connection: Connection, errand: Errand) -> None:
        body = self._body(errand.number)
        request = b"%b%d%b%d\r\n\r\n%b" % (self.head, errand.number, self._tail, len(body), body)
        if errand.moved:
            request = errand.moved.over(request)
        connection.send(errand, request)

    def free(self, connection: Connection) -> None:
        """A connection may carry a request: one that waits for it, else it is idle."""
        if self._waiting:
            self._send(connection, self._waiting.popleft())
        elif self.job.fresh:
            self.discard(connection)
        else:
            connection.index = None
            connection.mode = HEAD  # so that bytes that nobody asked for are looked at
            connection.warm = True
            self.idle.append(connection)

    def take_back(self, connection: Connection, *, reusable: bool) -> None:
        """The request on this connection is no longer on it, and what was read is somebody else's by now."""
        self.in_flight -= 1
        if connection.framing is not None:
            connection.framing.close()
        connection.stamps, connection.reads, connection.framing = [], [], None
        connection.served += 1
        if reusable and not connection.unsent:
            connection.warm = True
            self.free(connection)
        else:
            self.retire(connection)

    def discard(self, connection: Connection) -> None:
        """Close and forget a connection."""
        connection.index = None
        connection.close()
        self.connections.discard(connection)
        if connection in self.idle:
            self.idle.remove(connection)

    def replace(self, connection: Connection) -> None:
        """The server had closed this connection before it read the request on it: send that again, once, on a new one."""
        errand = connection.errand._replace(tries=2, sent_ns=connection.sent_ns)
        self.discard(connection)
        self.counters[Count.REPLACED] += 1
        self._anew(errand)

    def follow(self, connection: Connection, *, reusable: bool) -> bool:
        """The reply on this connection redirects its request: send it there, its time running from the first send. False where that is not to be
        followed.
        """
        place = moved(b"".join(connection.reads), self.head, connection.errand.moved, self.site.route)
        if place is None:
            return False
        assert connection.framing is not None
        errand = connection.errand._replace(sent_ns=connection.sent_ns, moved=place)
        self.counters[Count.REDIRECTED] += 1
        connection.framing.close()
        if reusable and not connection.unsent:
            connection.warm = True
            self._send(connection, errand)
        else:
            self.discard(connection)
            self._anew(errand)
        return True

    def _anew(self, errand: Errand) -> None:
        """Send a request again on a connection that is new."""
        if self.job.fresh:
            self._open_for(errand)
        else:
            self._again.append(errand)
            self._open_for_waiting()

    def _open_for(self, errand: Errand) -> None:
        """Make a connection for this request alone."""
        if not self.open(Bound(errand, len(self.site.addresses))):
            self._lost(self, errand, End.NOT_CONNECTED, self._trouble)

    def retire(self, connection: Connection) -> None:
        """A connection that carries no more requests; one that waits for a connection gets another."""
        self.discard(connection)
        self._open_for_waiting()

    def _open_for_waiting(self) -> None:
        if self.opening < self._wanted() and not self.open():
            self._lost(self, self._oldest(), End.NOT_CONNECTED, self._trouble)

    def lose_waiting(self, end: End, detail: str) -> None:
        while self._wanted():
            self._lost(self, self._oldest(), end, detail)
        while self._bound:  # what is being made for them is closed when it is there
            self._lost(self, self._bound.popitem()[1].errand, end, detail)

    def lose_late(self, since_ns: int, detail: str) -> None:
        """Lose the requests whose first try began before `since_ns` and that have no connection for a further one yet."""
        for queue in (self._waiting, self._again):
            for errand in [each for each in queue if each.sent_ns is not None and each.sent_ns < since_ns]:
                queue.remove(errand)
                self._lost(self, errand, End.REQUEST_TIMEOUT, detail)
        for connection, (errand, _) in list(self._bound.items()):
            if errand.sent_ns is not None and errand.sent_ns < since_ns:
                del self._bound[connection]
                self.opening -= 1
                self.discard(connection)
                self._lost(self, errand, End.REQUEST_TIMEOUT, detail)

    def close(self) -> None:
        for connection in list(self.connections):
            self.discard(connection)
