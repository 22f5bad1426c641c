"""One client's connection: HTTP requests in, bytes out. Non-blocking; whatever the socket does not take at once waits for its turn."""

import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import httptools
import msgspec

from loadstone.engine.clock import STAMP

MAX_BODY = 32 << 20  # bytes
MAX_HEAD = 256 << 10  # more than one read, which may hold the end of another request too
MAX_PIPELINED = 64
READ = 64 << 10
CONTROL = socket.CMSG_SPACE(STAMP.size)
PAIR_NS = 20_000  # two readings of the clocks further apart than this are no pair: another process ran between them
_LINGER_NOT = struct.pack("ii", 1, 0)  # close() sends RST

Sent = Callable[[], None]  # called right after the send that took the last byte returned


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it came. `refusal` is the status to answer it with at once, before it is looked at (413 and the like)."""

    method: str = ""
    path: str = ""
    query: str = ""
    headers: dict[str, str] = {}  # names in lower case
    body: bytes = b""
    read_ns: int = 0  # right after the read that completed it
    arrived_ns: int | None = None  # when the kernel had its last byte; None where it does not say
    keep_alive: bool = True
    refusal: int = 0
    detail: str = ""


class Read(NamedTuple):
    """What one read gave (b"" at the end of all), and its times. `arrived_ns`: when the kernel had its last byte; None where it does not say."""

    data: bytes
    read_ns: int
    arrived_ns: int | None


class Host(Protocol):
    """What a connection needs of the server."""

    def handle(self, connection: "Connection", request: HttpRequest) -> None: ...
    def want_writable(self, connection: "Connection", wanted: bool) -> None: ...
    def gone(self, connection: "Connection") -> None: ...


class Abandonable(Protocol):
    """A reply under way, to be told when its client has gone."""

    def abandon(self) -> None: ...


class Connection:
    def __init__(self, sock: socket.socket, host: Host) -> None:
        self.sock, self.fd, self._host = sock, sock.fileno(), host
        self.reply: Abandonable | None = None  # the reply under way; the connection serves one at a time
        self.open = True
        self._unsent: deque[tuple[bytes | memoryview, Sent | None]] = deque()
        self._requests: deque[HttpRequest] = deque()  # complete, not yet served
        self._closing = self._deaf = False  # close when all is sent; read no more requests
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self.on_message_begin()

    # what httptools calls

    def on_message_begin(self) -> None:
        self._target, self._headers, self._body, self._size, self._head_bytes = b"", dict[str, str](), list[bytes](), 0, 0

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._head_bytes = -1
        if "upgrade" in self._headers and self._parser and self._parser.should_upgrade():
            self._refuse(400, "This server does not upgrade connections.")
        elif int(self._headers.get("content-length", "0")) > MAX_BODY:
            self._refuse_size()
        elif self._headers.get("expect", "").lower() == "100-continue" and not self.busy:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > MAX_BODY:
            self._refuse_size()
        if not self._deaf:
            self._body.append(data)

    def on_message_complete(self) -> None:
        if self._deaf or self._parser is None:
            return
        target = httptools.parse_url(self._target) if self._target.startswith(b"/") else None
        request = HttpRequest(
            method=self._parser.get_method().decode(),
            path=target.path.decode("latin-1") if target else self._target.decode("latin-1"),
            query=(target.query or b"").decode("latin-1") if target else "",
            headers=self._headers,
            body=b"".join(self._body),
            read_ns=self._read_ns,
            arrived_ns=self._arrived_ns,
            keep_alive=self._parser.should_keep_alive(),
        )
        if self._parser.get_http_version() != "1.1":
            self._refuse(505, "This server speaks HTTP/1.1.")
        else:
            self._requests.append(request)

    def _refuse_size(self) -> None:
        self._refuse(413, f"The request body is too large: this server takes {MAX_BODY} bytes.")

    def _refuse(self, status: int, detail: str) -> None:
        """Answer with an error in the request's place and end the connection: what follows on it makes no sense any more."""
        if not self._deaf:
            self._deaf = True
            self._requests.append(HttpRequest(refusal=status, detail=detail, keep_alive=False))

    # what the server calls

    @property
    def busy(self) -> bool:
        return self.reply is not None or bool(self._requests)

    def read(self) -> Read | None:
        """What has come; None for nothing. It is to be given to `take`, in order."""
        try:
            data, control, _, _ = self.sock.recvmsg(READ, CONTROL)
        except BlockingIOError:
            return None
        except OSError:
            data, control = b"", []
        read_ns = time.monotonic_ns()
        return Read(data, read_ns, _arrival_ns(control[0][2], read_ns) if control else None)

    def take(self, read: Read) -> None:
        """Look into what was read, and serve the request it completes."""
        if not self.open:
            return
        data, self._read_ns, self._arrived_ns = read
        if not data:
            self.drop()
            return
        if self._deaf or self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "This server does not upgrade connections.")
        except (httptools.HttpParserError, ValueError) as fault:
            self._refuse(400, f"This is not a valid HTTP request: {fault}")
        if self._head_bytes >= 0:  # a head has begun and not ended
            self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD:
            self._refuse(431, "The request's head is too large.")
        if len(self._requests) > MAX_PIPELINED:
            self._deaf = True
        self._serve()

    def writable(self) -> None:
        """Send what has waited."""
        while self._unsent:
            data, sent = self._unsent[0]
            try:
                count = self.sock.send(data)
            except BlockingIOError:
                return
            except OSError:
                self.drop()
                return
            if count < len(data):
                self._unsent[0] = (memoryview(data)[count:], sent)
                return
            self._unsent.popleft()
            if sent:
                sent()
        if self.open:
            self._host.want_writable(self, False)
            self._end_if_closing()

    def send(self, data: bytes, sent: Sent | None = None) -> None:
        """Send `data`, after all that still waits; call `sent` when its last byte has been taken by the kernel."""
        if self._unsent:
            self._unsent.append((data, sent))
            return
        try:
            count = self.sock.send(data)
        except BlockingIOError:
            count = 0
        except OSError:
            self.drop()
            return
        if count == len(data):
            if sent:
                sent()
        else:
            self._unsent.append((memoryview(data)[count:], sent))
            self._host.want_writable(self, True)

    def served(self, keep_alive: bool) -> None:
        """The reply under way is complete: the next request may be served."""
        self.reply = None
        if keep_alive:
            self._serve()
        else:
            self._requests.clear()
            self._deaf = self._closing = True
            self._end_if_closing()

    def drop_when_sent(self) -> None:
        """Close, in the middle of whatever was being said, as soon as what has been said is out."""
        if self._unsent:
            self._unsent.append((b"", self.drop))
        else:
            self.drop()

    def reset(self) -> None:
        """Break the connection with a TCP RST."""
        if self.open:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.drop()

    def drop(self) -> None:
        """Close at once, whatever is under way."""
        if not self.open:
            return
        self.open = False
        self._parser = None  # it holds this object's methods: without this the two would live for ever
        self._unsent.clear()
        self._requests.clear()
        self._host.gone(self)
        self.sock.close()
        reply, self.reply = self.reply, None
        if reply:
            reply.abandon()

    def _serve(self) -> None:
        while self.open and self.reply is None and self._requests and not self._closing:
            self._host.handle(self, self._requests.popleft())

    def _end_if_closing(self) -> None:
        """Half-close, so that the client still reads the answer when it is in the middle of sending; it closes the rest."""
        if self._closing and not self._unsent and self.open:
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError:
                self.drop()


def _arrival_ns(stamp: bytes, read_ns: int) -> int | None:
    """The kernel's stamp, which is in real time, on the monotonic clock; None when no pair of readings ties the two clocks together."""
    for _ in range(3):
        before_ns, real_ns, after_ns = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if after_ns - before_ns < PAIR_NS:
            seconds, rest = STAMP.unpack(stamp)
            return min((before_ns + after_ns) // 2 - real_ns + int(seconds) * 1_000_000_000 + int(rest), read_ns)
    return None
