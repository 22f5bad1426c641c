"""Replies as engines write them, byte by byte, and as nobody should: the quick ways make of them the very record that the slow ones make.

The streams are built from templates, so that runs begin, break off and end in all places; the strings in them are written in all ways, some of them
wrong; and the body is cut into chunks between events or anywhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.backends import get, openai, openai_batch
from loadstone.decode import http, reading
from loadstone.decode.reply import decode
from loadstone.engine.exchange import End, Exchange
from loadstone.records import Record

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"

# what stands around the text of an event; % is the text
CHAT = b'{"id":"c-1","model":"m","choices":[{"index":0,"delta":{"content":%b},"logprobs":null,"finish_reason":null}]}'
SHAPES = [
    CHAT,
    CHAT,
    b'{"id":"c-1","model":"m","choices":[{"index":0,"delta":{"reasoning_content":%b},"logprobs":null,"finish_reason":null}]}',
    b'{"choices":[{"delta":{"content":null,"reasoning":%b,"reasoning_content":""}}]}',
    b'{"choices":[{"delta":{"role":"assistant","content":%b}}],"usage":null}',
    b'{"id":"m-1","choices":[{"index":0,"text":%b,"logprobs":null,"finish_reason":null}]}',
    b'{ "choices" : [ { "text" :\t%b ,\n"index" : 0 } ] }',  # two lines of the event stream
    b'{ "choices" : [ { "text" :\t%b , "index" : 0 } ] }',
    b'{"choices":[{"delta":{"content":"first","content":%b}}]}',  # the last of a key stands
    b'{"choices":[{"delta":{"content":%b,"content":"last"}}]}',
    b'{"choices":[{"delta":{"content":%b,"content":null}}]}',
    b'{"content":" a","choices":[{"logprobs":{"content":[{"token":" a"}]},"delta":{"content":%b}}]}',
    b'{"id":%b,"choices":[{"delta":{"content":" a"}}]}',  # the same text, another id
    b'{"choices":[{"delta":{"content":" a"},"finish_reason":%b}]}',
    b'{"choices":[{"delta":{"content":"a","reasoning":%b}}]}',
    b'{"choices":[{"delta":{"reasoning_content":%b,"reasoning":"r"}}]}',
    b'{"choices":[{"delta":{"content":%b},"arrival_time":0.5}]}',
    b'{"choices":[{"delta":{"content":%b}}],"usage":{"completion_tokens":3}}',
    b'{"choices":[{"delta":{"content":%b}},{"delta":{"content":"b"}}]}',
]
STRINGS = st.sampled_from(
    [b'" a"'] * 4
    + [b'""', b'" "', b'"\\n"', '"塔"'.encode(), b'"\\u5854"', b'"\\ud83c\\udf0a"', b'"\\\\"', b'"\\""', b'"data: "', b'"[DONE]"', b'"\\n\\ndata: "']
    + [b'"},\\"logprobs\\":null,\\"finish_reason\\":null}]}"', b'"content"', b'"m"', b'"c-1"', b'"a loadstone"', b'","', b' "a"', b'"stop"']
)
WRONG = st.sampled_from(
    [b"null", b"5", b"", b'"', b'"c\\"', b'","x"', b'"a","b"', b'"\\ud83d"', b'"\xff"', b'"a\tb"', b'"a"\n', b'"a"\r', b'"\\x"', b'""""']
)
LONE = st.sampled_from(
    [
        b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}',
        b'{"choices":[{"index":0,"delta":{"role":"assistant"}}],"usage":{"completion_tokens":1}}',
        b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        b'{"choices":[{"index":0,"delta":{"content":""}}],"usage":{"completion_tokens":9}}',
        b'{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}',
        b'{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f"}}]}}]}',
        b'{"error":{"message":"no"}}',
        b'{"choices":[{"error":{"code":502,"message":"no"}}]}',
        b'{"code":500,"message":"no"}',
        b'{"code":200}',
        b'{"error_msg":"no"}',
        b'{"detail":"no"}',
        b'{"choices":[],"object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}',
        b'{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}',
        b'{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"error"}]}',
        b'{"choices":[{"index":0,"delta":{"content":" x"},"logprobs":{"content":[{"token":" x","logprob":-0.1,"top_logprobs":[]}]}}]}',
        b'{"choices":[{"index":0,"delta":{"content":" x"},"logprobs":{"content":[{"token":" x","logprob":-Infinity}]}}]}',
        b'{"choices":[{"index":0,"delta":{"function_call":{"name":"f"}}}]}',
        b'{"choices":[{"index":0,"delta":{"refusal":"no"}}]}',
        b'{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"x"}]}}]}',
        b'{"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}',
        b"{}",
        b"",
        b"[DONE]",
    ]
)


