"""A connection that speaks TLS, by memory buffers: the socket is still read by us, so the kernel's receive stamps hold here too.

A read's plain bytes bear the stamp of the read that completed their TLS record. Reads that complete none (handshake, session tickets, half a
record) leave no trace in the exchange.
"""

import os
import socket
import ssl
import time
from typing import TYPE_CHECKING

from loadstone.engine.connection import CONTROL_BYTES, READ_BYTES, Connection
from loadstone.engine.poller import IN, IN_EDGE
from loadstone.engine.settings import Address, Tls

if TYPE_CHECKING:
    from loadstone.engine.pool import Pool


def context_of(tls: Tls) -> ssl.SSLContext:
    """How certificates are checked: by the system's authorities, by `ca_file`, or not at all."""
    context = ssl.create_default_context(cafile=tls.ca_file)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


class TlsConnection(Connection):
    """The same states as Connection; opening ends with the handshake."""

    __slots__ = ("_incoming", "_kernel_stamps", "_outgoing", "_tls")

    def __init__(self, pool: "Pool", address: Address) -> None:
        assert pool.tls_context and pool.job.tls
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = pool.tls_context.wrap_bio(self._incoming, self._outgoing, server_hostname=pool.job.tls.server_name)
        self._kernel_stamps = pool.kernel_stamps
        super().__init__(pool, address)

    def opened(self, _events: int) -> None:
        problem = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            self.pool.connect_failed(self, os.strerror(problem))
            return
        self.pool.watch(self.fd, IN, self.shake)
        self.shake(0)

    def shake(self, events: int) -> None:
        """One step of the handshake."""
        try:
            if events:
                data = self.sock.recv(READ_BYTES)
                if not data:
                    self.pool.connect_failed(self, "TLS: the server closed the connection during the handshake")
                    return
                self._incoming.write(data)
            self._tls.do_handshake()
        except (ssl.SSLWantReadError, BlockingIOError):
            self._flush()
            return
        except ssl.SSLError as error:
            self.pool.connect_failed(self, f"TLS: {getattr(error, 'verify_message', '') or error.reason or error}")
            return
        except OSError as error:
            self.pool.connect_failed(self, f"TLS: {error.strerror or error}")
            return
        self._flush()
        self.connect_ns = time.monotonic_ns() - self.opened_ns
        self.pool.watch(self.fd, IN_EDGE, self.readable)
        self.pool.connected(self)

    def put(self, request: bytes) -> None:
        self._tls.write(request)
        super().put(self._outgoing.read())

    def _flush(self) -> None:
        """Send what TLS itself has to say (handshake, key updates): always small."""
        if self._outgoing.pending:
            try:
                self.sock.sendall(self._outgoing.read())
            except OSError:
                return  # the next read says what is wrong

    def readable(self, events: int) -> None:
        try:
            if self._kernel_stamps:
                data, control, _, _ = self.recvmsg(READ_BYTES, CONTROL_BYTES)
                stamp: bytes | int = control[0][2] if control else self.unstamped()
            else:
                data = self.sock.recv(READ_BYTES)
                stamp = time.monotonic_ns()
        except BlockingIOError:
            return
        except OSError as error:
            self.broke(error)
            return
        if not data:
            self.closed()
            return
        self._incoming.write(data)
        plain, closed = self._plain()
        if plain:
            self.take(plain, stamp)
        if closed:
            self.closed()
        elif events != IN or len(data) == READ_BYTES:
            self.more()

    def _plain(self) -> tuple[bytes, bool]:
        """What the records read so far hold, and whether the server has said that no more will come."""
        parts: list[bytes] = []
        try:
            while part := self._tls.read(READ_BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            self._flush()
            return b"".join(parts), False
        except ssl.SSLError:
            return b"".join(parts), True
        return b"".join(parts), True
