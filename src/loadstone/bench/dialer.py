"""How one server is reached: which addresses it has, over a proxy or a socket file or straight, with which TLS. The load and every question before
and after it go by the same rules; docs/http.md states them.
"""

import errno
import os
import selectors
import socket
import stat
import time
from itertools import chain, zip_longest
from pathlib import Path
from typing import cast

from loadstone.config import RunConfig
from loadstone.engine import tunnel
from loadstone.engine.settings import Address, Route, Tls
from loadstone.engine.tls import context_of
from loadstone.errors import NotReadyError, UsageError
from loadstone.proxy import proxy_for
from loadstone.target import Target

HEAD_START_S = 0.25  # that an address has before the next one is tried beside it (RFC 8305)
LONGEST_PATH = 107  # bytes of a socket file's path that Linux takes; macOS: 103


class ProxyError(OSError):
    """A proxy that does not let us through, in words."""


class Dialer:
    """Opens connections to one server. Names are looked up once; of several addresses the one that answered last is first."""

    def __init__(self, config: RunConfig, target: Target) -> None:
        """Raises UsageError for a file that cannot be used, and for a proxy in the environment that is none."""
        self.config, self.target = config, target
        self.proxy = None if config.uds else proxy_for(target, config.proxy)
        self.tls = tls_of(config, target)
        self.context = context_of(self.tls) if self.tls else None
        self.absolute = self.proxy is not None and self.tls is None
        tunnelled = self.proxy and self.tls
        self.route = Route(
            proxy=self.proxy.url if self.proxy else "",
            tunnel=tunnel.request_for(target.host, target.port, self.proxy.authorization) if self.proxy and tunnelled else "",
            origin=target.origin,
            absolute=self.absolute,
        )
        self._addresses: list[Address] = []
        if config.uds:
            _check_socket(config.uds)

    @property
    def headers(self) -> dict[str, str]:
        """What the way itself wants in the head of a request."""
        return {"proxy-authorization": self.proxy.authorization} if self.proxy and self.proxy.authorization and self.absolute else {}

    def request_target(self, path: str) -> str:
        """What the first line of a request asks for: the path, or the whole URL where a proxy reads it."""
        return f"http://{self.target.host_header}{path}" if self.absolute else path

    def resolve(self) -> list[Address]:
        """The addresses. Raises NotReadyError for a name that has none."""
        if not self._addresses:
            self._addresses = self._resolved()
        return self._addresses

    def _resolved(self) -> list[Address]:
        if self.config.uds:
            return [Address(family=socket.AF_UNIX, sockaddr=(self.config.uds,))]
        host, port = (self.proxy.host, self.proxy.port) if self.proxy else (self.target.host, self.target.port)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            asked = f"{self.proxy.source}" if self.proxy else "--host, --base-url"
            what = "the proxy" if self.proxy else "the host"
            reason = getattr(error, "strerror", None) or error
            raise NotReadyError(f"{what} {host!r} has no address ({reason}): is it spelled rightly ({asked})?") from None
        return in_turn([Address(family=int(family), sockaddr=cast(tuple[str | int, ...], sockaddr)) for family, _, _, _, sockaddr in found])

    def settle(self, timeout_s: float) -> None:
        """Find out which of several addresses answers, so that the load begins with it. Nothing is sent; none that answers is no error here."""
        if len(self.resolve()) > 1:
            try:
                self.connect(timeout_s).close()
            except OSError:
                return

    def connect(self, timeout_s: float) -> socket.socket:
        """A connection to whatever comes first on the way (server, proxy, socket file), blocking. The address that answered is first from now on.

        Addresses are raced: one that swallows what it is sent costs a quarter of a second, not the time-out. Raises TimeoutError, OSError.
        """
        sock, winner = _race(self.resolve(), timeout_s)
        self._addresses.sort(key=lambda address: address is not winner)
        sock.settimeout(timeout_s)
        if winner.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def open(self, timeout_s: float) -> socket.socket:
        """A connection that a request can be sent on: through the tunnel, and with TLS. Raises TimeoutError, ProxyError, ssl.SSLError, OSError."""
        sock = self.connect(timeout_s)
        try:
            if self.route.tunnel:
                _through(sock, self.route)
            return self.context.wrap_socket(sock, server_hostname=self.tls.server_name) if self.context and self.tls else sock
        except BaseException:
            sock.close()
            raise

    def named(self, problem: str) -> str:
        """`problem` as that of the proxy or the socket file, where the way leads over one."""
        if self.config.uds:
            return f"--uds {self.config.uds}: {problem}"
        return f"the proxy {self.proxy.url} ({self.proxy.source}): {problem}" if self.proxy else problem

    def notes(self) -> list[str]:
        """What a reader of the result must know of the way."""
        found = []
        if self.proxy:
            how = "in a tunnel (CONNECT)" if self.route.tunnel else "which read and passed on each request"
            found.append(f"requests went through the proxy {self.proxy.url} ({self.proxy.source}), {how}: it is part of what was measured")
        if self.config.uds:
            found.append(
                f"requests went over the unix-domain socket {self.config.uds}: the kernel stamps nothing there, and times are the client's own"
            )
        if len(self.resolve()) > 1:
            others = ", ".join(str(address.sockaddr[0]) for address in self._addresses[1:])
            what = f"the proxy {self.proxy.host}" if self.proxy else self.target.host
            found.append(f"{what} has {len(self.resolve())} addresses; requests went to {self._addresses[0].sockaddr[0]} (in reserve: {others})")
        if self.config.insecure and self.tls:
            found.append("the server's certificate was not checked (--insecure)")
        given = {"--ca-file": self.config.ca_file, "--client-cert": self.config.client_cert, "--server-name": self.config.server_name}
        if self.tls is None and (unused := [flag for flag, value in given.items() if value]):
            found.append(f"{', '.join(unused)} had no effect: the server was not spoken to by TLS")
        return found