@st.composite
def events(draw: st.DrawFn) -> list[bytes]:
    payloads: list[bytes] = []
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2))
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["run", "run", "run", "alone", "wrong"]))
        if kind == "alone":
            payloads.append(draw(LONE))
            continue
        shape = draw(st.sampled_from(shapes))
        payloads += [shape % string for string in draw(st.lists(STRINGS if kind == "run" else STRINGS | WRONG, max_size=6))]
    if draw(st.booleans()):
        payloads = [draw(LONE.filter(len)), *payloads, b'{"choices":[{"delta":{},"finish_reason":"stop"}]}']
    frame = draw(st.sampled_from([b"data: %b\n\n"] * 8 + [b"data:%b\n\n", b"data: %b\r\n\r\n", b": ping\n\ndata: %b\n\n", b"data: %b\n\n\n"]))
    return [frame % payload for payload in payloads] + draw(
        st.sampled_from([[DONE]] * 6 + [[DONE, DONE], [], [b"data: [DONE]"], [b"data: {}" + DONE]])
    )


@st.composite
def replies(draw: st.DrawFn) -> Exchange:
    pieces = draw(events())
    cut = draw(st.sampled_from(["events", "events", "some", "anywhere"]))
    if cut == "some":  # several events in a chunk
        joined: list[bytes] = []
        for piece in pieces:
            if joined and draw(st.integers(0, 3)) == 0:
                joined[-1] += piece
            else:
                joined.append(piece)
        pieces = joined
    elif cut == "anywhere" and pieces:
        body = b"".join(pieces)
        points = sorted(draw(st.sets(st.integers(1, max(len(body) - 1, 1)), max_size=6)))
        pieces = [body[a:b] for a, b in zip([0, *points], [*points, len(body)], strict=True)]
    raw = HEAD + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"
    if draw(st.integers(0, 9)) == 0:
        raw = raw[: draw(st.integers(len(HEAD), len(raw)))]
    return exchange(raw, sorted(draw(st.sets(st.integers(1, len(raw)), max_size=12)) | {len(raw)}), draw(st.sampled_from([End.COMPLETE, End.CLOSED])))


def exchange(raw: bytes, read_ends: list[int], end: End = End.COMPLETE) -> Exchange:
    return Exchange(
        index=0,
        worker=0,
        planned_ns=None,
        sent_ns=5,
        end_ns=10**9,
        end=end,
        raw=raw,
        stamps_ns=np.arange(len(read_ends), dtype=np.int64) * 1_000_000 + 10,
        read_ends=np.array(read_ends, np.int64),
    )


def in_chunks(*pieces: bytes) -> Exchange:
    """Each piece a chunk, and each chunk a read."""
    reads = [HEAD, *(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]
    return exchange(b"".join(reads), np.cumsum([len(read) for read in reads]).tolist())


@contextmanager
def slowly() -> Iterator[None]:
    with mock.patch.object(http, "_plain_chunked", return_value=None), mock.patch.object(reading, "plain_stream", return_value=None):
        yield


def both(given_exchange: Exchange, name: str, **options: bool) -> Record:
    """The record, made in three ways: as it is, with runs looked for however short the reply, and slowly."""
    quick = decode(given_exchange, get(name), **options)
    with mock.patch.object(openai_batch, "_SHORT", 0):
        in_runs = decode(given_exchange, get(name), **options)
    with slowly():
        slow = decode(given_exchange, get(name), **options)
    assert quick == slow
    assert in_runs == slow
    return quick


@settings(max_examples=600, deadline=None)
@given(replies(), st.sampled_from(["openai", "openai-chat"]), st.booleans())
def test_the_quick_ways_make_the_same_record(reply: Exchange, name: str, keep_text: bool) -> None:
    both(reply, name, keep_text=keep_text)


def frames(*payloads: bytes) -> list[bytes]:
    return [b"data: " + payload + b"\n\n" for payload in payloads] + [DONE]


def words(count: int, shape: bytes = CHAT) -> list[bytes]:
    return [shape % b'" w%d"' % number for number in range(count)]


ROLE = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'
STOP = b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
USAGE = b'{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":50}}'
THOUGHT = SHAPES[2]


@pytest.mark.parametrize("cut", ["events", "usage with the end", "one chunk"])
@pytest.mark.parametrize(
    ("payloads", "alone"),
    [
        ([*words(50), STOP, USAGE], 3),  # the first of a run tells its shape
        ([ROLE, *words(50), STOP, USAGE], 4),
        ([ROLE, *words(25, THOUGHT), *words(25), STOP, USAGE], 5),
        ([*words(20), *words(5, THOUGHT), *words(25), USAGE], 3),
        ([ROLE, *words(20), STOP, *words(30), USAGE], 4),
        ([*words(20), words(1)[0].replace(b"null}]", b'""}]'), *words(29), USAGE], 3),  # begins like its neighbours and ends otherwise
    ],
)
def test_runs_are_taken_as_runs(payloads: list[bytes], alone: int, cut: str) -> None:
    """However the server chunks them: only so many events are decoded by themselves."""
    pieces = frames(*payloads)
    if cut != "events":
        pieces = [*pieces[:-2], pieces[-2] + pieces[-1]] if cut == "usage with the end" else [b"".join(pieces)]
    reply, decoded = in_chunks(*pieces), []
    with (
        mock.patch.object(openai_batch, "decode", lambda payload: decoded.append(payload) or openai_batch_decode(payload)),
        mock.patch.object(openai.OpenAI, "read", side_effect=AssertionError),
    ):
        record = decode(reply, get("openai-chat"))
    assert len(record.token_ns) == 50 and record.output_tokens == 50
    assert len(decoded) - decoded.count(USAGE) // 2 <= 2 * alone  # in one chunk or with the end, the second cut is the right one
    if cut == "events":
        assert len(decoded) == alone
    both(reply, "openai-chat")


openai_batch_decode = openai_batch.decode


def test_events_that_all_differ_are_read_one_by_one_and_rightly() -> None:
    payloads = [b'{"id":"c-%d","choices":[{"delta":{"content":" w"}}]}' % number for number in range(60)]
    record = both(in_chunks(*frames(*payloads, STOP)), "openai-chat")
    assert record.output_tokens == 60 and record.text == " w" * 60


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (b'data: {"choices":[],\n"x":1}\n\n', "json"),
        (b'data:  {"choices":[]}\n\n', ""),
        (b"data: {}\r\r{}\n\n", ""),
        (b"date: {}{}\n\n", ""),
    ],
)
def test_an_odd_event_among_many_that_all_differ(odd: bytes, reason: str) -> None:
    pieces = [b'data: {"id":"c-%d","choices":[{"delta":{"content":" w"}}]}\n\n' % number for number in range(60)]
    record = both(in_chunks(*pieces[:50], odd, *pieces[50:], DONE), "openai-chat")
    assert record.reason == (reason or "no finish_reason") and record.text == " w" * (50 if reason else 60)


