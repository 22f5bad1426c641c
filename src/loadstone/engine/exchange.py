"""What the engine captures of one request: when it was planned and sent, the bytes that came back and when each read came, and how it ended.

The engine does not look inside the bytes more than it must to see where a reply ends.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadstone.engine.ends import End
from loadstone.engine.errand import Attempt

__all__ = ["Attempt", "End", "Exchange"]


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and the reply to it. All times are CLOCK_MONOTONIC nanoseconds of the machine that sent it."""

    index: int
    worker: int
    planned_ns: int | None  # None in a closed loop
    sent_ns: int | None  # just before its first byte went to the kernel (of the first attempt, see Errand); None if it never went
    end_ns: int  # when the end was seen: the last read's stamp if COMPLETE
    end: End
    detail: str = ""  # the system's words for a failed transport
    raw: bytes = b""  # the reply as it came, HTTP head and framing included (TLS removed)
    stamps_ns: NDArray[np.int64]  # when each read came
    read_ends: NDArray[np.int64]  # offset in `raw` of the end of each read, ascending, last one = len(raw)
    reused: bool = False  # the connection had served before
    connect_ns: int = 0  # what making the connection took, a proxy's tunnel included; on the first request it carried (0 if made before the run)
    tls_ns: int = 0  # what the TLS handshake after that took, likewise
    tries: int = 1  # connections that the last attempt has seen
    server: int = 0  # which of the run's servers the last attempt went to
    retried: tuple[Attempt, ...] = ()  # the attempts before it
