"""A server on a loopback port whose replies are a script: one thread a connection, everything it saw on record."""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int  # number of the connection, from 0
    on_connection: int  # how many requests that connection had carried before
    number: int  # requests seen before, on any connection
    read_ns: int  # CLOCK_MONOTONIC when the whole request had been read


@dataclass
class Scripted:
    """Plays `script(connection, request)` for each request; the script returns True to keep the connection open."""

    script: Callable[[socket.socket, Request], bool]
    tls: ssl.SSLContext | None = None
    family: int = socket.AF_INET
    address: str = "127.0.0.1"  # or the path of a unix-domain socket
    backlog: int = 1024
    seen: list[Request] = field(default_factory=list)
    connections: int = 0
    peak: int = 0

    def __enter__(self) -> "Scripted":
        self._lock, self._now, self._open = threading.Lock(), 0, set[socket.socket]()
        self._listener = socket.socket(self.family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(self.address if self.family == socket.AF_UNIX else (self.address, 0))
        self._listener.listen(self.backlog)
        self.port = 0 if self.family == socket.AF_UNIX else self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    @property
    def url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number, self.connections = self.connections, self.connections + 1
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        if self.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.add(connection)
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self._open.add(connection)
            served = 0
            while (request := self._read(connection, number, served)) is not None:
                with self._lock:
                    self._now += 1
                    self.peak = max(self.peak, self._now)
                try:
                    keep = self.script(connection, request)
                finally:
                    with self._lock:
                        self._now -= 1
                served += 1
                if not keep:
                    return
        except OSError:
            return
        finally:
            connection.close()

    def _read(self, connection: socket.socket, number: int, served: int) -> Request | None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            more = connection.recv(65536)
            if not more:
                return None
            body += more
        method, target, _ = first.split(" ")
        with self._lock:
            request = Request(method, target, headers, body, number, served, len(self.seen), time.monotonic_ns())
            self.seen.append(request)
        return request


def reset(connection: socket.socket) -> None:
    """Close with a TCP reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chat_events(words: list[str]) -> list[bytes]:
    """A chat stream: one event a word, the last with a finish reason, then usage, then the end mark."""
    events = [
        b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":%b}]}\n\n'
        % (word.encode(), b'"stop"' if number == len(words) - 1 else b"null")
        for number, word in enumerate(words)
    ]
    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":%d}}\n\n' % (len(words), 7 + len(words))
    return [*events, usage, b"data: [DONE]\n\n"]


def stream(words: list[str], gap_s: float = 0.0) -> Callable[[socket.socket, Request], bool]:
    """A script that streams `words` and keeps the connection."""

    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD)
        for event in chat_events(words):
            connection.sendall(chunk(event))
            if gap_s:
                time.sleep(gap_s)
        connection.sendall(LAST_CHUNK)
        return True

    return play


def document(status: str, body: bytes, headers: bytes = b"") -> Callable[[socket.socket, Request], bool]:
    """A script that answers with one JSON document."""

    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n%b" % (status.encode(), len(body), headers, body)
        )
        return True

    return play
