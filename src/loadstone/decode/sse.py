"""Server-sent events by the WHATWG rules: the bytes of a whole body in, its events out, each with the offset of the byte that completed it.

Lines end with CR LF, LF or CR, mixed as they come; one byte-order mark at the start is dropped; a line that begins with a colon is a comment; one
space after a field's colon is dropped; `data` lines of an event are joined by newlines; `id`, `retry` and unknown fields say nothing here; a blank
line completes the event, which is none if it had no data line. Bytes stay bytes: UTF-8 is decoded by whoever reads the payload, so no cut can hurt
it.

The rules drop an event that the body ends before completing. Real servers end with `data: [DONE]` and no blank line, so such an event is given
apart, as `tail`: it may be taken when, and only when, the body came to its proper end.
"""

import re
from typing import NamedTuple

from loadstone.backends.base import Event

BOM = b"\xef\xbb\xbf"
_LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")


class Stream(NamedTuple):
    """`ends[i]`: offset just after the blank line that completed `events[i]`."""

    events: list[Event]
    ends: list[int]
    tail: Event | None


def parse(body: bytes, most: int | None = None) -> Stream:
    """All events of a body, or one more than `most`. Never raises."""
    events: list[Event] = []
    ends: list[int] = []
    data: list[bytes] = []
    name = b""
    for match in _LINE.finditer(body, 3 if body.startswith(BOM) else 0):
        line, ending = match.groups()
        if line:
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
        elif ending:
            if data:
                events.append(_event(data, name))
                ends.append(match.end())
                if most is not None and len(events) > most:
                    break
            data, name = [], b""
    return Stream(events, ends, _event(data, name) if data else None)


def _event(data: list[bytes], name: bytes) -> Event:
    payload = data[0] if len(data) == 1 else b"\n".join(data)
    return Event(payload, name.decode("utf-8", "replace")) if name else Event(payload)
