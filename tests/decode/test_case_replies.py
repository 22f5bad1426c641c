"""Replies that real servers send, as data in tests/cases: each is made into an exchange as the engine would capture it, without sockets, and the
record must say what the case says is right.
"""

import base64
import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.backends import get
from loadstone.decode.reply import decode
from loadstone.engine.exchange import End, Exchange
from loadstone.records import COMPLETED, FAILED, Record

ALL = [json.loads(path.read_text()) for path in sorted((Path(__file__).parent.parent / "cases").glob("[ABC]*.json"))]
CASES = [case for case in ALL if case.get("wire", True)]  # whose right values are in the bytes of one reply
SENT_NS = 5_000_000_000
MS = 1_000_000


def payload(write: dict[str, Any]) -> bytes:
    data = base64.b64decode(write["b64"]) if "b64" in write else write["text"].encode()
    return data * write.get("repeat", 1)


def exchange(case: dict[str, Any]) -> Exchange:
    """Status line and headers come in a read of their own, 1 us after the request; each write is a read. Without a status, the writes hold all."""
    headers, framing = dict(case["headers"]), case["framing"]
    writes = [payload(write) for write in case["writes"]]
    if framing == "chunked":
        headers["Transfer-Encoding"] = "chunked"
        writes = [b"%x\r\n%b\r\n" % (len(data), data) for data in writes]
        if case["close"] == "normal":
            writes[-1] += b"0\r\n\r\n"
    elif framing == "length":
        headers["Content-Length"] = str(sum(map(len, writes)))
    head = f"HTTP/1.1 {case['http_status']} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    reads = [head.encode(), *writes]
    stamps = [SENT_NS + 1000, *(SENT_NS + ms * MS for ms in accumulate(write["after_ms"] for write in case["writes"]))]
    if not case["http_status"]:
        reads, stamps = reads[1:], stamps[1:]
    ends = {"reset": End.RESET, "hang": End.REQUEST_TIMEOUT if "timeout_s" in case["request"] else End.OPEN_AFTER_DONE}
    framed = {"content-length", "transfer-encoding"} & {name.lower() for name in headers}
    cut = framing == "raw" and framed and not reads[-1].endswith(b"\r\n\r\n")
    end = ends.get(case["close"], End.CLOSED if cut else End.COMPLETE)
    return Exchange(
        index=3,
        worker=1,
        planned_ns=SENT_NS - 7,
        sent_ns=SENT_NS,
        end_ns=stamps[-1] if stamps else SENT_NS,
        end=end,
        raw=b"".join(reads),
        stamps_ns=np.array(stamps, np.int64),
        read_ends=np.cumsum([len(read) for read in reads]).astype(np.int64),
        connect_ns=11,
        tls_ns=12,
    )


def record_of(case: dict[str, Any]) -> Record:
    return decode(exchange(case), get(case["backend"]), count_tokens=lambda text: len(text.split()))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    record, expect = record_of(case), case["expect"]
    assert record.index == 3 and record.worker == 1 and record.planned_ns == SENT_NS - 7 and (record.connect_ns, record.tls_ns) == (11, 12)
    if case["http_status"]:
        assert record.first_byte_ns == SENT_NS + 1000 and record.http_status == case["http_status"]
    elif "first_byte_ms" in expect:
        assert record.first_byte_ns == SENT_NS + expect["first_byte_ms"] * MS and record.http_status == expect["http_status"]
    if not expect["success"]:
        assert record.status == FAILED and record.reason
        error = record.error.lower()
        assert expect.get("error_contains", "").lower() in error
        assert any(word in error for word in expect.get("error_contains_any", [""]))
        assert "partial_text" not in expect or record.text == expect["partial_text"]
        return
    assert (record.status, record.error, record.reason) == (COMPLETED, "", "")
    if expect["output_tokens"] is not None:
        assert record.output_tokens == expect["output_tokens"]
    assert record.token_source == expect.get("output_tokens_source", "usage")
    assert record.prompt_tokens == expect["prompt_tokens"]
    assert len(record.token_ns) == expect["n_token_events"]
    first = None if record.first_token_ns is None else (record.first_token_ns - SENT_NS) / MS
    assert first == expect["ttft_ms"]
    assert [gap / MS for gap in np.diff(record.token_ns)] == expect["itl_ms"]
    if expect["n_token_events"]:
        assert record.last_token_ns is not None and (record.last_token_ns - SENT_NS) / MS == expect["e2el_ms"]
        assert record.token_ns[-1] == record.last_token_ns - SENT_NS
    text = record.text or ""
    if expect["generated_text"] is not None:
        assert text == expect["generated_text"]
    assert len(text) == expect.get("generated_text_len", len(text))
    assert text.startswith(expect.get("generated_text_head", "")) and text.endswith(expect.get("generated_text_tail", ""))
    assert record.reasoning == expect.get("reasoning_text", "")


def named(name: str) -> dict[str, Any]:
    return next(case for case in ALL if case["id"].startswith(name))


def test_running_usage_gives_the_tokens_of_each_event() -> None:
    assert record_of(named("B06")).token_counts == [1, 2, 3, 1]


def test_first_output_is_the_first_visible_answer() -> None:
    record = record_of(named("B09"))
    assert record.first_output_ns == SENT_NS + 250 * MS
    assert record.reasoning_tokens == 3


def test_a_tool_call_is_visible() -> None:
    record = record_of(named("B11"))
    assert record.first_output_ns == record.first_token_ns == SENT_NS + 140 * MS


def test_no_usage_and_no_tokenizer_counts_events() -> None:
    record = decode(exchange(named("B20")), get("openai-chat"))
    assert (record.output_tokens, record.token_source, record.prompt_tokens) == (4, "events", None)


def test_reads_that_completed_several_token_events_are_counted() -> None:
    assert record_of(named("A02")).merged_reads == 1  # three of four events came in one read
    assert record_of(named("B06")).merged_reads == 0


def test_json_instead_of_a_stream_has_an_end_and_no_token_times() -> None:
    record = record_of(named("C11"))
    assert not record.streamed and record.token_ns == [] and record.first_token_ns is None and record.first_output_ns is None
    assert record.end_ns == SENT_NS + 400 * MS
