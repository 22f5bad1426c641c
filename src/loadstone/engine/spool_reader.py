"""Reading a worker's spool: while it grows, or long after.

Kernel stamps become monotonic here: the offset between the clocks is interpolated between the samples around each stamp, so that a clock that is
being slewed bends no time.
"""

import contextlib
import gzip
import mmap
import os
import shutil
import struct
import zlib
from array import array
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadstone.engine.exchange import Attempt, End, Exchange
from loadstone.engine.spool import _ATTEMPT, _CLOCK, _EXCHANGE, CLOCK, EXCHANGE, FRAME, KERNEL_STAMPS, MAGIC, NO_TIME, segment_path
from loadstone.errors import LoadstoneError

BLOCK_BYTES = 4 << 20
NEWEST = 4096  # clock samples looked at: some twenty minutes, longer than any reply lasts but a few


class After(Enum):
    """What becomes of a segment once all of it has been read and a newer one exists."""

    KEEP = "keep"
    REMOVE = "remove"
    COMPRESS = "compress"  # to NAME.gz, which a reader takes like the plain file


class SpoolReader:
    """Reads one worker's segments in order."""

    def __init__(self, folder: Path, worker: int, after: After = After.KEEP) -> None:
        self.folder, self.worker, self.after = folder, worker, after
        self._number, self._at = 0, 0
        self._unpacked: bytes | None = None  # the current segment, where it is a compressed one
        self._clock_ns: list[int] = []
        self._offset_ns: list[int] = []
        self._samples: tuple[int, int, NDArray[np.int64], NDArray[np.int64]] | None = None  # the newest, as _monotonic wants them
        self.bytes_read = 0

    def resume(self) -> None:
        """Begin at the first segment that no reader before this one has finished with, knowing the clock samples that it knew by then."""
        number, self.bytes_read = self._recall()
        if number:
            self._number = number - 1
            self.finish()  # once more, for it may have died on the way; a segment that is gone is no matter
        if not self._exists(self._number):
            self._number = max(self._number, self._first())

    def begin(self) -> None:
        """Begin at the first segment that is there: those before it may be gone."""
        first = self._first()
        if first and self._recall()[0] != first:
            self._clock_ns, self._offset_ns = [], []
        self._number = first

    def _first(self) -> int:
        return min((int(path.name[3:9]) for path in self.folder.glob(f"{self.worker:02d}-??????.spool*")), default=0)

    def _recall(self) -> tuple[int, int]:
        """Take up the clock samples at the mark. Returns the first segment that is not finished, and how many bytes those before it had."""
        try:
            number, bytes_read, *samples = array("q", self._mark.read_bytes())
        except FileNotFoundError:
            return 0, 0
        self._clock_ns, self._offset_ns = samples[: len(samples) // 2], samples[len(samples) // 2 :]
        return number, bytes_read

    def rest(self) -> Iterator[Exchange]:
        """All whole exchanges that are there."""
        before = -1
        while self.bytes_read > before:
            before = self.bytes_read
            yield from self.read()

    def read(self, limit_bytes: int = BLOCK_BYTES) -> Iterator[Exchange]:
        """The whole exchanges that have been written since the last call, from about `limit_bytes` of file."""
        found = self._fresh()
        if found is None and self._exists(self._number + 1):
            found = self._fresh()  # the writer has moved on by now: what comes here is the last of this segment
            if found is None:
                self.finish()
                found = self._fresh()
        if found is None:
            return
        began = at = self._at
        while at + FRAME.size <= len(found) and at - began < limit_bytes:
            magic, kind, worker, size = FRAME.unpack_from(found, at)
            if magic != MAGIC:
                raise LoadstoneError(f"{self._path}: no frame at byte {at}: the file is damaged")
            if at + FRAME.size + size > len(found):
                break
            at += FRAME.size
            if kind == CLOCK:
                monotonic_ns, offset_ns = _CLOCK.unpack_from(found, at)
                self._clock_ns.append(monotonic_ns + offset_ns)
                self._offset_ns.append(offset_ns)
                self._samples = None
            elif kind == EXCHANGE:
                try:
                    exchange = self._exchange(found, at, worker)
                except (ValueError, struct.error) as error:
                    raise LoadstoneError(f"{self._path}: the frame at byte {at} makes no sense ({error}): the file is damaged") from None
                yield exchange
            at += size
            self.bytes_read += FRAME.size + size
            self._at = at

    def finish(self) -> None:
        """Nothing more will come in this segment: go on to the next, and do with this one as was asked."""
        path = self._path
        self._number, self._at, self._unpacked = self._number + 1, 0, None
        if self.after != After.KEEP:
            self._set_mark()
        if self.after == After.REMOVE:
            path.unlink(missing_ok=True)
        elif self.after == After.COMPRESS and path.exists():
            squeezed = _squeezed(path)
            partial = squeezed.with_suffix(".partial")
            with path.open("rb") as plain, gzip.open(partial, "wb", compresslevel=1) as packed:
                shutil.copyfileobj(plain, packed, 1 << 20)
            partial.rename(squeezed)
            path.unlink()

    def exists(self) -> bool:
        """Whether the current segment is there."""
        return self._path.exists()

    def forget(self) -> None:
        """Remove what `resume` needs."""
        self._mark.unlink(missing_ok=True)

    def _set_mark(self) -> None:
        """Note where the next reader is to begin. A segment begins with a clock sample, but replies that began in the one before need older ones."""
        numbers = array("q", [self._number, self.bytes_read, *self._clock_ns[-NEWEST:], *self._offset_ns[-NEWEST:]])
        partial = self._mark.with_suffix(".partial")
        with contextlib.suppress(OSError):  # on a full disk it is the more important that the segment goes
            partial.write_bytes(numbers.tobytes())
            partial.replace(self._mark)

    @property
    def _mark(self) -> Path:
        return self.folder / f"{self.worker:02d}.mark"

    @property
    def _path(self) -> Path:
        return segment_path(self.folder, self.worker, self._number)

    def _exists(self, number: int) -> bool:
        path = segment_path(self.folder, self.worker, number)
        return path.exists() or _squeezed(path).exists()

    def _fresh(self) -> "mmap.mmap | bytes | None":
        """The current segment, if it holds a whole frame that has not been read."""
        path = self._path
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._at + FRAME.size:
                    return None
                segment: mmap.mmap | bytes = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            if self._unpacked is None:
                if not _squeezed(path).exists():
                    return None
                try:
                    with gzip.open(_squeezed(path)) as packed:
                        self._unpacked = packed.read()
                except (OSError, EOFError, zlib.error) as error:
                    raise LoadstoneError(f"{_squeezed(path)} cannot be read: {error}") from None
            segment = self._unpacked
        if len(segment) < self._at + FRAME.size:
            return None
        frame = FRAME.size + FRAME.unpack_from(segment, self._at)[3]
        return segment if len(segment) >= self._at + frame or segment[self._at : self._at + len(MAGIC)] != MAGIC else None

    def _exchange(self, blob: "mmap.mmap | bytes", at: int, worker: int) -> Exchange:
        head = _EXCHANGE.unpack_from(blob, at)
        index, planned, sent, end_ns, connect, tls, end, reused, tries, kind, server, n_detail, n_attempts, n_reads, n_raw = head
        at += _EXCHANGE.size
        detail = blob[at : at + n_detail].decode("utf-8", "replace")
        at += n_detail
        retried = tuple(_attempt(blob, at + number * _ATTEMPT.size) for number in range(n_attempts)) if n_attempts else ()
        at += n_attempts * _ATTEMPT.size
        lengths = np.frombuffer(blob, "<u4", n_reads, at)
        at += 4 * n_reads
        if kind == KERNEL_STAMPS:
            pairs = np.frombuffer(blob, "<i8", 2 * n_reads, at).reshape(-1, 2)
            at += 16 * n_reads
            stamps = self._monotonic(pairs[:, 0] * 1_000_000_000 + pairs[:, 1])
        else:
            stamps = np.frombuffer(blob, "<i8", n_reads, at)
            at += 8 * n_reads
        if end == End.COMPLETE and n_reads:
            end_ns = int(stamps[-1])
        return Exchange(
            index=index,
            worker=worker,
            planned_ns=None if planned == NO_TIME else planned,
            sent_ns=None if sent == NO_TIME else sent,
            end_ns=end_ns,
            end=End(end),
            detail=detail,
            raw=blob[at : at + n_raw],
            stamps_ns=stamps,
            read_ends=np.cumsum(lengths, dtype=np.int64),
            reused=bool(reused),
            connect_ns=connect,
            tls_ns=tls,
            tries=tries,
            server=server,
            retried=retried,
        )

    def _monotonic(self, real_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._samples is None:
            if not self._clock_ns:
                raise LoadstoneError(f"{self.folder}: no clock sample before the first exchange")
            clock, offset = self._clock_ns[-NEWEST:], self._offset_ns[-NEWEST:]
            self._samples = clock[0], offset[0], np.array(clock) - clock[0], np.array(offset) - offset[0]
        clock_0, offset_0, clocks, offsets = self._samples
        # floats hold nanoseconds exactly only near zero: count from the first sample
        drift = np.interp(real_ns - clock_0, clocks, offsets)
        return np.asarray(real_ns - offset_0 - np.rint(drift).astype(np.int64))


def _attempt(blob: "mmap.mmap | bytes", at: int) -> Attempt:
    server, end, status, began_ns, end_ns = _ATTEMPT.unpack_from(blob, at)
    return Attempt(server, End(end), status, began_ns, end_ns)


def _squeezed(path: Path) -> Path:
    return path.with_suffix(".spool.gz")
