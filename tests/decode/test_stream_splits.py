"""However a valid stream is cut into reads, the record is the same but for its stamps, and those are exactly the stamps of the reads that completed
each event (worked out here from where each event's last byte stands on the wire). The quick path says what the reference path says.
"""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.backends import get
from loadstone.decode import reading
from loadstone.decode.reply import decode
from loadstone.engine.exchange import End, Exchange
from loadstone.records import COMPLETED, FAILED

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TEXTS = st.sampled_from([" a", "塔", "🌊é", "\n\ndata: [DONE]\n\n", " ", "data: ", "\r\n", "\x00"])
SMALL = st.integers(0, 9)


def exchange(reads: list[bytes], end: End = End.COMPLETE) -> Exchange:
    """Read i is stamped 1,000,000 i."""
    return Exchange(
        index=0,
        worker=0,
        planned_ns=None,
        sent_ns=0,
        end_ns=10**9,
        end=end,
        raw=b"".join(reads),
        stamps_ns=np.arange(len(reads), dtype=np.int64) * 1_000_000,
        read_ends=np.cumsum([len(read) for read in reads]).astype(np.int64),
    )


def usage(draw: st.DrawFn) -> dict[str, Any] | None:
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    told: dict[str, Any] = {name: draw(SMALL | st.none()) for name in draw(st.sets(st.sampled_from(names)))}
    if draw(st.booleans()):
        told["prompt_tokens_details"] = draw(st.none() | st.just({"cached_tokens": 2}) | st.just({}))
        told["completion_tokens_details"] = draw(st.none() | st.just({"reasoning_tokens": 1}))
    return draw(st.none() | st.just(told))


@st.composite
def message(draw: st.DrawFn) -> dict[str, Any]:
    """An event as servers send them, common and not."""
    kind = draw(st.sampled_from(["chat"] * 6 + ["text"] * 3 + ["usage", "tool", "odd"]))
    event: dict[str, Any] = {"object": "chat.completion.chunk", "id": draw(TEXTS)}
    if draw(st.integers(0, 2)) == 0:
        event["usage"] = usage(draw)
    if kind == "usage":
        return event | {"choices": draw(st.sampled_from([[], None]))}
    part: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(["content", "content", "reasoning_content", "reasoning", "role"]), max_size=3)):
        part[name] = draw(TEXTS | st.none() | st.just(""))
    choice: dict[str, Any] = {"index": 0, "finish_reason": draw(st.sampled_from([None, None, None, None, "", "stop", "length"]))}
    if draw(st.booleans()):
        choice["arrival_time"] = draw(st.sampled_from([0.25, 1, 0, -1, 1.7e9, None]))
    if kind == "text":
        choice |= {"text": draw(TEXTS | st.just("")), "reasoning_content": draw(st.none() | TEXTS)}
    else:
        choice["delta"] = part
    if kind == "tool":
        part["tool_calls"] = draw(st.sampled_from([[], None, [{"function": {"name": "f", "arguments": None}}], [{"function": {"arguments": "{}"}}]]))
    if kind == "odd":
        part |= draw(
            st.sampled_from([{"content": [{"type": "text", "text": "x"}]}, {"refusal": "no"}, {"function_call": {"name": "f"}}, {"content": 5}])
        )
        event |= draw(st.sampled_from([{"usage": {"completion_tokens": 2.0}}, {"usage": "x"}, {"object": "ping"}, {"error": False}, {"choices": 7}]))
    return {"choices": [choice] * draw(st.sampled_from([1, 1, 1, 1, 2]))} | event


