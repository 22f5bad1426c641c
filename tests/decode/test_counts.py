"""Counts that a server states and that are none: not believed, on the quick path, the slow one and in a document; what is summed is exact."""

import json
from typing import Any

import numpy as np
import pytest

from loadstone.backends import get
from loadstone.backends.wire import MOST_TOKENS
from loadstone.decode.reply import decode
from loadstone.engine.exchange import End, Exchange
from loadstone.metrics.throughput import total_tokens
from loadstone.records import COMPLETED, Record, Records

ABSURD = [1e30, 1e10, -5, -1e30, 2**70, 2**63 - 1, MOST_TOKENS + 1, 1.5, True, False, "7", [7], {}, None, float("nan"), float("inf")]


def record_of(value: Any, how: str) -> Record:
    """A reply of two token events whose usage states `value` everywhere."""
    usage = {
        "prompt_tokens": value,
        "completion_tokens": value,
        "total_tokens": value,
        "prompt_tokens_details": {"cached_tokens": value},
        "completion_tokens_details": {"reasoning_tokens": value},
    }
    if how == "document":
        body = json.dumps({"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}], "usage": usage}).encode()
    else:
        events = [{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": end}]} for text, end in (("a", None), ("b", "stop"))]
        if how == "running":
            events = [{**event, "usage": usage} for event in events]
        pings = b": this way round\n\n" if how == "slow" else b""
        body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in [*events, {"choices": [], "usage": usage}])
        body = pings + body + b"data: [DONE]\n\n"
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    exchange = Exchange(
        index=0, worker=0, planned_ns=None, sent_ns=0, end_ns=9, end=End.COMPLETE, raw=raw, stamps_ns=np.array([1]), read_ends=np.array([len(raw)])
    )  # fmt: skip
    return decode(exchange, get("openai-chat"))


@pytest.mark.parametrize("how", ["quick", "slow", "running", "document"])
@pytest.mark.parametrize("value", ABSURD, ids=repr)
def test_what_is_no_count_is_not_believed(value: Any, how: str) -> None:
    record = record_of(value, how)
    assert record.status == COMPLETED
    assert (record.prompt_tokens, record.cached_tokens, record.reasoning_tokens) == (None, None, None)
    if how == "document":
        assert (record.output_tokens, record.token_source) == (None, None)
    else:
        assert (record.output_tokens, record.token_source) == (2, "events") and record.token_counts == []


@pytest.mark.parametrize("how", ["quick", "slow", "running", "document"])
@pytest.mark.parametrize(("value", "count"), [(0, 0), (7, 7), (7.0, 7), (MOST_TOKENS, MOST_TOKENS), (1e3, 1000)])
def test_a_whole_number_is_one_however_it_is_written(value: Any, count: int, how: str) -> None:
    record = record_of(value, how)
    assert (record.prompt_tokens, record.output_tokens, record.cached_tokens, record.token_source) == (count, count, count, "usage")


def test_the_largest_counts_are_summed_exactly() -> None:
    """3,001 of them are an odd number above 2**41; at 64 bits of float it would take nine million to lose one."""
    counts = [MOST_TOKENS - 1] * 3000 + [1]
    records = Records([Record(index=index, output_tokens=count, prompt_tokens=count) for index, count in enumerate(counts)])
    assert total_tokens(records, records.output_tokens) == (MOST_TOKENS - 1) * 3000 + 1
