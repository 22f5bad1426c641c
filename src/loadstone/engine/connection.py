"""One connection: opening it, sending a request on it, and capturing what comes back.

Between the arrival of a byte and its time stamp nothing runs: the kernel stamps what it receives, and the reader only appends. A reply that looks
over is put on the pool's list of ends; the proof by HTTP's framing, the next request and the spool come between reads (see worker.py).
"""

import errno
import os
import re
import socket
import time
from typing import TYPE_CHECKING, Any

from loadstone.engine.clock import ask_for_stamps, stamp_now
from loadstone.engine.ends import End
from loadstone.engine.framing import Framing
from loadstone.engine.poller import IN, IN_EDGE, OUT
from loadstone.engine.settings import Address

if TYPE_CHECKING:
    from loadstone.engine.errand import Errand
    from loadstone.engine.pool import Pool

READ_BYTES = 65536
CARRIAGE_RETURN = 13
STALE_USED_NS = 100_000_000  # for one that has carried a request: there the race is a common one, and a proxy in between may take its time
STALE_NS = 15_000_000  # the news of a close while idle comes at once; what a busy machine may add to that is allowed for
CONTROL_BYTES = socket.CMSG_SPACE(16)
DONE_LINE = re.compile(rb"[\r\n]data: *\[DONE\](?:[\r\n]|\Z)")

UNUSUAL = (b"204", b"304", b"")  # replies without a body, whatever their head says
HEAD, CHUNKED, LENGTH, PARSED = range(4)  # how the end of the reply is looked for


