"""What a worker is told: once, when it starts (Job), and for each phase of a run (Phase). All of it can be sent as JSON to another process."""

import msgspec


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """One resolved address of the server: what socket.socket and connect take."""

    family: int
    sockaddr: tuple[str | int, ...]


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    server_name: str
    verify: bool = True
    ca_file: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all phases. `head` is the request head up to the request id's value, `tail` what follows that value up to the content length's.

    A whole head is head + id prefix + index + tail + length + CRLF CRLF. It carries keys: it is handed over in memory, never written to a file.
    """

    worker: int = 0
    workers: int = 1
    addresses: list[Address]
    tls: Tls | None = None
    head: str
    tail: str
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
    duration_ns: int = 0  # send nothing that is due, or asked for, later than this after the start; 0: no such end
    repeat: bool = False  # when the plan is used up, begin it again (with `duration_ns`)
    segment_bytes: int = 64 << 20
    spool_limit_bytes: int = 4 << 30  # per worker: with more than this not yet decoded, no request is sent until decoding has caught up