@st.composite
def stream(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """The events of a stream and its reads, head first."""
    messages = draw(st.lists(message(), max_size=7))
    messages.append({"choices": [{"delta": {"content": "."}, "finish_reason": "stop"}]})
    newline = draw(st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r"]))
    prefix = draw(st.sampled_from([b"data: ", b"data: ", b"data: ", b"data:", b": ping\n\ndata: "]))
    payloads = [json.dumps(event, ensure_ascii=draw(st.booleans())).encode() for event in messages] + [b"[DONE]"]
    events = [prefix + payload + newline * 2 for payload in payloads]
    body = b"".join(events)
    framing = draw(st.integers(1, 200))
    raw = HEAD + b"".join(b"%x\r\n%b\r\n" % (len(body[n : n + framing]), body[n : n + framing]) for n in range(0, len(body), framing)) + b"0\r\n\r\n"
    points = sorted(draw(st.sets(st.integers(1, len(raw) - 1), max_size=10)))
    return events, [raw[a:b] for a, b in zip([0, *points], [*points, len(raw)], strict=True)]


def wire_offsets(raw: bytes) -> list[int]:
    """Where each byte of the body stands in `raw`, by walking the chunks."""
    at, offsets = len(HEAD), []
    while True:
        line_end = raw.index(b"\r\n", at)
        size = int(raw[at:line_end], 16)
        if not size:
            return offsets
        offsets += range(line_end + 2, line_end + 2 + size)
        at = line_end + 2 + size + 2


@settings(max_examples=80, deadline=None)
@given(stream())
def test_any_cut_gives_the_same_record_but_for_its_stamps(drawn: tuple[list[bytes], list[bytes]]) -> None:
    events, reads = drawn
    raw, ends = b"".join(reads), np.cumsum([len(read) for read in reads])
    backend = get("openai-chat")
    cut, whole = decode(exchange(reads), backend), decode(exchange([raw]), backend)
    assert whole.status == COMPLETED or whole.reason == "json"  # choices that are no list
    blank = dict.fromkeys(("first_byte_ns", "first_token_ns", "first_output_ns", "last_token_ns", "token_ns", "merged_reads"))
    assert msgspec.to_builtins(cut) | blank == msgspec.to_builtins(whole) | blank

    # each event alone tells whether it is a token event; its time is that of the read that has the last byte of its blank line
    body = b"".join(events)
    told = reading.stream(body, backend, True)
    offsets = wire_offsets(raw)
    stamps = [int(np.searchsorted(ends, offsets[end - 1], "right")) * 1_000_000 for end in told.ends.tolist()]
    boundaries = set(np.cumsum([len(event) for event in events]).tolist())
    assert set(told.ends.tolist()) <= boundaries
    assert cut.token_ns == stamps
    if stamps:
        assert (cut.first_token_ns, cut.last_token_ns) == (stamps[0], stamps[-1])
        assert cut.merged_reads == sum(stamps.count(stamp) > 1 for stamp in set(stamps))


@settings(max_examples=250, deadline=None)
@given(st.lists(message(), max_size=8))
def test_the_quick_path_says_what_the_reference_says(messages: list[dict[str, Any]]) -> None:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in messages) + b"data: [DONE]\n\n"
    for name in ("openai", "openai-chat"):
        backend = get(name)
        quick, slow = reading.plain_stream(body, backend), reading.stream(body, backend, True)
        if quick is not None:
            assert quick.ends.tolist() == slow.ends.tolist()
            for field in ("streamed", "first_visible", "text", "reasoning", "tool_call", "token_counts", "server_ns", "malformed"):
                assert getattr(quick, field) == getattr(slow, field), field
            for field in ("begun", "done", "error", "finish_reason", "finished", "running", "usage"):
                assert getattr(quick.reply, field) == getattr(slow.reply, field), field


def test_the_quick_path_is_taken_for_what_engines_send() -> None:
    chat = {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": " a", "tool_calls": []}, "logprobs": None, "finish_reason": None}],
    }
    role = {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "", "reasoning_content": None}}],
        "usage": None,
    }
    last = {"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": None}}
    text = {"object": "text_completion", "choices": [{"index": 0, "text": " a", "logprobs": None, "finish_reason": "stop", "arrival_time": 0.5}]}
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in (role, chat, chat, text, last)) + b"data: [DONE]\n\n"
    quick = reading.plain_stream(body, get("openai"))
    assert quick is not None and quick.text == " a a a" and len(quick.ends) == 3


@settings(max_examples=120, deadline=None)
@given(stream(), st.data(), st.sampled_from([End.COMPLETE, End.CLOSED, End.RESET, End.IDLE_TIMEOUT]))
def test_a_reply_cut_short_is_no_success_unless_done_was_in_it(drawn: tuple[list[bytes], list[bytes]], data: st.DataObject, end: End) -> None:
    events, reads = drawn
    raw = b"".join(reads)
    offsets = wire_offsets(raw)
    last = -2 if events[-1].endswith(b"\r\n") else -1  # a carriage return alone ends a line too
    length = data.draw(st.integers(1, len(raw) - 1))
    record = decode(exchange([raw[:length]], end), get("openai-chat"))
    done_there = offsets[last] < length
    assert record.status == (COMPLETED if done_there else FAILED) or record.reason == "json"
    assert bool(record.error) == bool(record.reason) == (record.status != COMPLETED)


@settings(max_examples=80, deadline=None)
@given(stream(), st.data())
def test_a_body_that_only_closing_ends_needs_an_end_of_its_own(drawn: tuple[list[bytes], list[bytes]], data: st.DataObject) -> None:
    body = b"".join(drawn[0])
    part = body[: data.draw(st.integers(0, len(body)))]
    record = decode(exchange([b"HTTP/1.1 200 OK\r\n\r\n" + part]), get("openai-chat"))
    done = any(line.replace(b" ", b"") == b"data:[DONE]" for line in part.splitlines())
    assert record.status == (COMPLETED if record.finish_reason or done else FAILED) or record.reason == "json"