def test_shapes_that_take_turns() -> None:
    payloads = [shape % b'"x"' for _ in range(40) for shape in (CHAT, THOUGHT)]
    record = both(in_chunks(*frames(*payloads, STOP)), "openai-chat")
    assert record.text == record.reasoning == "x" * 40 and len(record.token_ns) == 80


def test_the_first_visible_event_may_be_within_a_run() -> None:
    payloads = [*words(3, THOUGHT), CHAT % b'"a"', CHAT % b'""', CHAT % b'"b"', THOUGHT % b'""', STOP]
    record = both(in_chunks(*frames(*payloads)), "openai-chat")
    # reads: the head, then one an event
    assert [ns + 5 - 10 for ns in record.token_ns] == [1_000_000, 2_000_000, 3_000_000, 4_000_000, 6_000_000]
    assert record.first_output_ns == 4_000_010
    payloads = [CHAT % b'"a"', CHAT % b'""', CHAT % b'""', THOUGHT % b'"r"', THOUGHT % b'"r"', CHAT % b'"b"']
    record = both(in_chunks(*frames(*payloads)), "openai-chat")
    assert record.first_output_ns == record.first_token_ns == 1_000_010 and len(record.token_ns) == 4
    payloads = [THOUGHT % b'"r"', THOUGHT % b'""', THOUGHT % b'"r"', CHAT % b'"a"']
    record = both(in_chunks(*frames(*payloads)), "openai-chat")
    assert record.first_output_ns == 4_000_010 and len(record.token_ns) == 3


def test_usage_after_a_run_is_growth_only_where_the_reference_says_so() -> None:
    silent = b'{"choices":[{"delta":{"content":""}}],"usage":{"completion_tokens":%d}}'
    for payloads, tokens in (
        ([CHAT % b'"a"', CHAT % b'"a"', silent % 5, silent % 6], 3),
        ([CHAT % b'"a"', silent % 5, CHAT % b'"a"', CHAT % b'"a"', silent % 7], 3),
    ):
        assert len(both(in_chunks(*frames(*payloads)), "openai-chat").token_ns) == tokens


def test_a_body_that_ends_in_no_end_mark_but_looks_so() -> None:
    for last in (b"data: {}data: [DONE]\n\n", b'data: {"a":"data: [DONE]\n\n', b"xdata: [DONE]\n\n"):
        both(in_chunks(*frames(*words(5))[:-1], last), "openai-chat")
        both(in_chunks(b"".join(frames(*words(5))[:-1]) + last), "openai-chat")


def test_log_probabilities_and_azure_s_first_event_do_not_slow_a_reply_down() -> None:
    shape = (
        b'{"choices":[{"index":0,"delta":{"content":" w%d"},"logprobs":{"content":[{"token":" w%d","logprob":-0.%d,"bytes":[32],"top_logprobs":'
        b'[{"token":" w","logprob":-0.1},{"token":" v","logprob":-9999.0}]}]},"finish_reason":null}]}'
    )
    azure = b'{"id":"","object":"","model":"","choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}'
    reply = in_chunks(*frames(azure, ROLE, *(shape % (number, number, number) for number in range(40)), STOP, USAGE))
    with mock.patch.object(openai.OpenAI, "read", side_effect=AssertionError):
        record = decode(reply, get("openai-chat"))
    assert (len(record.token_ns), record.output_tokens) == (40, 50)  # tokens by usage, not by the log-probabilities
    both(reply, "openai-chat")
