"""ITL and ICL: pooled gaps, by event and by token, against cases worked out by hand and a slow simple reckoning."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.metrics.icl import icl_ns
from loadstone.metrics.itl import itl_basis, itl_ns
from loadstone.records import Record, Records


def ms(gaps: Any) -> list[float]:
    return [float(value) / 1e6 for value in gaps.values]


def test_gaps_by_event(reply: Any) -> None:
    records = Records([reply(0, tokens=[80, 80, 80, 200]), reply(1, tokens=[10]), reply(2, tokens=[5, 9])])
    assert itl_basis(records) == "event"
    assert ms(itl_ns(records)) == ms(icl_ns(records)) == [0, 0, 120, 4]
    assert itl_ns(records).rows.tolist() == [0, 3, 3, 4]
    assert (itl_ns(records).of(0) / 1e6).tolist() == [0, 0, 120]


def test_running_usage_shares_each_gap_over_its_tokens(reply: Any) -> None:
    records = Records([reply(tokens=[100, 160, 220, 240], token_counts=[1, 2, 3, 1], output_tokens=7)])
    assert itl_basis(records) == "token"
    assert ms(itl_ns(records)) == [30, 30, 20, 20, 20, 20]
    assert ms(icl_ns(records)) == [60, 60, 20]


def test_cumulative_counts_of_sglang(reply: Any) -> None:
    assert ms(itl_ns(Records([reply(tokens=[100, 130, 220], token_counts=[1, 2, 2])]))) == [15, 15, 45, 45]


def test_tokens_of_the_first_event_have_no_gap(reply: Any) -> None:
    assert ms(itl_ns(Records([reply(tokens=[100, 130], token_counts=[5, 1])]))) == [30]


def test_an_event_without_a_whole_token_leaves_its_gap_to_the_next(reply: Any) -> None:
    assert ms(itl_ns(Records([reply(tokens=[0, 10, 40], token_counts=[1, 0, 2])]))) == [20, 20]
    assert ms(itl_ns(Records([reply(tokens=[0, 10, 40], token_counts=[0, 1, 1])]))) == [10, 30]
    assert ms(itl_ns(Records([reply(tokens=[0, 10, 40], token_counts=[1, 1, 0])]))) == [10, 30]


def test_one_reply_that_does_not_tell_puts_the_run_on_events(reply: Any) -> None:
    records = Records([reply(0, tokens=[0, 10], token_counts=[1, 2]), reply(1, tokens=[0, 10])])
    assert itl_basis(records) == "event"
    assert ms(itl_ns(records)) == [10, 10]


def test_replies_without_a_gap_do_not_matter_for_the_basis(reply: Any) -> None:
    records = Records([reply(0, tokens=[0, 10], token_counts=[1, 2]), reply(1, tokens=[7]), reply(2, tokens=[0, 5], status="failed")])
    assert itl_basis(records) == "token"
    assert ms(itl_ns(records)) == [5, 5]
    assert itl_ns(records).rows.tolist() == [0, 2, 2, 2]


def test_failed_and_whole_replies_have_no_gaps(reply: Any) -> None:
    records = Records([reply(0, tokens=[0, 10], status="failed"), reply(1, tokens=[0, 10], streamed=False), reply(2, tokens=[0, 3])])
    assert ms(icl_ns(records)) == [3]
    assert icl_ns(records).rows.tolist() == [0, 0, 0, 1]


def test_no_records() -> None:
    records = Records([])
    assert itl_basis(records) == "event"
    assert len(itl_ns(records).values) == 0 and itl_ns(records).rows.tolist() == [0]


def slow_itl(record: Record) -> list[float]:
    """One reply, event by event, as the docstring of itl.py says it."""
    gaps: list[float] = []
    anchor = record.token_ns[0]
    for position in range(1, len(record.token_ns)):
        tokens = record.token_counts[position]
        if position == len(record.token_ns) - 1:
            tokens = max(tokens, 1)
        if tokens:
            gaps += [(record.token_ns[position] - anchor) / tokens] * tokens
            anchor = record.token_ns[position]
    return gaps


events = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 4)), min_size=2, max_size=8)


@given(st.lists(st.tuples(events, st.sampled_from(["completed", "completed", "failed"]), st.booleans()), min_size=1, max_size=6))
def test_against_the_slow_way(runs: list[Any]) -> None:
    replies = []
    for index, (pairs, status, streamed) in enumerate(runs):
        times = np.cumsum([gap for gap, _ in pairs]).tolist()
        replies.append(Record(index=index, sent_ns=0, token_ns=times, token_counts=[n for _, n in pairs], status=status, streamed=streamed))
    found = itl_ns(Records(replies))
    for row, record in enumerate(replies):
        wanted = slow_itl(record) if record.status == "completed" and record.streamed else []
        assert found.of(row).tolist() == pytest.approx(wanted)
        if wanted:
            assert sum(found.of(row).tolist()) == pytest.approx(record.token_ns[-1] - record.token_ns[0])
