"""The spool: a worker's append-only files of captured exchanges, and reading them again.

A frame is `<4sHHQ` (magic, kind, worker, bytes that follow) and its payload; a frame that is not whole is the end of what survived. Kinds: an
exchange (see _EXCHANGE, then detail, the attempts before, read lengths as u32, stamps, the raw reply) and a clock sample (CLOCK_MONOTONIC,
CLOCK_REALTIME minus it), by which kernel stamps are turned into monotonic time. Files are cut into segments `WW-NNNNNN.spool`, so that decoded ones
can go.

Writing is put off and done in slices of under a millisecond between reads: replies that end together must not stop the loop.
"""

import os
import struct
import time
from array import array
from collections import deque
from pathlib import Path
from typing import Any

from loadstone.engine.clock import realtime_offset_ns
from loadstone.engine.counters import Count
from loadstone.engine.ends import End
from loadstone.engine.errand import Attempt

MAGIC = b"LSX1"
FRAME = struct.Struct("<4sHHQ")
EXCHANGE, CLOCK = 1, 2
_EXCHANGE = struct.Struct(
    "<qqqqqqBBBBHIIIQ"
)  # index planned sent end connect tls | end reused tries stamp-kind | server | detail attempts reads raw (bytes, count, count, bytes)
_ATTEMPT = struct.Struct("<HBHqq")  # server end status began end
_CLOCK = struct.Struct("<qq")
MONOTONIC_STAMPS, KERNEL_STAMPS = 0, 1  # int64 nanoseconds; struct timespec in real time
NO_TIME = -1


def segment_path(folder: Path, worker: int, number: int) -> Path:
    return folder / f"{worker:02d}-{number:06d}.spool"


class Captured:
    """One exchange as the engine hands it over: still in pieces. See Exchange for what the fields mean."""

    __slots__ = (
        *("connect_ns", "detail", "end", "end_ns", "index", "planned_ns", "raw", "reads", "retried", "reused", "sent_ns", "server", "stamps"),
        *("tls_ns", "tries"),
    )

    index: int
    planned_ns: int
    sent_ns: int
    end_ns: int
    connect_ns: int
    tls_ns: int
    end: End
    reused: bool
    tries: int
    server: int
    retried: tuple[Attempt, ...]
    detail: str
    stamps: list[Any]  # bytes of the kernel's, or CLOCK_MONOTONIC nanoseconds
    reads: list[bytes]
    raw: bytes | None  # the reads joined, where that has been done already


class SpoolWriter:
    """Appends exchanges to segments, a slice at a time."""

    SLICE_NS = 600_000  # longest stretch of writing between two rounds of reads

    def __init__(self, folder: Path, worker: int, segment_bytes: int, counters: memoryview) -> None:
        self.folder, self.worker, self.segment_bytes, self.counters = folder, worker, segment_bytes, counters
        self.waiting: deque[Captured] = deque()
        self._number, self._written, self._fd = -1, 0, -1
        self._open_next()

    def _open_next(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._number += 1
        self._written = 0
        path = segment_path(self.folder, self.worker, self._number)
        self._fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.sample_clock()
        self.counters[Count.SEGMENT] = self._number

    def sample_clock(self) -> None:
        """Note how far apart the two clocks are now."""
        self._write(CLOCK, [_CLOCK.pack(time.monotonic_ns(), realtime_offset_ns(20))])

    def _write(self, kind: int, parts: list[bytes]) -> None:
        size = sum(map(len, parts))
        blob = b"".join([FRAME.pack(MAGIC, kind, self.worker, size), *parts])
        done = os.write(self._fd, blob)
        while done < len(blob):  # a full disk raises OSError; a signal may cut a write short
            done += os.write(self._fd, blob[done:])
        self._written += done
        self.counters[Count.SPOOLED_BYTES] += done

    def write_some(self) -> None:
        """Write waiting exchanges until the slice is used up."""
        until = time.monotonic_ns() + self.SLICE_NS
        while self.waiting:
            self._write_exchange(self.waiting.popleft())
            if time.monotonic_ns() > until:
                return

    def _write_exchange(self, captured: Captured) -> None:
        stamps = captured.stamps
        if stamps and isinstance(stamps[0], bytes):
            kind, packed = KERNEL_STAMPS, b"".join(stamps)
        else:
            kind, packed = MONOTONIC_STAMPS, array("q", stamps).tobytes()
        raw = captured.raw if captured.raw is not None else b"".join(captured.reads)
        detail = captured.detail.encode("utf-8", "replace")
        head = _EXCHANGE.pack(
            captured.index, captured.planned_ns, captured.sent_ns, captured.end_ns, captured.connect_ns, captured.tls_ns,
            captured.end, captured.reused, captured.tries, kind, captured.server,
            len(detail), len(captured.retried), len(captured.reads), len(raw),
        )  # fmt: skip
        attempts = b"".join(_ATTEMPT.pack(*attempt) for attempt in captured.retried) if captured.retried else b""
        self._write(EXCHANGE, [head, detail, attempts, array("I", map(len, captured.reads)).tobytes(), packed, raw])
        self.counters[Count.SPOOLED] += 1
        if self._written >= self.segment_bytes:
            self._open_next()

    def close(self) -> None:
        """Write what waits and end the segment."""
        while self.waiting:
            self._write_exchange(self.waiting.popleft())
        self.sample_clock()
        os.close(self._fd)
