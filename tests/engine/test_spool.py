"""The spool gives back exactly what was captured, survives being cut anywhere, and turns kernel stamps into monotonic time."""

import struct
import time
from pathlib import Path

import pytest

from loadstone.engine.clock import realtime_offset_ns
from loadstone.engine.counters import Count
from loadstone.engine.ends import End
from loadstone.engine.exchange import Attempt, Exchange
from loadstone.engine.spool import _CLOCK, CLOCK, FRAME, MAGIC, NO_TIME, Captured, SpoolWriter, segment_path
from loadstone.engine.spool_reader import After, SpoolReader
from loadstone.errors import LoadstoneError


def captured(index: int, reads: list[bytes], stamps: list[int] | list[bytes], end: End = End.COMPLETE, detail: str = "") -> Captured:
    found = Captured()
    found.index, found.planned_ns, found.sent_ns, found.end_ns = index, 5, 7, 99
    found.connect_ns, found.tls_ns, found.end, found.reused, found.tries, found.detail = 3, 4, end, True, 2, detail
    found.reads, found.stamps, found.raw = reads, list(stamps), None
    found.server, found.retried = 3, (Attempt(2, End.COMPLETE, 429, 7, 8), Attempt(0, End.RESET, 0, 9, 10))
    return found


def read_all(folder: Path, after: After = After.KEEP) -> list[Exchange]:
    reader = SpoolReader(folder, 0, after)
    found: list[Exchange] = []
    while fresh := list(reader.read()):
        found += fresh
    return found


def writer(folder: Path, segment_bytes: int = 1 << 30) -> tuple[SpoolWriter, memoryview]:
    counters = memoryview(bytearray(16 * 8)).cast("q")
    return SpoolWriter(folder, 0, segment_bytes, counters), counters


def test_every_field_comes_back(tmp_path: Path) -> None:
    spool, counters = writer(tmp_path)
    spool.waiting.append(captured(4, [b"ab", b"", b"cde"], [11, 12, 13], End.RESET, "Verbindung zurückgesetzt"))
    failed = captured(5, [], [], End.NOT_CONNECTED)
    failed.planned_ns = failed.sent_ns = NO_TIME
    spool.waiting.append(failed)
    spool.close()
    first, second = read_all(tmp_path)
    assert first.server == 3 and first.retried == captured(0, [], []).retried
    assert (first.index, first.worker, first.planned_ns, first.sent_ns, first.end_ns) == (4, 0, 5, 7, 99)
    assert (first.connect_ns, first.tls_ns, first.end, first.reused, first.tries, first.detail) == (
        3,
        4,
        End.RESET,
        True,
        2,
        "Verbindung zurückgesetzt",
    )
    assert first.raw == b"abcde"
    assert first.stamps_ns.tolist() == [11, 12, 13]
    assert first.read_ends.tolist() == [2, 2, 5]
    assert (second.planned_ns, second.sent_ns, second.raw, len(second.stamps_ns)) == (None, None, b"", 0)
    assert counters[Count.SPOOLED] == 2


def test_a_complete_reply_ends_with_its_last_read(tmp_path: Path) -> None:
    spool, _ = writer(tmp_path)
    spool.waiting.append(captured(0, [b"a", b"b"], [11, 42]))
    spool.close()
    assert read_all(tmp_path)[0].end_ns == 42


def test_kernel_stamps_become_monotonic(tmp_path: Path) -> None:
    """A stamp of the real-time clock taken between two readings of the monotonic clock must land between them."""
    spool, _ = writer(tmp_path)
    before = time.monotonic_ns()
    stamp = struct.pack("=qq", *divmod(time.time_ns(), 10**9))
    after = time.monotonic_ns()
    spool.waiting.append(captured(0, [b"x"], [stamp]))
    spool.close()
    (found,) = read_all(tmp_path)
    assert before - 20_000 <= int(found.stamps_ns[0]) <= after + 20_000


