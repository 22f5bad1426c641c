"""Server-sent events, held against a second, literal reading of the WHATWG rules (one byte at a time, as the specification tells it)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.backends.base import Event
from loadstone.decode import sse


def by_the_letter(body: bytes) -> tuple[list[tuple[bytes, bytes, int]], bytes | None]:
    """(name, data, offset after the byte that completed it) of each event, and the data left over at the end."""
    at = 3 if body.startswith(b"\xef\xbb\xbf") else 0
    events, line, name, data = [], bytearray(), b"", b""

    def take(line: bytes) -> None:
        nonlocal name, data
        if not line or line[0:1] == b":":
            return
        if b":" in line:
            field, value = line[: line.index(b":")], line[line.index(b":") + 1 :]
            value = value[1:] if value[0:1] == b" " else value
        else:
            field, value = line, b""
        if field == b"event":
            name = value
        if field == b"data":
            data += value + b"\n"

    while at < len(body):
        byte = body[at : at + 1]
        at += 1
        if byte not in (b"\r", b"\n"):
            line += byte
            continue
        if byte == b"\r" and body[at : at + 1] == b"\n":
            at += 1
        if line:
            take(bytes(line))
        else:
            if data:
                events.append((name, data[:-1], at))
            name, data = b"", b""
        line = bytearray()
    take(bytes(line))
    return events, data[:-1] if data else None


WORDS = "data|data:|data: |event: x|event:error|id: 3|retry: 9|:|: ping|\n|\n\n|\r|\r\n|a| |{}|\ufeff|塔|data: [DONE]|data: {}\n\n|foo: bar|\x00"
PIECES = st.sampled_from([word.encode() for word in WORDS.split("|")]) | st.just(b"\xff")


@settings(max_examples=600, deadline=None)
@given(st.lists(PIECES, max_size=14).map(b"".join))
def test_any_body_is_read_by_the_letter(body: bytes) -> None:
    stream = sse.parse(body)
    events, tail = by_the_letter(body)
    assert [(event.data, end) for event, end in zip(stream.events, stream.ends, strict=True)] == [(data, end) for _, data, end in events]
    assert [event.name for event in stream.events] == [name.decode("utf-8", "replace") or "message" for name, _, _ in events]
    assert (stream.tail.data if stream.tail else None) == tail


def test_examples_of_the_specification() -> None:
    assert [event.data for event in sse.parse(b"data: YHOO\ndata: +2\ndata: 10\n\n").events] == [b"YHOO\n+2\n10"]
    assert [
        event.data for event in sse.parse(b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n").events
    ] == [
        b"first event",
        b"second event",
        b" third event",
    ]
    assert [event.data for event in sse.parse(b"data\n\ndata\ndata\n\ndata:").events] == [b"", b"\n"]
    assert sse.parse(b"event: add\ndata: 73857293\n\nevent: x\n\ndata: y\n\n").events == [Event(b"73857293", "add"), Event(b"y")]


def test_an_unterminated_event_is_kept_apart() -> None:
    for body in (b"data: {}\n\ndata: [DONE]", b"data: {}\n\ndata: [DONE]\n"):
        assert sse.parse(body) == ([Event(b"{}")], [10], Event(b"[DONE]"))


def test_a_blank_line_of_carriage_return_and_newline_is_complete_with_both() -> None:
    assert sse.parse(b"data: x\r\n\r\n").ends == [11]
    assert sse.parse(b"data: x\r\r").ends == [9]
