"""Duration, throughput, peaks: by hand and against a slow simple reckoning."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.metrics.peaks import peak_concurrency, peak_output_tokens_per_s
from loadstone.metrics.throughput import duration_s, event_rate, total_tokens
from loadstone.records import Record, Records

MS = 1_000_000


def test_duration_is_first_send_to_last_end_failures_included(reply: Any) -> None:
    records = Records(
        [reply(0, sent=500, tokens=[100]), reply(1, sent=200, status="failed", end_ns=2200 * MS), reply(2, sent=900, tokens=[100, 400])]
    )
    assert duration_s(records) == 2.0


def test_a_request_that_found_no_connection_has_an_end_but_no_send() -> None:
    assert duration_s(Records([Record(index=0, status="failed", end_ns=5 * MS)])) == 0
    assert duration_s(Records([Record(index=0, status="failed", end_ns=9 * MS), Record(index=1, sent_ns=2 * MS, end_ns=5 * MS)])) == 0.007
    assert duration_s(Records([])) == 0


def test_tokens_of_failed_requests_do_not_count(reply: Any) -> None:
    records = Records([reply(0, tokens=[1, 2]), reply(1, tokens=[1, 2, 3], status="failed"), reply(2, tokens=[1], output_tokens=None)])
    assert total_tokens(records, records.output_tokens) == 2


def test_rate_of_n_events_has_n_minus_1_gaps(reply: Any) -> None:
    assert event_rate(Records([reply(k, sent=100 * k) for k in range(11)]).sent_ns) == 10
    assert event_rate(Records([reply(0, sent=5)]).sent_ns) is None
    assert event_rate(Records([reply(0, sent=5), reply(1, sent=5)]).sent_ns) is None


def test_peak_counts_tokens_not_events(reply: Any) -> None:
    told = reply(0, sent=0, tokens=[100, 900, 1100], token_counts=[1, 4, 2], output_tokens=7)
    even = reply(1, sent=0, tokens=[950, 1050, 1999], output_tokens=12)  # 4 tokens an event
    assert peak_output_tokens_per_s(Records([told])) == 5
    assert peak_output_tokens_per_s(Records([told, even])) == max(1 + 4 + 4, 2 + 4 + 4)


def test_what_running_usage_tells_of_one_reply_counts_beside_others_that_do_not_tell(reply: Any) -> None:
    told = reply(0, sent=0, tokens=[100, 1100], token_counts=[2, 0])
    even = reply(1, sent=0, tokens=[200, 1200])
    assert peak_output_tokens_per_s(Records([told, even])) == 3


def test_bins_start_at_the_first_send_and_leave_failures_out(reply: Any) -> None:
    early = reply(0, sent=5400, tokens=[100, 200, 999])
    late = reply(1, sent=5900, tokens=[499, 500])  # 6399 and 6400 ms: the first and the second bin
    failed = reply(2, sent=6000, tokens=[1] * 50, status="failed")
    assert peak_output_tokens_per_s(Records([early, late, failed])) == 4
    assert peak_output_tokens_per_s(Records([failed])) is None


def test_a_whole_reply_puts_its_tokens_at_its_end(reply: Any) -> None:
    records = Records([reply(0, tokens=[10, 20]), reply(1, streamed=False, output_tokens=9, end_ns=1500 * MS)])
    assert peak_output_tokens_per_s(records) == 9


def test_ten_requests_one_after_another_peak_at_one(reply: Any) -> None:
    assert peak_concurrency(Records([reply(k, sent=100 * k, tokens=[100]) for k in range(10)])) == 1


def test_failed_requests_are_in_flight_too(reply: Any) -> None:
    assert peak_concurrency(Records([reply(0, sent=0, tokens=[100]), reply(1, sent=50, status="failed", end_ns=80 * MS)])) == 2
    assert peak_concurrency(Records([Record(index=0, status="failed", end_ns=5)])) == 0


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=30))
def test_peak_concurrency_against_every_instant(spans: list[tuple[int, int]]) -> None:
    records = Records([Record(index=k, sent_ns=sent, end_ns=sent + length) for k, (sent, length) in enumerate(spans)])
    assert peak_concurrency(records) == max(sum(sent <= now < sent + length for sent, length in spans) for now in range(61))


@given(st.lists(st.lists(st.tuples(st.integers(0, 3 * 10**9), st.integers(0, 5)), min_size=1, max_size=6), min_size=1, max_size=6))
def test_peak_tokens_against_a_slow_count(replies: list[list[tuple[int, int]]]) -> None:
    records, bins = [], [0] * 4
    for index, pairs in enumerate(replies):
        pairs = sorted(pairs)
        records.append(Record(index=index, sent_ns=7, end_ns=7 + pairs[-1][0], token_ns=[t for t, _ in pairs], token_counts=[n for _, n in pairs]))
        for time, tokens in pairs:
            bins[time // 10**9] += tokens
    assert peak_output_tokens_per_s(Records(records)) == pytest.approx(max(bins))
