"""What the events of one reply came to: its token events, its text, and what the server said about it.

Three ways in: a stream event by event (`stream`, the reference), the common shape of stream at once (`plain_stream`), one JSON document (`document`).
"""

import re
from collections.abc import Iterable

import msgspec
import numpy as np

from loadstone.backends.base import Backend, Event, Reply
from loadstone.backends.frames import AFTER, BEFORE, Frames
from loadstone.decode import sse
from loadstone.decode.body import Chunks, Offsets

_DONE = b"[DONE]"
_DONE_FRAME = BEFORE + _DONE + AFTER
_NONE = np.zeros(0, np.int64)
MOST_AT_ONCE = 1_000_000  # tokens of one event; a count beyond is a fault of the server's
MOST_EVENTS = 1 << 21  # of one reply: each costs some hundred bytes of memory, which may be a thousand times what it was on the wire
MOST_VALUES = 1 << 25  # in the JSON of one reply, likewise
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")


class Reading(msgspec.Struct, kw_only=True):
    """`ends[i]`: offset in the body of the byte that completed token event i. `token_counts` and `server_ns`: one entry a token event, or empty.

    Of a reply with several choices `text`, `reasoning` and `tool_call` are those of all, in the order of the choices; `texts` and `others`
    (reasoning, tool calls) are each by itself.
    """

    reply: Reply
    streamed: bool = True
    ends: Offsets = _NONE
    first_visible: int | None = None
    text: str = ""
    reasoning: str = ""
    tool_call: str = ""
    texts: list[str] = []
    others: list[str] = []
    token_counts: list[int] = []
    server_ns: list[int] = []
    malformed: str = ""  # what could not be read, "" if everything could


def read(body: bytes, backend: Backend, ended: bool, end_mark_only: bool = False, chunks: Chunks | None = None) -> Reading:
    """The reading of a body. `ended`: it came to its proper end, so a last event without its blank line is taken too; `end_mark_only`: it did not,
    but the end mark is taken so. `chunks`: the body as its server cut it, if that is known.
    """
    if len(body) > MOST_VALUES and sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        return Reading(reply=Reply(), malformed=f"a reply of more than {MOST_VALUES:,} values is not read")
    if backend.lines:
        return lines(body, backend, ended)
    start = body.removeprefix(sse.BOM)[:64].lstrip()
    if start[:1] in (b"{", b"["):  # no line of an event stream that says anything begins so, whatever the content type claims
        return document(body, backend)
    if backend.is_text(body):
        return document(msgspec.json.encode({"text": body.decode("utf-8", "replace")}), backend)
    return plain_stream(body, backend, chunks) or stream(body, backend, ended, end_mark_only)


def stream(body: bytes, backend: Backend, ended: bool, end_mark_only: bool = False) -> Reading:
    """Server-sent events one by one, until the end mark, an error or an event that cannot be read."""
    if len(body) > 4 * MOST_EVENTS and body.count(b"data:") > 4 * MOST_EVENTS:  # lines of one event are kept too
        return _too_many()
    events, ends, tail = sse.parse(body, MOST_EVENTS)
    if len(events) > MOST_EVENTS:
        return _too_many()
    if tail is not None and (ended or (end_mark_only and tail.data.strip() == _DONE)):
        events.append(tail)
        ends.append(len(body))
    return _one_by_one(zip(events, ends, strict=True), backend)


def lines(body: bytes, backend: Backend, ended: bool) -> Reading:
    """A JSON object a line; a last line without its end is taken if the body came to its own. A body of one line is a document if the backend takes
    it for one, and so is one whose first line is a bracket and no more.
    """
    events: list[tuple[Event, int]] = []
    for match in _LINE.finditer(body):
        line, end = match[0], match.end()
        if line.strip() and (ended or line.endswith((b"\n", b"\r"))):
            events.append((Event(line.strip()), end))
            if len(events) > MOST_EVENTS:
                return _too_many()
    if len(events) == 1 and ended and backend.is_whole(events[0][0].data):
        return document(body, backend)
    if len(events) > 1 and ended and events[0][0].data in (b"{", b"["):  # a document set out over several lines
        return document(body, backend)
    return _one_by_one(events, backend)


def _too_many() -> Reading:
    return Reading(reply=Reply(), malformed=f"a reply of more than {MOST_EVENTS:,} events is not read")


