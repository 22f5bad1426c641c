"""Runs of events that differ in one JSON string: a reply's text is nearly all such events, and a run is decoded at the price of its strings.

From one event, decoded into its typed struct, a `Template` is learned: the bytes before and after the string that is its text. It is proven: the same
bytes around another string must decode to the same struct with that other text. JSON has no context, so what holds for one string there holds for
all: the bytes before leave off where a value is due. (Inside a string, the other one could not come out as it went in; as a key, it could not
come out as text.) Then a run of events needs no more than to have these bytes around strings.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from loadstone.backends.frames import AFTER, BEFORE, Frames, one_line
from loadstone.backends.openai_chunks import Choice, Chunk, Delta, decode

_PROBE = "a loadstone"
_QUOTED = b'"a loadstone"'
_ENCODERS: tuple[Callable[[str], bytes], ...] = (msgspec.json.encode, lambda text: json.dumps(text).encode())  # as it is, and in ASCII
_PLACES = 4  # most places tried where an event has its text, which may stand in it as something else too

_STRINGS = msgspec.json.Decoder(list[str]).decode


class Template(NamedTuple):
    """`before` and `after`: what stands around the string in a frame; `visible`: it is text of the answer, else of the reasoning."""

    before: bytes
    after: bytes
    visible: bool


class Run(NamedTuple):
    """What a run of events brought: their texts, one an event, some of them perhaps empty."""

    texts: list[str]
    visible: bool


def learn(payload: bytes, chunk: Chunk) -> Template | None:
    """The template of an event, which decodes to `chunk`; None if it brings anything but one text, or its text cannot be made out in it."""
    if chunk.usage is not None or not chunk.choices:
        return None
    choice = chunk.choices[0]
    name = _only_text(choice)
    if name is None:
        return None
    expected = decode(payload)
    assert expected.choices
    part = _part(expected.choices[0])
    said = getattr(part, name)
    if said == _PROBE:
        return None
    setattr(part, name, _PROBE)
    for encode in _ENCODERS:
        quoted = encode(said)
        at = -1
        for _ in range(_PLACES):
            at = payload.find(quoted, at + 1)
            if at < 0:
                break
            before, after = payload[:at], payload[at + len(quoted) :]
            try:
                proven = decode(before + _QUOTED + after) == expected
            except ValueError:
                proven = False
            if proven:
                return Template(BEFORE + before, after + AFTER, name in ("content", "text"))
    return None


def _part(choice: Choice) -> Choice | Delta:
    return choice if choice.delta is None else choice.delta


def _only_text(choice: Choice) -> str | None:
    """The name of the one member that makes a token event of this choice; None if there is none, or more."""
    part = _part(choice)
    if choice.finish_reason or choice.arrival_time is not None:
        return None
    names = ("text" if part is choice else "content", "reasoning_content", "reasoning")
    telling = [name for name in names if getattr(part, name)]
    return telling[0] if len(telling) == 1 else None


def run(frames: Frames, template: Template, start: int, stop: int) -> Run | None:
    """The frames from `start` to `stop` as a run; None if any of them does not fit the template."""
    middles = frames.between(template.before, template.after, start, stop)
    if middles is None:
        return None
    # Between the strings stand a comma and a tab. No JSON string holds a bare control character: so no string reaches over into the next frame, each
    # frame has at least one, and as many as frames is one each.
    joined = b",\t".join(middles)
    if not one_line(joined):
        return None
    try:
        texts = _STRINGS(b"[" + joined + b"]")
    except ValueError:
        return None
    return Run(texts, template.visible) if len(texts) == len(middles) else None
