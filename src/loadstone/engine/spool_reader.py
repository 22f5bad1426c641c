"""Reading a worker's spool: while it grows, or long after.

Kernel stamps become monotonic here: the offset between the clocks is interpolated between the samples around each stamp, so that a clock that is
being slewed bends no time.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadstone.engine.exchange import End, Exchange
from loadstone.engine.spool import _CLOCK, _EXCHANGE, CLOCK, EXCHANGE, FRAME, KERNEL_STAMPS, MAGIC, NO_TIME, segment_path
from loadstone.errors import LoadstoneError


class SpoolReader:
    """Reads one worker's segments in order. `remove`: delete each segment once all of it has been read and a newer one exists."""

    def __init__(self, folder: Path, worker: int, *, remove: bool = False) -> None:
        self.folder, self.worker, self.remove = folder, worker, remove
        self._number, self._at, self._rest = 0, 0, b""
        self._clock_ns: list[int] = []
        self._offset_ns: list[int] = []
        self.bytes_read = 0

    def read(self, limit_bytes: int = 8 << 20) -> Iterator[Exchange]:
        """The whole exchanges that have been written since the last call, from at most about `limit_bytes` of file."""
        path = segment_path(self.folder, self.worker, self._number)
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._at)
            fresh = file.read(limit_bytes)
        self._at += len(fresh)
        self.bytes_read += len(fresh)
        if not fresh and segment_path(self.folder, self.worker, self._number + 1).exists():
            # the writer has moved on before this look, so nothing more comes in this segment
            with path.open("rb") as file:
                file.seek(self._at)
                fresh = file.read(limit_bytes)
            self._at += len(fresh)
            if not fresh:
                if self.remove:
                    path.unlink()
                self._number, self._at, self._rest = self._number + 1, 0, b""
                yield from self.read(limit_bytes)
                return
        blob = self._rest + fresh
        at = 0
        while at + FRAME.size <= len(blob):
            magic, kind, worker, size = FRAME.unpack_from(blob, at)
            if magic != MAGIC:
                raise LoadstoneError(f"{path}: no frame at byte {self._at - len(blob) + at}: the file is damaged")
            if at + FRAME.size + size > len(blob):
                break
            at += FRAME.size
            if kind == CLOCK:
                monotonic_ns, offset_ns = _CLOCK.unpack_from(blob, at)
                self._clock_ns.append(monotonic_ns + offset_ns)
                self._offset_ns.append(offset_ns)
            elif kind == EXCHANGE:
                yield self._exchange(blob, at, worker)
            at += size
        self._rest = blob[at:]

    def _exchange(self, blob: bytes, at: int, worker: int) -> Exchange:
        index, planned, sent, end_ns, connect, end, reused, tries, kind, n_detail, n_reads, n_raw = _EXCHANGE.unpack_from(blob, at)
        at += _EXCHANGE.size
        detail = blob[at : at + n_detail].decode("utf-8", "replace")
        at += n_detail
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
            index=index, worker=worker, planned_ns=None if planned == NO_TIME else planned, sent_ns=None if sent == NO_TIME else sent,
            end_ns=end_ns, end=End(end), detail=detail, raw=blob[at : at + n_raw], stamps_ns=stamps,
            read_ends=np.cumsum(lengths, dtype=np.int64), reused=bool(reused), connect_ns=connect, tries=tries,
        )  # fmt: skip

    def _monotonic(self, real_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self._clock_ns:
            raise LoadstoneError(f"{self.folder}: no clock sample before the first exchange")
        newest = slice(-256, None)  # stamps are never much older than the newest samples
        clock = np.array(self._clock_ns[newest])
        offset = np.array(self._offset_ns[newest])
        # floats hold nanoseconds exactly only near zero: count from the first sample
        drift = np.interp(real_ns - clock[0], clock - clock[0], offset - offset[0])
        return np.asarray(real_ns - offset[0] - np.rint(drift).astype(np.int64))
