"""Success, failure and cancellation, and what is said of each."""

import json
from typing import Any

import numpy as np
import pytest

from loadstone.backends import get
from loadstone.decode.reply import decode
from loadstone.engine.exchange import End, Exchange
from loadstone.records import CANCELLED, COMPLETED, FAILED, Record

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def event(text: str | None = None, finish: str | None = None, **more: Any) -> bytes:
    message = {"choices": [{"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(message).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def decoded(*reads: bytes, end: End = End.COMPLETE, detail: str = "", sent: int | None = 0, backend: str = "openai-chat", **how: Any) -> Record:
    """Read i came at 10 + i."""
    exchange = Exchange(
        index=0,
        worker=0,
        planned_ns=None,
        sent_ns=sent,
        end_ns=99,
        end=end,
        detail=detail,
        raw=b"".join(reads),
        stamps_ns=np.arange(10, 10 + len(reads), dtype=np.int64),
        read_ends=np.cumsum([len(read) for read in reads]).astype(np.int64),
    )
    return decode(exchange, get(backend), **how)


def verdict(record: Record) -> tuple[str, str]:
    return record.status, record.reason


def refused(status: int, body: bytes, headers: bytes = b"") -> Record:
    return decoded(b"HTTP/1.1 %d Nope\r\n%bContent-Length: %d\r\n\r\n" % (status, headers, len(body)), body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error":{"message":" no such\\n model ","type":"NotFoundError","code":404}}', "HTTP 404: no such model"),
        (b'{"object":"error","message":"too long","type":"BadRequestError","code":400}', "HTTP 404: too long"),
        (b'{"detail":"Not Found"}', "HTTP 404: Not Found"),
        (b'{"detail":[{"loc":["body","messages"],"msg":"Field required","type":"missing"}]}', "HTTP 404: body.messages: Field required"),
        (b'{"error":"model is loading"}', "HTTP 404: model is loading"),
        (b"  upstream\r\n is gone \n", "HTTP 404: upstream is gone"),
        (b"", "HTTP 404 Nope"),
    ],
)
def test_a_refusal_carries_the_server_s_words(body: bytes, said: str) -> None:
    record = refused(404, body)
    assert (record.status, record.reason, record.error, record.http_status) == (FAILED, "http 404", said, 404)


def test_a_long_refusal_is_cut() -> None:
    record = refused(500, b"x" * 100_000)
    assert len(record.error) <= 520 and record.error.endswith("...")


def test_a_redirect_names_where_it_points() -> None:
    record = refused(307, b"", b"Location: http://other:1/v1\r\n")
    assert (record.reason, record.error) == ("http 307", "HTTP 307: redirected to http://other:1/v1")


@pytest.mark.parametrize(
    ("end", "reason", "word"),
    [
        (End.CLOSED, "closed", "closed"),
        (End.RESET, "reset", "reset"),
        (End.REQUEST_TIMEOUT, "request timeout", "--request-timeout"),
        (End.IDLE_TIMEOUT, "idle timeout", "idle timeout"),
        (End.BAD_HTTP, "bad http", "HTTP"),
    ],
)
def test_a_transport_that_failed_is_named_and_what_came_is_kept(end: End, reason: str, word: str) -> None:
    record = decoded(STREAM, event("a"), event("b", "stop"), end=end, detail="the system says so")
    assert verdict(record) == (FAILED, reason) and word in record.error and "(the system says so)" in record.error
    assert (record.text, record.token_ns, record.finish_reason) == ("ab", [11, 12], "stop")


@pytest.mark.parametrize("end", [End.COMPLETE, End.CLOSED, End.RESET, End.REQUEST_TIMEOUT, End.OPEN_AFTER_DONE, End.CANCELLED])
def test_what_happens_after_done_does_not_matter(end: End) -> None:
    assert decoded(STREAM, event("a") + DONE, end=end).status == COMPLETED


@pytest.mark.parametrize("tail", [b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]\r\n"])
def test_an_end_mark_without_its_blank_line_counts_at_the_proper_end_only(tail: bytes) -> None:
    assert decoded(STREAM, event("a"), tail).status == COMPLETED
    assert decoded(STREAM, event("a"), tail, end=End.OPEN_AFTER_DONE).status == COMPLETED
    assert decoded(STREAM, event("a"), tail, end=End.CLOSED).status == FAILED


def test_a_last_token_without_its_blank_line_counts_at_the_proper_end_only() -> None:
    last = event("b", "stop").rstrip()
    whole, cut = decoded(STREAM, event("a"), last), decoded(STREAM, event("a"), last, end=End.CLOSED)
    assert (whole.status, whole.text, whole.token_ns) == (COMPLETED, "ab", [11, 12])
    assert (cut.status, cut.text, cut.token_ns) == (FAILED, "a", [11])
    assert decoded(STREAM, event("a"), last, end=End.OPEN_AFTER_DONE).text == "a"


def test_no_end_of_its_own_is_incomplete() -> None:
    assert verdict(decoded(STREAM, event("a"))) == (FAILED, "incomplete")
    assert verdict(decoded(STREAM)) == (FAILED, "incomplete")


def test_an_end_mark_that_nothing_explains() -> None:
    """llama-cpp-python says [DONE] and no more when another request comes: before the first token that is no reply, after it a reply with a mark."""
    role = b'data: {"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}\n\n'
    assert verdict(decoded(STREAM, DONE)) == verdict(decoded(STREAM, role, DONE)) == (FAILED, "incomplete")
    assert "without a token and without a finish_reason" in decoded(STREAM, role, DONE).error
    assert verdict(decoded(STREAM, role, event("a"), DONE)) == (COMPLETED, "no finish_reason")
    assert verdict(decoded(STREAM, role, event("a", "stop"), DONE)) == verdict(decoded(STREAM, event(finish="stop"), DONE)) == (COMPLETED, "")


@pytest.mark.parametrize("finish", ["error", "abort", "ABORT", "recover_stop"])
def test_a_finish_that_is_an_error(finish: str) -> None:
    assert verdict(decoded(STREAM, event("a", finish), DONE)) == (FAILED, f"finish {finish.lower()}")


@pytest.mark.parametrize(
    "bad",
    [
        b'data: {"error":{"message":"out of memory"}}\n\n',
        b'event: error\ndata: {"message":"out of memory"}\n\n',
        b"event: error\ndata: out of memory\n\n",
        b'data: {"object":"error","message":"out of memory","code":500}\n\n',
        b'data: {"error":"out of memory","choices":[]}\n\n',
    ],
)
def test_an_error_anywhere_in_the_stream_fails_it(bad: bytes) -> None:
    for reads in ((bad, DONE), (event("a"), bad, event("b", "stop"), DONE)):
        record = decoded(STREAM, *reads)
        assert (record.status, record.reason, record.error) == (FAILED, "server error", "out of memory")


def test_null_and_empty_errors_are_none() -> None:
    assert decoded(STREAM, event("a", "stop", error=None), DONE).status == COMPLETED
    assert decoded(STREAM, event("a", "stop", error=""), DONE).status == COMPLETED


def test_a_malformed_event_fails_with_its_payload() -> None:
    record = decoded(STREAM, event("a"), b'data: {"choices": [oops\n\n', event("b", "stop"), DONE)
    assert verdict(record) == (FAILED, "json") and '{"choices": [oops' in record.error and record.text == "a"


def test_pings_are_nothing() -> None:
    record = decoded(STREAM, b": ping\n\n", b"event: ping\ndata: alive\n\n", b"data:\n\n", b'data: {"type":"ping"}\n\n', event("a", "stop"), DONE)
    assert (record.status, record.token_ns) == (COMPLETED, [15])


def test_a_document_cut_short_is_a_broken_transfer_not_bad_json() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n"
    assert verdict(decoded(head, b'{"choices":[{"mess', end=End.CLOSED)) == (FAILED, "closed")
    assert verdict(decoded(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", b'{"a":')) == (FAILED, "json")


def test_a_document_that_is_no_completion() -> None:
    assert verdict(decoded(STREAM, b'{"error":{"message":"no"}}')) == (FAILED, "server error")
    assert verdict(decoded(STREAM, b'{"status":"ok"}')) == (FAILED, "server error")


def test_a_document_has_reasoning_text_and_tool_calls() -> None:
    message = {"content": "yes", "reasoning": "so", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    record = decoded(STREAM, json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode(), count_tokens=len)
    assert (record.text, record.reasoning, record.output_tokens, record.token_source) == ("yes", "so", 8, "tokenizer")
    assert (record.reasoning_tokens, record.streamed) == (2, False)


def test_not_sent_and_cancelled_are_no_failures() -> None:
    dropped = decoded(end=End.NOT_SENT, sent=None)
    assert (verdict(dropped), dropped.end_ns, dropped.sent_ns) == ((CANCELLED, "not sent"), None, None)
    stopped = decoded(STREAM, event("a"), end=End.CANCELLED)
    assert (verdict(stopped), stopped.text, stopped.token_ns) == ((CANCELLED, "cancelled"), "a", [11])


def test_a_connection_that_was_never_made() -> None:
    assert verdict(decoded(end=End.NOT_CONNECTED, detail="Connection refused")) == (FAILED, "not connected")
    assert verdict(decoded(end=End.NOT_CONNECTED, detail="TLS: certificate has expired")) == (FAILED, "tls")
    assert verdict(decoded(end=End.CONNECT_TIMEOUT)) == (FAILED, "connect timeout")


def test_text_can_be_left_out_and_is_counted_all_the_same() -> None:
    record = decoded(STREAM, event("three", "stop"), DONE, keep_text=False, count_tokens=len)
    assert (record.text, record.reasoning, record.output_tokens) == (None, None, 5)


def test_an_emoji_cut_over_two_events_is_made_whole() -> None:
    halves = [b'data: {"choices":[{"delta":{"content":"\\ud83c"}}]}\n\n', b'data: {"choices":[{"delta":{"content":"\\udf0a"}}]}\n\n']
    assert decoded(STREAM, *halves, DONE).text == "🌊"
    assert decoded(STREAM, halves[0], DONE).text == "\ufffd"


def test_prompt_tokens_from_a_total() -> None:
    assert decoded(STREAM, event("a", "stop", usage={"completion_tokens": 2, "total_tokens": 9}), DONE).prompt_tokens == 7
    assert decoded(STREAM, event("a", "stop", usage={"total_tokens": 9}), DONE).prompt_tokens is None  # it may hold the output too
    rerank = decoded(STREAM, b'{"choices":[],"usage":{"total_tokens":33}}')
    assert (rerank.prompt_tokens, rerank.prompt_token_source) == (33, "usage")


def test_bytes_after_done_say_nothing() -> None:
    assert decoded(STREAM, event("a", "stop"), DONE, event("b", "abort")).text == "a"
