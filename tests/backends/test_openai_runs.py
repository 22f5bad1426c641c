"""Templates are learned from where the text really stands, and a run is taken only if each of its events has exactly one string there."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.backends.frames import Frames
from loadstone.backends.openai_chunks import decode
from loadstone.backends.openai_runs import Template, learn, run


def frames(payloads: list[bytes]) -> Frames:
    pieces = [b"data: " + payload + b"\n\n" for payload in payloads]
    return Frames(pieces, np.cumsum([len(piece) for piece in pieces]).astype(np.int64), b"".join(pieces) + b"data: [DONE]\n\n")


def learned(payload: bytes) -> Template | None:
    return learn(payload, decode(payload))


@pytest.mark.parametrize(
    ("before", "string", "after", "visible"),
    [
        (b'{"choices":[{"delta":{"content":', b'" a"', b"}}]}", True),
        (b'{"choices":[{"text":', b'" a"', b"}]}", True),
        (b'{"choices":[{"delta":{"reasoning_content":', b'"r"', b"}}]}", False),
        (b'{"choices":[{"delta":{"reasoning_content":"","reasoning":', b'"r"', b',"content":null}}]}', False),
        (b'{"choices":[{"reasoning":', b'"r"', b',"text":""}]}', False),
        (b'{ "choices" : [ { "delta" : { "content" :\t', b'" a"', b" } } ] }", True),  # odd spacing
        (b'{"model":"m","choices":[{"delta":{"content":', b'"m"', b"}}]}", True),  # said elsewhere too
        (b'{"choices":[{"delta":{"content":', b'"content"', b"}}]}", True),  # a key of the same name
        (b'{"choices":[{"delta":{"text":null,"content":', b'"delta"', b"}}]}", True),
        (b'{"id":"\\"x","choices":[{"delta":{"content":', b'"x"', b"}}]}", True),  # within another string
        (b'{"id":"x\\\\","choices":[{"delta":{"content":', b'","', b'},"logprobs":{"content":[{"token":"a"}]}}]}', True),
        (b'{"choices":[{"delta":{"content":"first","content":', b'"last"', b"}}]}", True),  # of a key given twice the last one stands
        (b'{"choices":[{"delta":{"content":"same","content":', b'"same"', b"}}]}", True),
        (b'{"choices":[{"delta":{"content":', b'"\xe5\xa1\x94"', b"}}]}", True),
        (b'{"choices":[{"delta":{"content":', b'"\\u5854"', b"}}]}", True),
        (b'{"choices":[{"delta":{"content":', b'"\\n\\ndata: "', b"}}]}", True),
    ],
)
def test_what_is_learned(before: bytes, string: bytes, after: bytes, visible: bool) -> None:
    assert learned(before + string + after) == Template(b"data: " + before, after + b"\n\n", visible)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"choices":[{"delta":{"content":""}}]}',
        b'{"choices":[{"delta":{"role":"assistant"}}]}',
        b'{"choices":[{"delta":{"content":"a","reasoning":"r"}}]}',
        b'{"choices":[{"delta":{"reasoning_content":"r","reasoning":"r"}}]}',
        b'{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}',
        b'{"choices":[{"delta":{"content":"a"},"arrival_time":0.5}]}',
        b'{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}',
        b'{"choices":[{"delta":{"content":"a loadstone"}}]}',
        b'{"choices":[{"delta":{"content":"\\u0061"}}]}',  # written in no common way
        b'{"choices":[]}',
        b'{"choices":[{}]}',
    ],
)
def test_what_nothing_is_learned_from(payload: bytes) -> None:
    assert learned(payload) is None


BEFORE, AFTER = b'{"choices":[{"delta":{"content":', b'},"finish_reason":null}]}'
TEMPLATE = Template(b"data: " + BEFORE, AFTER + b"\n\n", True)


def texts(*middles: bytes) -> list[str] | None:
    alike = run(frames([BEFORE + middle + AFTER for middle in middles]), TEMPLATE, 0, len(middles))
    return None if alike is None else alike.texts


def test_middles_that_make_up_for_each_other_are_no_strings() -> None:
    assert texts(b'"a"', b'""', b'"\\""', b' "b"\t', b'","') == ["a", "", '"', "b", ","]
    # joined by a mere comma the first two would be the two strings `c",` and `x`
    assert texts(b'"c\\"', b'","x"') is None
    assert texts(b'"a","b"', b'"c\\"', b'"d"') is None  # two strings in one, none in another
    assert texts(b'"a","content":"b"') is None
    assert texts(b'"a","b"', b"") is None
    assert texts(b'"a"\n') is None  # JSON, but two lines of an event stream
    assert texts(b'"a"\r') is None
    assert texts(b'"a\tb"') is None
    assert texts(b"null") is None
    assert texts(b'"a"', b"5") is None
    assert texts(b'"a"]', b'["b"') is None
    assert texts(b'"\\ud83d"') is None  # half a character: for the reference to make of it what it can
    assert texts(b'"\xff"') is None


@pytest.mark.parametrize("control", [bytes([code]) for code in range(32)])
def test_no_string_may_hold_a_bare_control_character(control: bytes) -> None:
    """The proof of a run rests on it."""
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(b'["a' + control + b'b"]', type=list[str])


MIDDLES = st.lists(st.sampled_from(['"', "\\", ",", "a", " ", ":", "\\u0061", "塔", "\\n", "[", "]", "\t", '""', '","']), max_size=6).map("".join)


@settings(max_examples=700, deadline=None)
@given(st.lists(MIDDLES.map(str.encode) | MIDDLES.map(lambda text: f'"{text}"'.encode()), min_size=1, max_size=4))
def test_a_run_is_what_its_events_are_one_by_one(middles: list[bytes]) -> None:
    """If it is taken at all; and it is taken if each middle is a string."""

    def string(middle: bytes) -> str | None:
        try:
            value: Any = json.loads(middle)
        except ValueError:
            return None
        return value if isinstance(value, str) else None

    strings = [string(middle) for middle in middles]
    taken = texts(*middles)
    assert taken == (None if None in strings else strings)
    if taken is not None:
        assert taken == [decode(BEFORE + middle + AFTER).choices[0].delta.content for middle in middles]  # type: ignore[index, union-attr]
