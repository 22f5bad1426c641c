"""What a worker is told: once, when it starts (Job), and for each phase of a run (Phase). All of it can be sent as JSON to another process."""

import socket

import msgspec


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """One resolved address of the server: what socket.socket and connect take."""

    family: int
    sockaddr: tuple[str | int, ...]  # of a unix-domain socket: its path alone

    @property
    def place(self) -> "tuple[str | int, ...] | str":
        """What `connect` of a socket of this family takes."""
        return str(self.sockaddr[0]) if self.family == socket.AF_UNIX else self.sockaddr


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How TLS is spoken. Files are PEM; `client_key` is None where the key is in the certificate's file."""

    server_name: str  # sent as SNI, and what the certificate must be for
    verify: bool = True
    ca_file: str | None = None  # None: the system's authorities
    client_cert: str | None = None
    client_key: str | None = None


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What lies between here and the server. `tunnel` may carry a key: it is handed over in memory, never written to a file."""

    proxy: str = ""  # its address as messages name it; "": none
    tunnel: str = ""  # head of the CONNECT request by which the proxy is asked for a way to the server, before TLS; "": none
    origin: str = ""  # scheme://host:port of the server: a redirect to a place on it is followed; "": none is
    absolute: bool = False  # requests name the whole URL, as a proxy wants it


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """One server as requests reach it. `head` is the request head up to the request id's value: it carries keys, and is handed over in memory, never
    written to a file.
    """

    addresses: list[Address]
    tls: Tls | None = None
    route: Route = Route()
    head: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all phases. A whole request head is a site's head + id mark + index + `tail` + length + CRLF CRLF."""

    worker: int = 0
    workers: int = 1
    sites: list[Site]
    fresh: bool = False  # a new connection for each request, made when the request is started
    tail: str
    retries: int = 0  # further tries that a request may have (retry.py)
    seed: int = 0  # of the pauses between them
    clock: str = "auto"  # auto: kernel stamps where the system has them; user: read after each read
    connect_timeout_s: float = 60.0
    request_timeout_s: float = 21600.0
    idle_timeout_s: float = 0.0  # 0: none
    counters: str  # path of the shared counters


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One phase (warm-up, measured run): which plan to execute and how."""

    plan: str  # folder
    spool: str  # folder for this phase's spool
    max_concurrency: int | None = None  # over all workers; None: no cap
    connections: int = 1  # to have open before the phase starts
    id_mark: str = ""  # between the prefix of a request's id and its number
    balance: str = "round-robin"  # which of several servers gets a request (balance.py)
    duration_ns: int = 0  # send nothing that is due, or asked for, later than this after the start; 0: no such end
    repeat: bool = False  # when the plan is used up, begin it again (with `duration_ns`)
    segment_bytes: int = 64 << 20
    spool_limit_bytes: int = 4 << 30  # per worker: with more than this not yet decoded, no request is sent until decoding has caught up
