"""What the engine captures of one request: when it was planned and sent, the bytes that came back and when each read came, and how it ended.

The engine does not look inside the bytes more than it must to see where a reply ends.
"""

import enum

import msgspec
import numpy as np
from numpy.typing import NDArray


class End(enum.IntEnum):
    """How an exchange ended, as the transport saw it. Whether it was a success is for decoding to say."""

    COMPLETE = 0  # the reply's framing ended properly (for a body without length: the connection closed)
    CLOSED = 1  # the server closed before the reply was complete
    RESET = 2  # the connection was reset
    NOT_CONNECTED = 3  # no connection could be made
    CONNECT_TIMEOUT = 4
    REQUEST_TIMEOUT = 5
    IDLE_TIMEOUT = 6
    OPEN_AFTER_DONE = 7  # the stream's end mark came, the body's end never did
    CANCELLED = 8  # interrupted while in flight
    NOT_SENT = 9  # dropped: the run stopped before it was sent
    BAD_HTTP = 10  # the bytes were no HTTP reply


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and the reply to it. All times are CLOCK_MONOTONIC nanoseconds of the machine that sent it."""

    index: int
    worker: int
    planned_ns: int | None  # None in a closed loop
    sent_ns: int | None  # just before its first byte went to the kernel; None if it never went
    end_ns: int  # when the end was seen: the last read's stamp if COMPLETE
    end: End
    detail: str = ""  # the system's words for a failed transport
    raw: bytes = b""  # the reply as it came, HTTP head and framing included (TLS removed)
    stamps_ns: NDArray[np.int64]  # when each read came
    read_ends: NDArray[np.int64]  # offset in `raw` of the end of each read, ascending, last one = len(raw)
    reused: bool = False  # the connection had served before
    connect_ns: int = 0  # what making the connection took (0 if reused or made before the run)
    tries: int = 1
