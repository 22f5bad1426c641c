"""An HTTP proxy on a loopback port: passes on requests in absolute form, and opens tunnels."""

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class HttpProxy:
    """`wants`: the Proxy-Authorization without which it answers 407. `answers`: what it says to everything instead, if anything."""

    wants: str = ""
    answers: bytes = b""
    lines: list[str] = field(default_factory=list)  # first lines of the requests it read
    heads: list[str] = field(default_factory=list)

    def __enter__(self) -> "HttpProxy":
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One server a connection: all requests on it go there."""
        with contextlib.suppress(OSError), client:
            data = b""
            while b"\r\n\r\n" not in data:
                more = client.recv(65536)
                if not more:
                    return
                data += more
            head, _, _ = data.partition(b"\r\n\r\n")
            line = head.split(b"\r\n")[0].decode()
            self.lines.append(line)
            self.heads.append(head.decode())
            if self.answers:
                client.sendall(self.answers)
                return
            if self.wants and f"proxy-authorization: {self.wants}".lower() not in head.decode().lower():
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            method, target, _ = line.split(" ")
            host, port = target.rsplit(":", 1) if method == "CONNECT" else (urlsplit(target).hostname, urlsplit(target).port or 80)
            try:
                server = socket.create_connection((str(host).strip("[]"), int(port)), timeout=10)
            except OSError:
                client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                return
            server.settimeout(None)
            self._open.append(server)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if method == "CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                server.sendall(data)  # in absolute form, which every server must take
            threading.Thread(target=_copy, args=(server, client), daemon=True).start()
            _copy(client, server)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