class Connection:
    """A non-blocking socket with at most one request on it.

    States: opening, then idle or busy until closed. While busy, `index` is the request's number in the plan; while idle it is None.
    """

    __slots__ = (
        "checked_reads",
        "connect_ns",
        "ended",
        "errand",
        "failed_ns",
        "fd",
        "fed",
        "framing",
        "got",
        "index",
        "mode",
        "need",
        "opened_ns",
        "opening",
        "pool",
        "put_ns",
        "quiet_since_ns",
        "reads",
        "recvmsg",
        "sent_ns",
        "served",
        "sock",
        "stamps",
        "tls_ns",
        "unsent",
        "warm",
        "why",
    )

    def __init__(self, pool: "Pool", address: Address) -> None:
        self.pool = pool
        self.index: int | None = None
        self.errand: Errand  # the request on it, or the last one that was
        self.served = 0
        self.warm = False  # open since before its request came: the server may have closed it meanwhile
        self.unsent = b""
        self.ended = False
        self.why: tuple[End, str] | None = None
        self.reads: list[bytes] = []
        self.stamps: list[Any] = []  # bytes of the kernel's, or nanoseconds
        self.mode, self.fed, self.checked_reads, self.failed_ns = HEAD, 0, -1, 0
        self.framing: Framing | None = None
        self.opening = True
        self.connect_ns = self.tls_ns = 0
        self.opened_ns = time.monotonic_ns()
        self.sock = sock = socket.socket(address.family, socket.SOCK_STREAM)
        sock.setblocking(False)
        if address.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if pool.kernel_stamps:
            ask_for_stamps(sock)
        self.recvmsg = sock.recvmsg
        self.fd = sock.fileno()
        problem = sock.connect_ex(address.place)
        if problem not in (0, errno.EINPROGRESS, errno.EAGAIN):
            sock.close()
            raise OSError(problem, os.strerror(problem))
        if problem == errno.EAGAIN and address.family == socket.AF_UNIX:  # its queue is full: nothing is under way yet
            pool.watch(self.fd, OUT, lambda _events: self.knock(address))
        else:
            pool.watch(self.fd, OUT, self.opened)

    # opening

    def knock(self, address: Address) -> None:
        """Try once more to get into the queue of a unix-domain socket. Nobody tells when there is room: the poller comes back at every turn."""
        problem = self.sock.connect_ex(address.place)
        if problem == 0:
            self.opened(OUT)
        elif problem != errno.EAGAIN:
            self.pool.connect_failed(self, os.strerror(problem))

    def opened(self, _events: int) -> None:
        """The connect has ended, well or badly."""
        problem = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            self.pool.connect_failed(self, os.strerror(problem))
        else:
            self.connect_ns = time.monotonic_ns() - self.opened_ns
            self.is_open()

    def is_open(self) -> None:
        """It can carry a request."""
        self.opening = False
        self.pool.watch(self.fd, IN_EDGE, self.readable)
        self.pool.connected(self)

    # sending

    def send(self, errand: "Errand", request: bytes) -> None:
        """Put a request on the wire. Its `sent_ns` is that of its first try, where this is another."""
        self.index, self.errand = errand.number, errand
        self.stamps = []
        self.reads = []
        self.mode, self.fed, self.checked_reads = HEAD, 0, -1
        self.framing = None
        self.ended, self.why = False, None
        self.put_ns = self.quiet_since_ns = now = time.monotonic_ns()
        self.sent_ns = now if errand.sent_ns is None else errand.sent_ns
        self.put(request)

    def put(self, request: bytes) -> None:
        """Hand bytes to the kernel; what it does not take now goes when it has room."""
        try:
            done = self.sock.send(request)
        except BlockingIOError:
            done = 0
        except OSError as error:
            self.broke(error)
            return
        if done < len(request):
            self.unsent = request[done:]
            self.pool.watch(self.fd, IN | OUT, self.ready)

    def ready(self, events: int) -> None:
        """While a large request is still being sent: write on, and read what the server says meanwhile."""
        if events & OUT:
            try:
                self.unsent = self.unsent[self.sock.send(self.unsent) :]
            except BlockingIOError:
                pass
            except OSError:
                self.unsent = b""  # the server takes no more: its reply, or its reset, is there to be read
            if not self.unsent:
                self.pool.watch(self.fd, IN, self.readable)
        if events & ~OUT:
            self.readable(events)

    # receiving: the hot path

    def readable(self, events: int) -> None:
        recvmsg = self.recvmsg
        try:
            data, control, _, _ = recvmsg(READ_BYTES, CONTROL_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.broke(error)
            return
        if not data:
            self.closed()
            return
        self.stamps.append(control[0][2] if control else self.unstamped())
        self.reads.append(data)
        if self.mode == CHUNKED:
            if len(data) < 5 or data[-4] == CARRIAGE_RETURN:  # an end is CR LF CR LF: this is rare enough elsewhere
                self.over()
        else:
            self.look(data)
        if events != IN or len(data) == READ_BYTES:
            self.more()

    def take(self, data: bytes, stamp: Any) -> None:
        """What `readable` does with a read, for those that can spare the call."""
        self.stamps.append(stamp)
        self.reads.append(data)
        if self.mode == CHUNKED:
            if len(data) < 5 or data[-4] == CARRIAGE_RETURN:
                self.over()
        else:
            self.look(data)

    def more(self) -> None:
        """There may be more to read, or the end of the connection, of which an edge would not tell again: from now on be told until it is read."""
        if self.index is not None and self.why is None and not self.unsent:
            self.pool.watch(self.fd, IN, self.readable)

    def unstamped(self) -> bytes:
        """The first packets after the option is set can come without a stamp."""
        self.pool.unstamped()
        return stamp_now()

    def over(self) -> None:
        """The reply may be over: have it looked at between reads."""
        if not self.ended:
            self.ended = True
            self.pool.ends.append(self)

    def look(self, data: bytes) -> None:
        """A read whose framing is not known to be chunked: find out how this reply will end, at the cost of a search in its head."""
        if self.index is None:
            self.pool.discard(self)  # bytes that nobody asked for
            return
        if self.mode == HEAD:
            head, found, _ = data.partition(b"\r\n\r\n")
            head = head.lower()
            if found and head[9:12] not in UNUSUAL and head[9:10] != b"1" and len(self.reads) == 1:
                if b"\r\ntransfer-encoding: chunked" in head:
                    self.mode = CHUNKED
                    if data[-4:] == b"\r\n\r\n" and len(data) > len(head) + 4:
                        self.over()
                    return
                at = head.find(b"\r\ncontent-length: ")
                digits = head[at + 18 :].partition(b"\r\n")[0] if at >= 0 else b""
                if digits.isdigit() and len(digits) < 19:
                    self.mode, self.need, self.got = LENGTH, len(head) + 4 + int(digits), 0
            if self.mode == HEAD:
                self.mode = PARSED
        if self.mode == LENGTH:
            self.got += len(data)
            if self.got >= self.need:
                self.over()
        elif self.mode == PARSED:  # anything unusual: every read goes through the parser
            self.prove()
            if self.framing is not None and (self.framing.complete or self.framing.broken):
                self.over()

    def prove(self) -> Framing:
        """Feed the parser what it has not seen yet; its framing says whether the reply is complete."""
        framing = self.framing
        if framing is None:
            framing = self.framing = Framing()
        fresh = self.reads[self.fed :] if self.fed else self.reads
        self.fed = len(self.reads)
        if fresh:
            framing.feed(fresh[0] if len(fresh) == 1 else b"".join(fresh))
        return framing

    # ends without a proper end

    def closed(self) -> None:
        self.pool.unwatch(self.fd)
        self.fail(End.CLOSED, "the server closed the connection")

    def broke(self, error: OSError) -> None:
        self.pool.unwatch(self.fd)
        reset = isinstance(error, (ConnectionResetError, BrokenPipeError))
        self.fail(End.RESET if reset else End.CLOSED, os.strerror(error.errno) if error.errno else str(error))

    def fail(self, end: End, detail: str) -> None:
        """The transport is gone. An idle connection is forgotten; a busy one has its end looked at like any other."""
        if self.index is None:
            self.pool.discard(self)
            return
        if self.why is None:
            self.why = (end, detail)
            self.failed_ns = time.monotonic_ns()
        self.over()

    @property
    def was_stale(self) -> bool:
        """Whether the server had closed this connection before it read the request: it was open before, no byte came back, and the news of it came as
        soon as the way there and back allows. A server that takes the request, works on it and then closes is not that.
        """
        if not self.warm or self.reads or self.errand.tries > 1 or self.why is None or self.why[0] not in (End.CLOSED, End.RESET):
            return False
        return self.failed_ns - self.put_ns < max(STALE_USED_NS if self.served else STALE_NS, 3 * self.connect_ns)

    def says_done(self) -> bool:
        """Whether the last bytes hold the end mark of a stream, as a line of its own."""
        tail = b"".join(self.reads[-4:])[-256:]
        return DONE_LINE.search(tail) is not None

    def close(self) -> None:
        self.pool.unwatch(self.fd)
        self.sock.close()
