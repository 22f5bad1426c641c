"""The end of a reply by HTTP's framing: found wherever the bytes are cut, faked by no payload."""

import pytest

from loadstone.engine.framing import Framing

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
REPLIES = {
    "chunked": HEAD + b"5\r\nhello\r\n0\r\n\r\n",
    "chunk that looks like the end": HEAD + b"9\r\nab0\r\n\r\ncd\r\n0\r\n\r\n",
    "extensions and trailers": HEAD + b"5;a=b\r\nhello\r\n0\r\nX-T: 1\r\nX-U: 2\r\n\r\n",
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "interim first": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_complete_only_at_the_last_byte_however_it_is_cut(reply: bytes) -> None:
    for cut in range(1, len(reply)):
        framing = Framing()
        assert not framing.feed(reply[:cut]), cut
        assert framing.feed(reply[cut:])
        assert framing.complete and not framing.broken and framing.reusable
    framing = Framing()
    assert [framing.feed(bytes([byte])) for byte in reply] == [False] * (len(reply) - 1) + [True]


def test_a_server_that_closes_is_not_asked_again() -> None:
    framing = Framing()
    assert framing.feed(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
    assert not framing.reusable


def test_bytes_after_the_end_spoil_the_connection() -> None:
    framing = Framing()
    framing.feed(REPLIES["length"] + b"HTTP/1.1 200 OK\r\n")
    assert framing.complete and not framing.reusable


def test_a_body_without_length_ends_with_the_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream"
    framing = Framing()
    assert not framing.feed(head + b"\r\n\r\ndata: x\n\n")
    assert framing.ends_by_close(head)
    cut = Framing()
    cut.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
    assert not cut.ends_by_close(b"HTTP/1.1 200 OK\r\ncontent-length : 9")
    assert not Framing().ends_by_close(b"")


def test_what_is_no_http_is_broken_not_raised() -> None:
    framing = Framing()
    assert framing.feed(b"SSH-2.0-OpenSSH_9.2\r\n")
    assert framing.broken and not framing.complete