WORDS = st.sampled_from(
    [HEAD, b"HTTP/1.1 200 OK\r\n\r\n", b"data: ", b"\n\n", b"[DONE]", b'{"choices":[', b'{"delta":{"content":"x"}}', b"]}", b"{}", b'{"error":']
)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS | st.binary(min_size=1, max_size=30), max_size=12), st.sampled_from(list(End)), st.booleans())
def test_no_bytes_raise(reads: list[bytes], end: End, headed: bool) -> None:
    reads = [b"HTTP/1.1 200 OK\r\n\r\n", *reads] if headed else reads
    for name in ("openai", "openai-chat"):
        record = decode(exchange(reads, end), get(name), count_tokens=len)
        msgspec.json.decode(msgspec.json.encode(record))
        assert (record.status == COMPLETED) == (record.error == "") == (record.reason == "")


KEYS = st.sampled_from(
    ["choices", "delta", "message", "content", "text", "usage", "error", "finish_reason", "tool_calls", "function", "arguments", "thinking"]
) | st.text(max_size=2)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(KEYS, JSON, max_size=4), min_size=1, max_size=4), st.sampled_from([200, 400, 307]), st.booleans())
def test_no_json_raises(messages: list[Any], status: int, streamed: bool) -> None:
    parts = [json.dumps(message).encode() for message in messages]
    body = b"".join(b"data: " + part + b"\n\n" for part in parts) + b"data: [DONE]\n\n" if streamed else parts[0]
    for name in ("openai", "openai-chat"):
        record = decode(exchange([b"HTTP/1.1 %d X\r\n\r\n" % status + body]), get(name), count_tokens=len)
        msgspec.json.decode(msgspec.json.encode(record))
        assert len(record.error) < 900


def test_the_quick_path_knows_a_total_from_growth() -> None:
    """Usage on the role event and on the finish event brings no token; usage that grows between them does."""

    def told(*events: tuple[dict[str, Any], str | None, int]) -> list[reading.Reading | None]:
        body = b"".join(
            b"data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": finish}], "usage": {"completion_tokens": count}}).encode() + b"\n\n"
            for delta, finish, count in events
        )
        body += b"data: [DONE]\n\n"
        return [reading.plain_stream(body, get("openai-chat")), reading.stream(body, get("openai-chat"), True)]

    role, silent, a = {"role": "assistant", "content": ""}, {"content": ""}, {"content": "a"}
    for one in told((role, None, 1), (a, None, 1), (silent, None, 3), (silent, None, 3), (silent, "stop", 4)):
        assert one is not None and one.token_counts == [1, 2, 1] and one.first_visible == 0
    for one in told((silent, "stop", 1)):
        assert one is not None and len(one.ends) == 0 and one.reply.usage.output_tokens == 1
    for one in told((silent, None, 2), (a, "stop", 2)):
        assert one is not None and one.token_counts == [2, 0] and one.first_visible == 1
    for one in told((a, None, 2), (a, None, 1), (a, "stop", 3)):
        assert one is not None and len(one.ends) == 3 and one.token_counts == []  # a running count that fell is none


@pytest.mark.parametrize(
    ("running", "total", "counts"), [((0, 0), 3, []), ((0, 0), 0, []), ((1, 1), 2, []), ((1, 1), 1, [1, 0]), ((2, 3), 9, [2, 1])]
)
def test_a_running_usage_that_stands_still_counts_nothing(running: tuple[int, ...], total: int, counts: list[int]) -> None:
    events = [{"choices": [{"delta": {"content": "a"}}], "usage": {"completion_tokens": now}} for now in running]
    events.append({"choices": [], "usage": {"completion_tokens": total}})
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    for one in (reading.plain_stream(body, get("openai-chat")), reading.stream(body, get("openai-chat"), True)):
        assert one is not None and one.token_counts == counts


def test_the_server_s_own_times_are_all_there_or_absent() -> None:
    def told(*arrivals: float | None) -> list[int]:
        events = [{"choices": [{"delta": {"content": "a"}, "arrival_time": arrival}]} for arrival in arrivals]
        body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + b"data: [DONE]\n\n"
        return decode(exchange([b"HTTP/1.1 200 OK\r\n\r\n" + body]), get("openai-chat")).server_ns

    assert told(0.05, 0.075) == [50_000_000, 75_000_000]
    assert told(0.05, None, 0.1) == []
    assert told(1.7e9, 1.7e9) == []
