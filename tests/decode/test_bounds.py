"""What one reply may cost: a body that inflates without end, events and values without number fail one request, and take no memory."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import numpy as np
import pytest

from loadstone.backends import get
from loadstone.decode import coding, reading
from loadstone.decode.reply import decode
from loadstone.engine.exchange import End, Exchange
from loadstone.records import COMPLETED, FAILED, Record

MB = 1 << 20
FINISH = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'


def deflated(parts: list[tuple[bytes, int]], window: int) -> bytes:
    """Each part repeated, without its plain form in memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    packed = [packer.compress(part * (MB // len(part))) for part, size in parts for _ in range(size // MB)]
    return b"".join([*packed, packer.flush()])


def record_of(body: bytes, name: str = "", status: bytes = b"200 OK", backend: str = "openai-chat", read: int = 65536) -> Record:
    field = b"Content-Encoding: %b\r\n" % name.encode() if name else b""
    raw = b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, field, len(body), body)
    ends = np.array([*range(read, len(raw), read), len(raw)], np.int64)
    exchange = Exchange(
        index=0, worker=0, planned_ns=None, sent_ns=0, end_ns=99, end=End.COMPLETE, raw=raw, stamps_ns=np.arange(len(ends)) + 1, read_ends=ends
    )  # fmt: skip
    return decode(exchange, get(backend))


def peak_of(what: Callable[[], Record]) -> tuple[Record, int]:
    """What it gives back, and the most memory that it took meanwhile."""
    tracemalloc.start()
    try:
        return what(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("name", "window", "bound"), [("gzip", 31, 256), ("deflate", 15, 32), ("deflate", -15, 32)])
def test_a_bomb_fails_its_request_and_is_never_held(name: str, window: int, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if bound != 256:
        monkeypatch.setattr(coding, "LARGEST", bound * MB)
    body = deflated([(b"\0", (bound + 1) * MB)], window)
    assert len(body) < MB // 2
    record, peak = peak_of(lambda: record_of(body, name))
    assert (record.status, record.reason) == (FAILED, "encoding")
    assert f"more than {bound} MiB" in record.error and name in record.error
    assert peak < 8 * MB


def test_a_bomb_of_bombs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that each inflate to less than the bound, and together to more; the refusal of a server is bounded likewise."""
    monkeypatch.setattr(coding, "LARGEST", 32 * MB)
    members = gzip.compress(bytes(8 * MB)) * 5
    record, peak = peak_of(lambda: record_of(members, "gzip"))
    assert record.reason == "encoding" and "more than 32 MiB" in record.error and peak < 8 * MB
    record, peak = peak_of(lambda: record_of(members, "gzip", b"500 Oh no"))
    assert (record.reason, record.error) == ("http 500", "HTTP 500 Oh no") and peak < 8 * MB


def test_the_bound_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coding, "_HARMLESS", 0)
    monkeypatch.setattr(coding, "LARGEST", len(FINISH) * 3)
    assert record_of(gzip.compress(FINISH * 3), "gzip").text == "aaa"
    assert record_of(gzip.compress(FINISH * 3 + b"\n"), "gzip").reason == "encoding"


def test_members_without_number_are_read_in_good_time() -> None:
    """Each leaves the rest of the data to be copied: 100,000 of them in one read would take minutes if all of the rest were."""
    members = gzip.compress(b"") * 100_000 + gzip.compress(FINISH)
    record = record_of(members, "gzip", read=1 << 30)
    assert (record.status, record.text) == (COMPLETED, "a")


def test_a_read_is_still_told_from_the_next_where_the_body_is_inflated_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coding, "_HARMLESS", 0)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    halves = [packer.compress(FINISH) + packer.flush(zlib.Z_SYNC_FLUSH), packer.compress(FINISH) + packer.flush()]
    plain, ends, ended, fault = coding.decoded(b"".join(halves), np.cumsum([len(half) for half in halves]), "gzip")
    assert (plain, ends.tolist(), ended, fault) == (FINISH * 2, [len(FINISH), 2 * len(FINISH)], True, "")


@pytest.mark.parametrize(
    ("event", "backend"),
    [
        (b"data:{}\n\n", "openai-chat"),
        (b"data: {}\n\n", "openai-chat"),
        (b"data:{}\r\r", "openai-chat"),
        (b"data:\n", "openai-chat"),
        (b"{}\n", "ollama"),
    ],
)
def test_events_without_number(event: bytes, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_EVENTS", 1000)
    most = record_of(event * 900 + b"data: [DONE]\n\n", backend=backend)
    assert "events" not in most.error
    body = gzip.compress((event * (4 * MB // len(event))) + b"data: [DONE]\n\n")
    record, peak = peak_of(lambda: record_of(body, "gzip", backend=backend))
    assert (record.status, record.reason) == (FAILED, "json") and "more than 1,000 events" in record.error
    assert peak < 16 * MB  # the plain body twice, and no events to speak of


@pytest.mark.parametrize("body", [b'{"a":[' + b"0," * 6000, b'data: {"a":[' + b"[[]]," * 3000 + b"\n\n"])
def test_values_without_number(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_VALUES", 5000)
    record = record_of(body)
    assert (record.status, record.reason) == (FAILED, "json") and "more than 5,000 values" in record.error
    assert record_of(b'{"choices":[{"message":{"content":"' + b"," * 4000 + b'"},"finish_reason":"stop"}]}').status == COMPLETED