def _one_by_one(events: Iterable[tuple[Event, int]], backend: Backend) -> Reading:
    reply = Reply()
    reading = Reading(reply=reply)
    token_ends: list[int] = []
    texts: list[str] = []
    reasonings: list[str] = []
    tool_calls: list[str] = []
    running: list[int] = []
    server_ns: list[int] = []
    for event, end in events:
        try:
            emission = backend.read(event, reply)
        except ValueError as error:
            reading.malformed = str(error)
            break
        if emission is not None:
            if reading.first_visible is None and emission.visible:
                reading.first_visible = len(token_ends)
            token_ends.append(end)
            texts.append(emission.text)
            reasonings.append(emission.reasoning)
            tool_calls.append(emission.tool_call)
            if emission.output_tokens is not None:
                running.append(emission.output_tokens)
            if emission.server_ns is not None:
                server_ns.append(emission.server_ns)
        if reply.done or reply.error is not None:
            break
    reading.ends = np.array(token_ends, np.int64)
    reading.text, reading.reasoning, reading.tool_call = (_whole("".join(pieces)) for pieces in (texts, reasonings, tool_calls))
    # of several choices nobody knows whether a running usage is that of one or of all
    reading.token_counts = token_counts(running if len(running) == len(token_ends) and len(reply.voices) < 2 else [], reply.usage.output_tokens)
    reading.server_ns = server_ns if len(server_ns) == len(token_ends) else []
    _apart(reading)
    return reading


def plain_stream(body: bytes, backend: Backend, chunks: Chunks | None = None) -> Reading | None:
    """All events at once; None if the body is no plain stream ending in [DONE], or the backend must look at each event.

    Servers write an event a chunk, so the chunks are tried as they are before the body is cut anew.
    """
    if not body.startswith(BEFORE) or not body.endswith(_DONE_FRAME):
        return None
    if chunks is not None and chunks.pieces[-1] == _DONE_FRAME and (reading := _plain_stream(body, chunks, backend)) is not None:
        return reading
    if len(body) > MOST_EVENTS and body.count(AFTER) > MOST_EVENTS:
        return None
    pieces = [piece + AFTER for piece in body[: -len(AFTER)].split(AFTER)]
    if pieces[-1] != _DONE_FRAME:
        return None
    return _plain_stream(body, Chunks(pieces, np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)))), backend)


def _plain_stream(body: bytes, chunks: Chunks, backend: Backend) -> Reading | None:
    """The same with every piece taken for one event, which the backend proves."""
    reply = Reply()
    batch = backend.read_many(Frames(chunks.pieces[:-1], chunks.ends[:-1], body), reply)
    if batch is None:
        return None
    reply.done = True
    return Reading(
        reply=reply,
        ends=chunks.ends[:-1][batch.events],
        first_visible=batch.first_visible,
        text=batch.text,
        reasoning=batch.reasoning,
        token_counts=token_counts(batch.output_tokens, reply.usage.output_tokens),
        server_ns=batch.server_ns,
    )


def document(body: bytes, backend: Backend) -> Reading:
    """A reply that is one JSON document: text and usage, but no token times."""
    reading = Reading(reply=Reply(), streamed=False)
    try:
        emission = backend.read_whole(backend.document(body.removeprefix(sse.BOM)), reading.reply)
    except ValueError as error:
        reading.malformed = str(error)
        return reading
    if emission is not None:
        reading.text, reading.reasoning, reading.tool_call = _whole(emission.text), _whole(emission.reasoning), _whole(emission.tool_call)
    _apart(reading)
    return reading


def _apart(reading: Reading) -> None:
    """What was said by several choices, or in several tool calls, as they are numbered and not as it came."""
    voices = [voice for _, voice in sorted(reading.reply.voices.items())]
    if len(voices) < 2 and not any(len(voice.tool_calls) > 1 for voice in voices):
        return
    reading.texts = [_whole("".join(voice.text)) for voice in voices]
    reasonings = [_whole("".join(voice.reasoning)) for voice in voices]
    tool_calls = [_whole("".join(pieces)) for voice in voices for _, pieces in sorted(voice.tool_calls.items())]
    reading.text, reading.reasoning, reading.tool_call = ("".join(channel) for channel in (reading.texts, reasonings, tool_calls))
    reading.others = [*reasonings, *tool_calls]


def token_counts(running: list[int], total: int | None) -> list[int]:
    """Tokens of each token event from the running usage after each; empty if it ever fell, or grew by more than any event holds, or if it stood still
    till the end: some servers have a usage in each event and fill in the `total` in the last one alone. An event may have brought text and no
    token: 0.
    """
    if running and running[-1] < len(running) and (running[-1] == 0 or (total or 0) > running[-1]):
        return []
    counts = [now - before for before, now in zip([0, *running], running, strict=False)]
    return counts if min(counts, default=0) >= 0 and max(counts, default=0) <= MOST_AT_ONCE else []


def _whole(text: str) -> str:
    """The text with every surrogate pair that was cut over two events made whole again, and lone halves become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