def test_a_clock_that_is_slewed_bends_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real-time clock gains 1 us between the samples at 0 s and 2 s: a stamp half way is off by half of that."""
    offset, spool = 1_800_000_000 * 10**9, None
    for monotonic, gained in ((0, 0), (2 * 10**9, 1000)):
        monkeypatch.setattr("loadstone.engine.spool.time.monotonic_ns", lambda now=monotonic: now)
        monkeypatch.setattr("loadstone.engine.spool.realtime_offset_ns", lambda _rounds, gained=gained: offset + gained)
        if spool is None:
            spool, _ = writer(tmp_path)
        else:
            spool.sample_clock()
    assert spool is not None
    spool.waiting.append(captured(0, [b"x"], [struct.pack("=qq", *divmod(10**9 + offset + 500, 10**9))]))
    monkeypatch.undo()
    spool._write_exchange(spool.waiting.popleft())
    (found,) = read_all(tmp_path)
    assert abs(int(found.stamps_ns[0]) - 10**9) <= 1


def test_segments_are_cut_and_removed_once_read(tmp_path: Path) -> None:
    spool, counters = writer(tmp_path, segment_bytes=200)
    for index in range(10):
        spool.waiting.append(captured(index, [b"y" * 100], [index]))
    spool.close()
    assert counters[Count.SEGMENT] == 10
    assert [exchange.index for exchange in read_all(tmp_path, After.REMOVE)] == list(range(10))
    assert list(tmp_path.glob("*.spool")) == [segment_path(tmp_path, 0, 10)]


def test_segments_can_be_compressed_once_read_and_read_again(tmp_path: Path) -> None:
    spool, _ = writer(tmp_path, segment_bytes=3000)
    for index in range(10):
        spool.waiting.append(captured(index, [b"y" * 1000], [index]))
    spool.close()
    first = read_all(tmp_path, After.COMPRESS)
    assert sorted({path.suffix for path in tmp_path.glob("*.spool*")}) == [".gz", ".spool"]  # the last one is still open for all a reader knows
    reader, again = SpoolReader(tmp_path, 0), list[Exchange]()
    while fresh := list(reader.read(limit_bytes=500)):  # less than a segment at a time
        again += fresh
    assert [(e.index, e.raw, e.stamps_ns.tolist()) for e in again] == [(e.index, e.raw, e.stamps_ns.tolist()) for e in first]
    assert len(again) == 10


def test_a_reader_that_follows_sees_each_exchange_once(tmp_path: Path) -> None:
    spool, _ = writer(tmp_path, segment_bytes=300)
    reader = SpoolReader(tmp_path, 0, After.REMOVE)
    found: list[int] = []
    for index in range(20):
        spool.waiting.append(captured(index, [b"z" * 50], [index]))
        spool.write_some()
        found += [exchange.index for exchange in reader.read(limit_bytes=64)]
    spool.close()
    while fresh := [exchange.index for exchange in reader.read(limit_bytes=64)] or reader.bytes_read < spool.counters[Count.SPOOLED_BYTES]:
        found += fresh if isinstance(fresh, list) else []
    assert found == list(range(20))


def test_a_spool_cut_anywhere_loses_only_what_was_being_written(tmp_path: Path) -> None:
    spool, _ = writer(tmp_path)
    for index in range(3):
        spool.waiting.append(captured(index, [b"abc", b"defg"], [index, index + 1]))
    spool.close()
    path = segment_path(tmp_path, 0, 0)
    whole = path.read_bytes()
    counts = []
    for cut in range(0, len(whole) + 1, 7):
        path.write_bytes(whole[:cut])
        counts.append(len(read_all(tmp_path)))
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3}


def test_damage_is_named(tmp_path: Path) -> None:
    spool, _ = writer(tmp_path)
    spool.close()
    segment_path(tmp_path, 0, 0).write_bytes(b"not a spool, but long enough for a frame")
    with pytest.raises(LoadstoneError, match="damaged"):
        read_all(tmp_path)


def test_the_clocks_offset_is_tight() -> None:
    assert abs(realtime_offset_ns() - realtime_offset_ns()) < 1_000_000


def test_another_reader_goes_on_with_the_clock_samples_of_the_first(tmp_path: Path) -> None:
    """A reply whose stamps lie before its segment's first clock sample: 1 s after the first sample and 1 s before the second, which lie 1 ms apart in
    offset, it is half a millisecond off either.
    """
    spool, _ = writer(tmp_path, segment_bytes=10**6)
    segment_path(tmp_path, 0, 0).write_bytes(FRAME.pack(MAGIC, CLOCK, 0, 16) + _CLOCK.pack(10**9, 5 * 10**9))
    reader = SpoolReader(tmp_path, 0, After.REMOVE)
    assert list(reader.read()) == []
    spool._open_next()
    segment_path(tmp_path, 0, 1).write_bytes(FRAME.pack(MAGIC, CLOCK, 0, 16) + _CLOCK.pack(3 * 10**9, 5 * 10**9 + 10**6))
    assert list(reader.read()) == [] and not segment_path(tmp_path, 0, 0).exists()  # and now it dies
    other = SpoolReader(tmp_path, 0, After.REMOVE)
    other.resume()
    stamp = struct.pack("<qq", 7, 500_000)  # real time: 2 s of monotonic time, plus 5 s and half a millisecond
    spool._write_exchange(captured(3, [b"x"], [stamp]))
    (found,) = other.rest()
    assert abs(int(found.stamps_ns[0]) - 2 * 10**9) <= 1
    assert other.bytes_read == FRAME.size + 16 + segment_path(tmp_path, 0, 1).stat().st_size
