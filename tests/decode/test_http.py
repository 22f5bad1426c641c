"""HTTP replies of every framing, cut into reads anywhere: the body, how much of it each read brought, and whether it came to its end."""

import gc
import gzip
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.decode import http
from loadstone.decode.body import Response


def parse(*reads: bytes) -> Response:
    return http.parse(b"".join(reads), np.cumsum([len(read) for read in reads]).astype(np.int64))


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes, extension: bytes = b"", zeros: int = 0, upper: bool = False) -> bytes:
    size = b"0" * zeros + b"%x" % len(data)
    return (size.upper() if upper else size) + extension + b"\r\n" + data + b"\r\n"


@st.composite
def cut(draw: st.DrawFn, raw: bytes) -> list[bytes]:
    points = sorted(draw(st.sets(st.integers(1, max(len(raw) - 1, 1)), max_size=12)))
    return [raw[a:b] for a, b in zip([0, *points], [*points, len(raw)], strict=True) if raw[a:b]]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_chunked_bodies_cut_anywhere(data: st.DataObject) -> None:
    datas = data.draw(st.lists(st.binary(min_size=1, max_size=40) | st.just(b"y" * 300), max_size=6))
    odd = data.draw(st.sampled_from(["plain", "extension", "zeros", "upper", "trailer", "interim"]))
    raw, owners = HEAD, []  # owners: offset in raw of each body byte
    if odd == "interim":
        raw = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + HEAD
    for part in datas:
        wire = chunk(part, b";a=b" if odd == "extension" else b"", 2 if odd == "zeros" else 0, odd == "upper")
        start = len(raw) + wire.index(b"\r\n") + 2
        owners += range(start, start + len(part))
        raw += wire
    raw += b"0\r\nX-Sum: 1\r\n\r\n" if odd == "trailer" else b"0\r\n\r\n"
    reads = data.draw(cut(raw))
    response = parse(*reads)
    ends = np.cumsum([len(read) for read in reads])
    assert response.status == 200 and response.complete and not response.fault
    assert response.body == b"".join(datas)
    assert response.body_ends.tolist() == [sum(owner < end for owner in owners) for end in ends]
    quick = http._plain_chunked(raw, ends)
    assert (quick is not None) == (odd in ("plain", "upper") or (not datas and odd in ("extension", "zeros")))
    read_of_last = response.reads_of(np.array([len(response.body)])) if response.body else []
    assert list(read_of_last) == ([int(np.searchsorted(ends, owners[-1], "right"))] if owners else [])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_compressed_bodies_cut_anywhere(data: st.DataObject) -> None:
    plain = [b"data: %d\n\n" % n * 3 for n in range(data.draw(st.integers(1, 5)))]
    coding, window = data.draw(st.sampled_from([("gzip", 31), ("deflate", 15), ("deflate", -15)]))
    packer = zlib.compressobj(6, zlib.DEFLATED, window)
    flushed = [packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in plain] + [packer.flush()]
    raw = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nTransfer-Encoding: chunked\r\n\r\n" % coding.encode()
    flushed_at = []
    for part in flushed:
        raw += chunk(part)
        flushed_at.append(len(raw) - 2)
    raw += b"0\r\n\r\n"
    reads = data.draw(cut(raw))
    response = parse(*reads)
    assert response.body == b"".join(plain) and response.complete
    ends = np.cumsum([len(read) for read in reads])
    length = 0
    for part, at in zip(plain, flushed_at, strict=False):  # a part is there once its flush is, at the latest
        length += len(part)
        assert response.reads_of(np.array([length]))[0] <= np.searchsorted(ends, at, "left")
    assert (np.diff(response.body_ends) >= 0).all() and response.body_ends[-1] == length


def test_gzip_members_follow_each_other() -> None:
    body = gzip.compress(b"one ") + gzip.compress(b"two")
    assert parse(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body), body).body == b"one two"


def test_a_compressed_body_that_breaks_off_or_is_unknown() -> None:
    body = gzip.compress(b"some text")
    cut_off = parse(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % (len(body) - 9), body[:-9])
    assert not cut_off.complete
    broken = parse(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc")
    assert "gzip" in broken.fault
    unknown = parse(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc")
    assert "br" in unknown.fault and unknown.body == b""


def test_length() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"
    whole = parse(head + b"ab", b"cdef")
    assert (whole.body, whole.body_ends.tolist(), whole.complete, whole.until_close) == (b"abcdef", [2, 6], True, False)
    assert not parse(head, b"abc").complete


def test_until_close() -> None:
    response = parse(b"HTTP/1.1 200 OK\r\n\r\nab", b"cd")
    assert (response.body, response.complete, response.until_close, response.body_ends.tolist()) == (b"abcd", False, True, [2, 4])


def test_interim_replies_are_skipped_and_the_first_byte_is_the_real_reply_s() -> None:
    response = parse(
        b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 404 Not", b" Found\r\nContent-Length: 0\r\n\r\n"
    )
    assert (response.status, response.phrase, response.complete, response.first_read) == (404, "Not Found", True, 2)


def test_trailers_are_no_headers() -> None:
    response = parse(HEAD + chunk(b"x") + b"0\r\nContent-Encoding: gzip\r\n\r\n")
    assert "content-encoding" not in response.headers and response.body == b"x"


def test_what_follows_the_reply_is_no_part_of_it() -> None:
    following = b"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nabc"
    for reads in (
        [HEAD + chunk(b"x") + b"0\r\n\r\n" + following],
        [HEAD + chunk(b"x") + b"0\r\n\r\n", following],
        [HEAD + chunk(b"x") + b"0\r\n\r\n??"],
    ):
        response = parse(*reads)
        assert (response.status, response.body, response.complete, response.fault) == (200, b"x", True, "")


@pytest.mark.parametrize("raw", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"\x16\x03\x01"])
def test_what_is_no_http_is_named(raw: bytes) -> None:
    assert parse(raw).fault and not parse(raw).complete


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.binary(min_size=1, max_size=60) | st.sampled_from([HEAD, b"\r\n", b"5\r\n", b"HTTP/1.1 101 X\r\n\r\n", b"HTTP/1.1 100 C\r\n\r\n"]),
        max_size=5,
    )
)
def test_no_bytes_raise(reads: list[bytes]) -> None:
    response = parse(*reads)
    assert len(response.body_ends) == len(reads)


def test_a_reply_leaves_nothing_for_the_garbage_collector() -> None:
    """Else memory grows between collections, and each reply is decoded in memory that is cold."""
    for raw in (HEAD + chunk(b"x") + b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"):
        gc.collect()
        gc.disable()
        try:
            parse(raw)
            assert gc.collect() == 0
        finally:
            gc.enable()
