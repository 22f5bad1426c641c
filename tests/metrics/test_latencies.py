"""TTFT, TTFOT, E2EL, TPOT, queue delay and the figures from planned: one value a request, by hand."""

import math
from typing import Any

import numpy as np
import pytest

from loadstone.metrics.e2el import e2el_ns, response_e2el_ns
from loadstone.metrics.queue_delay import queue_delay_ns
from loadstone.metrics.tpot import tpot_ns
from loadstone.metrics.ttfot import ttfot_ns
from loadstone.metrics.ttft import response_ttft_ns, ttft_ns
from loadstone.records import Records

MS = 1_000_000
ALL = (ttft_ns, ttfot_ns, e2el_ns, tpot_ns, queue_delay_ns, response_ttft_ns, response_e2el_ns)


def values(metric: Any, *records: Any) -> list[float]:
    return [float(value) / 1e6 for value in metric(Records(records))]


def test_a_stream_by_hand(reply: Any) -> None:
    record = reply(sent=1000, tokens=[300, 350, 400], planned_ns=990 * MS)
    assert values(ttft_ns, record) == [300]
    assert values(e2el_ns, record) == [400]
    assert values(tpot_ns, record) == [50]
    assert values(queue_delay_ns, record) == [10]
    assert values(response_ttft_ns, record) == [310]
    assert values(response_e2el_ns, record) == [410]


def test_reasoning_before_the_answer(reply: Any) -> None:
    record = reply(tokens=[100, 150, 200, 250, 300], first_output_ns=250 * MS)
    assert values(ttft_ns, record) == [100]
    assert values(ttfot_ns, record) == [250]
    assert values(tpot_ns, record) == [50]


def test_tpot_counts_tokens_of_usage_not_events(reply: Any) -> None:
    assert values(tpot_ns, reply(tokens=[100, 160, 220, 240], output_tokens=7)) == [pytest.approx(140 / 6)]


def test_e2el_leaves_the_tail_of_the_stream_out(reply: Any) -> None:
    assert values(e2el_ns, reply(tokens=[60, 120], end_ns=900 * MS)) == [120]


def test_one_token_has_no_tpot(reply: Any) -> None:
    one, three = reply(0, tokens=[150]), reply(1, tokens=[100, 140, 180])
    assert values(ttft_ns, one) == values(e2el_ns, one) == [150]
    tpot = values(tpot_ns, one, three)
    assert math.isnan(tpot[0]) and tpot[1] == 40


@pytest.mark.parametrize("metric", [ttft_ns, ttfot_ns, e2el_ns, tpot_ns])
def test_no_token_no_latency(metric: Any, reply: Any) -> None:
    assert math.isnan(values(metric, reply(output_tokens=0, end_ns=80 * MS))[0])


def test_unknown_output_length_has_no_tpot(reply: Any) -> None:
    assert math.isnan(values(tpot_ns, reply(tokens=[10, 20], output_tokens=None))[0])


def test_a_reply_that_was_no_stream_has_only_e2el(reply: Any) -> None:
    record = reply(tokens=[400], streamed=False, output_tokens=5, end_ns=410 * MS)
    assert values(e2el_ns, record) == [410]
    for metric in (ttft_ns, ttfot_ns, tpot_ns):
        assert math.isnan(values(metric, record)[0])


def test_a_whole_reply_known_to_be_empty_has_no_latency_but_embeddings_have(reply: Any) -> None:
    empty, embeddings = reply(0, streamed=False, output_tokens=0, end_ns=35 * MS), reply(1, streamed=False, end_ns=35 * MS)
    found = values(e2el_ns, empty, embeddings)
    assert math.isnan(found[0]) and found[1] == 35
    assert values(e2el_ns, reply(streamed=False, output_tokens=0, token_source="none", end_ns=35 * MS)) == [35]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
@pytest.mark.parametrize("metric", ALL)
def test_failed_and_cancelled_requests_join_no_latency(metric: Any, status: str, reply: Any) -> None:
    good, bad = reply(0, tokens=[10, 20], planned_ns=0), reply(1, tokens=[10, 20], planned_ns=0, status=status)
    found = values(metric, good, bad)
    assert not math.isnan(found[0]) and math.isnan(found[1])


def test_a_closed_loop_has_no_times_from_planned(reply: Any) -> None:
    for metric in (queue_delay_ns, response_ttft_ns, response_e2el_ns):
        assert math.isnan(values(metric, reply(tokens=[10, 20]))[0])


def test_times_near_the_top_of_the_clock_lose_no_nanosecond(reply: Any) -> None:
    """Machine up for a year: 3e16 ns does not fit a float's 53 bits once multiplied; differences are taken in integers."""
    start = 9_007_199_254_740_993  # 2 ** 53 + 1
    record = reply(tokens=[1, 2], sent_ns=start, first_token_ns=start + 7, last_token_ns=start + 10)
    assert ttft_ns(Records([record]))[0] == 7
    assert e2el_ns(Records([record]))[0] == 10


def test_no_records() -> None:
    for metric in ALL:
        assert np.array_equal(metric(Records([])), np.zeros(0))