def tls_of(config: RunConfig, target: Target) -> Tls | None:
    """How TLS is spoken to `target`; None: it is not."""
    if config.client_key and not config.client_cert:
        raise UsageError("--client-key is the key of a certificate: name that with --client-cert")
    if target.scheme != "https":
        return None
    name = config.server_name or target.host.partition("%")[0]
    return Tls(server_name=name, verify=not config.insecure, ca_file=config.ca_file, client_cert=config.client_cert, client_key=config.client_key)


def in_turn(addresses: list[Address]) -> list[Address]:
    """The addresses with the families in turn, the system's first choice first, so that a family that leads nowhere costs one try. None twice."""
    unique = list(dict.fromkeys(addresses))
    first = [address for address in unique if address.family == unique[0].family]
    others = [address for address in unique if address.family != unique[0].family]
    return [address for address in chain.from_iterable(zip_longest(first, others)) if address is not None]


def _check_socket(path: str) -> None:
    """UsageError for a path that no server's socket can have; a file that is not there yet may come."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise UsageError(f"--uds {path}: the path is longer than the {LONGEST_PATH} bytes that a socket file's may have")
    try:
        if not stat.S_ISSOCK(Path(path).stat().st_mode):
            raise UsageError(f"--uds {path} is no socket: name the file that the server listens on")
    except FileNotFoundError:
        if not Path(path).absolute().parent.is_dir():
            raise UsageError(f"--uds {path}: there is no such folder") from None
    except OSError as error:
        raise UsageError(f"--uds {path}: {error.strerror or error}") from None


def _race(addresses: list[Address], timeout_s: float) -> tuple[socket.socket, Address]:
    """The first connection that stands: each address is tried a quarter of a second after the one before it, or at once when that has failed."""
    until = time.monotonic() + timeout_s
    left = list(addresses)
    problem: OSError | None = None
    with selectors.DefaultSelector() as selector:
        try:
            while left or selector.get_map():
                if left:
                    try:
                        _begin(selector, left.pop(0), until)
                    except OSError as error:
                        problem = error
                        continue
                now = time.monotonic()
                if now >= until:
                    raise TimeoutError
                for key, _ in selector.select(min(until - now, HEAD_START_S) if left else until - now):
                    selector.unregister(key.fileobj)
                    sock = cast(socket.socket, key.fileobj)
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not code:
                        return sock, key.data
                    sock.close()
                    problem = OSError(code, os.strerror(code))
        finally:
            for key in selector.get_map().values():
                cast(socket.socket, key.fileobj).close()
    raise problem or TimeoutError()


def _begin(selector: selectors.BaseSelector, address: Address, until: float) -> None:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        if address.family == socket.AF_UNIX:  # there is one address, and a full queue is waited for
            sock.settimeout(max(until - time.monotonic(), 0.001))
            sock.connect(address.place)
        else:
            sock.setblocking(False)
            if (code := sock.connect_ex(address.place)) not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
        selector.register(sock, selectors.EVENT_WRITE, address)
    except BaseException:
        sock.close()
        raise


def _through(sock: socket.socket, route: Route) -> None:
    """Ask the proxy for a tunnel. Raises ProxyError when it will not."""
    sock.sendall(route.tunnel.encode("latin-1"))
    answer = b""
    while not answer.endswith(b"\r\n\r\n") and len(answer) < tunnel.MOST_HEAD:
        byte = sock.recv(1)  # no more than the answer: what follows is TLS
        if not byte:
            break
        answer += byte
    if refused := tunnel.refusal(answer, route.proxy) if answer else tunnel.unanswered(route.proxy):
        raise ProxyError(refused)
