"""A connection that speaks TLS, by memory buffers: the socket is still read by us, so the kernel's receive stamps hold here too.

A read's plain bytes bear the stamp of the read that completed their TLS record. Reads that complete none (handshake, session tickets, half a
record) leave no trace in the exchange.
"""

import contextlib
import os
import re
import socket
import ssl
import time
from typing import TYPE_CHECKING

from loadstone.engine import tunnel
from loadstone.engine.connection import CONTROL_BYTES, READ_BYTES, Connection
from loadstone.engine.ends import End
from loadstone.engine.poller import IN
from loadstone.engine.settings import Address, Tls
from loadstone.errors import UsageError

if TYPE_CHECKING:
    from loadstone.engine.pool import Pool


def context_of(tls: Tls) -> ssl.SSLContext:
    """How certificates are checked (by the system's authorities, by `ca_file`, or not at all) and which one is shown. The one place that decides it.

    Raises UsageError naming the flag whose file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except ssl.SSLError:
        raise UsageError(f"--ca-file {tls.ca_file} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)") from None
    except OSError as error:
        raise UsageError(f"--ca-file {tls.ca_file}: {error.strerror or error}") from None
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.client_cert:
        _show(context, tls.client_cert, tls.client_key)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _show(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    """Have `context` show the client's certificate."""
    asked: list[bool] = []

    def passphrase() -> str:  # without it, the terminal would be asked
        asked.append(True)
        return ""

    for flag, path in (("--client-cert", certificate), ("--client-key", key)):
        if path is not None:
            try:
                with open(path, "rb"):  # noqa: PTH123 (what fails here has no more to say than this)
                    pass
            except OSError as error:
                raise UsageError(f"{flag} {path}: {error.strerror or error}") from None
    where = f"--client-key {key}" if key else f"--client-cert {certificate}"
    try:
        context.load_cert_chain(certificate, key, password=passphrase)
    except (ssl.SSLError, ValueError) as error:
        if asked:
            raise UsageError(
                f"{where}: the key has a passphrase, which is not asked for: give a copy without (openssl pkey -in KEY -out COPY)"
            ) from None
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            raise UsageError(f"{where}: this is not the key of the certificate in --client-cert {certificate}") from None
        missing = "" if key else "; the key may be in a file of its own: name it with --client-key"
        raise UsageError(f"--client-cert {certificate} with {where} cannot be used: no certificate and key in PEM form{missing}") from None


_UNKNOWN = "name the certificate of its authority with --ca-file, or leave the check out with --insecure"
_PLAIN = "the server does not seem to speak TLS on this port: is it http:// and not https://?"
_REMEDIES = (  # what OpenSSL says, and what helps
    ("self-signed", _UNKNOWN),
    ("self signed", _UNKNOWN),
    ("unable to get", _UNKNOWN),
    ("mismatch", "name the host that it is for with --server-name, or leave the check out with --insecure"),
    ("expired", "the server needs a new one, or this machine's clock is wrong; --insecure leaves the check out"),
    ("not yet valid", "is this machine's clock right? --insecure leaves the check out"),
    ("certificate required", "the server wants to see a certificate: give one with --client-cert"),
    ("unknown ca", "the server does not know the authority of the certificate in --client-cert"),
    ("bad certificate", "the server does not take the certificate in --client-cert, or wants one"),
    ("wrong version number", _PLAIN),
    ("eof occurred", "the server broke off: it may want to see a certificate (--client-cert), or speak no TLS on this port"),
    ("http request", _PLAIN),
    ("packet length too long", _PLAIN),
    ("unrecognized name", "the server does not know this name: give another with --server-name"),
)


def tls_trouble(error: ssl.SSLError) -> str:
    """What is wrong, in OpenSSL's words, and which flag would mend it. Begins with TLS."""
    said = getattr(error, "verify_message", "") or re.sub(r" ?\(_ssl.c.*", "", error.reason or str(error)).replace("_", " ").lower()
    if getattr(error, "verify_message", ""):
        said = f"the server's certificate could not be verified: {said}"
    remedy = next((remedy for words, remedy in _REMEDIES if words in said.lower()), "")
    return f"TLS: {said.rstrip('.')}{f'; {remedy}' if remedy else ''}"


class TlsConnection(Connection):
    """The same states as Connection; opening ends with the handshake."""

    __slots__ = ("_answer", "_incoming", "_kernel_stamps", "_outgoing", "_tls", "_trouble")

    def __init__(self, pool: "Pool", address: Address) -> None:
        assert pool.tls_context and pool.site.tls
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = pool.tls_context.wrap_bio(self._incoming, self._outgoing, server_hostname=pool.site.tls.server_name)
        self._kernel_stamps = pool.kernel_stamps
        self._answer, self._trouble = b"", ""
        super().__init__(pool, address)

    def opened(self, _events: int) -> None:
        problem = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            self.pool.connect_failed(self, os.strerror(problem))
        elif self.pool.site.route.tunnel:
            self.pool.watch(self.fd, IN, self.answered)
            try:
                self.sock.sendall(self.pool.site.route.tunnel.encode("latin-1"))  # far less than a new socket takes
            except OSError as error:
                self.pool.connect_failed(self, error.strerror or str(error))
        else:
            self.made()

    def answered(self, _events: int) -> None:
        """What the proxy says to CONNECT."""
        try:
            data = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.pool.connect_failed(self, error.strerror or str(error))
            return
        self._answer += data
        head, whole, rest = self._answer.partition(b"\r\n\r\n")
        if not data:
            self.pool.connect_failed(
                self, tunnel.refusal(self._answer, self.pool.site.route.proxy) if self._answer else tunnel.unanswered(self.pool.site.route.proxy)
            )
        elif whole or len(head) > tunnel.MOST_HEAD:
            if refused := tunnel.refusal(head, self.pool.site.route.proxy):
                self.pool.connect_failed(self, refused)
            else:
                self._incoming.write(rest)
                self.made()

    def made(self) -> None:
        self.connect_ns = time.monotonic_ns() - self.opened_ns
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
            self._flush()  # the alert that tells the server why
            self.pool.connect_failed(self, tls_trouble(error))
            return
        except OSError as error:
            self.pool.connect_failed(self, f"TLS: {error.strerror or error}")
            return
        self._flush()
        self.tls_ns = time.monotonic_ns() - self.opened_ns - self.connect_ns
        self.is_open()

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
            self.hung_up()
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
        except ssl.SSLError as error:
            self._trouble = tls_trouble(error)
            return b"".join(parts), True
        return b"".join(parts), True

    def broke(self, error: OSError) -> None:
        """What the server said before it broke the connection, if it said why, is told in place of the break itself."""
        with contextlib.suppress(OSError):
            while data := self.sock.recv(READ_BYTES):
                self._incoming.write(data)
        if not self.opening:
            self._plain()
        if self._trouble:
            self.hung_up()
        else:
            super().broke(error)

    def hung_up(self) -> None:
        """The server has said by TLS that no more will come, or why it does not go on."""
        if self._trouble:
            self.pool.unwatch(self.fd)
            self.fail(End.CLOSED, self._trouble)
        else:
            self.closed()
