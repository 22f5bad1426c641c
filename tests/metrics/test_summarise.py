"""The summary of a whole run: sums that must hold, every distribution, and the warnings that records prove."""

from typing import Any

import pytest

from loadstone.errors import UsageError
from loadstone.metrics.catalogue import METRICS
from loadstone.metrics.outcomes import AccountingError
from loadstone.metrics.summarise import summarise
from loadstone.records import Record, Records

MS = 1_000_000


def test_all_requests_failed() -> None:
    """Twenty answers of 500: a summary with figures absent, throughput 0 and the reason counted."""
    failures = [Record(index=k, status="failed", reason="http 500", error="HTTP 500: boom", sent_ns=k, end_ns=k + 10**9) for k in range(20)]
    summary = summarise(Records(failures), planned=20, slos_ms={"ttft": 100})
    assert (summary.completed, summary.failed, summary.request_throughput, summary.output_throughput) == (0, 20, 0, 0)
    assert summary.failures == {"http 500": 20} and summary.failure_examples == {"http 500": "HTTP 500: boom"}
    assert {found.count for found in summary.distributions.values()} == {0}
    assert all(found.mean is None for found in summary.distributions.values())
    assert summary.goodput is not None and summary.goodput.per_s == 0
    assert summary.peak_output_tokens_per_s is None and summary.peak_concurrency == 20
    assert summary.warnings == []


def test_nothing_was_sent() -> None:
    summary = summarise(Records([]), planned=7, dropped=7, open_loop=True)
    assert (summary.planned, summary.sent, summary.dropped, summary.duration_s) == (7, 0, 7, 0)


def test_outcomes_are_counted_by_reason_most_common_first(reply: Any) -> None:
    records = [reply(0, tokens=[1, 2])]
    records += [Record(index=k, status="failed", reason="reset", error=f"reset {k}", sent_ns=0, end_ns=1) for k in (1, 2)]
    records += [Record(index=3, status="cancelled", sent_ns=0, end_ns=1), Record(index=4, status="failed", error="?", sent_ns=0, end_ns=1)]
    summary = summarise(Records(records), planned=6, dropped=1)
    assert list(summary.failures.items()) == [("reset", 2), ("cancelled", 1), ("unknown", 1)]
    assert summary.failure_examples == {"reset": "reset 1", "cancelled": "", "unknown": "?"}
    assert summary.planned == summary.sent + summary.dropped
    assert summary.sent == summary.completed + summary.failed + summary.cancelled


def test_requests_that_do_not_add_up_are_an_internal_error(reply: Any) -> None:
    for planned, dropped, records in (
        (3, 0, [reply(0, tokens=[1])]),
        (1, 1, [reply(0, tokens=[1])]),
        (1, 0, [reply(0, tokens=[1], status="strange")]),
        (2, 0, [reply(0, tokens=[1]), reply(0, tokens=[1])]),
    ):
        with pytest.raises(AccountingError):
            summarise(Records(records), planned=planned, dropped=dropped)


def test_every_distribution_is_there_and_those_from_planned_in_an_open_loop_only(reply: Any) -> None:
    records = Records([reply(0, tokens=[10, 20, 30], planned_ns=0)])
    closed, open_ = summarise(records, planned=1), summarise(records, planned=1, open_loop=True)
    from_planned = {"queue_delay", "response_ttft", "response_e2el"}
    assert set(open_.distributions) == set(METRICS)
    assert set(closed.distributions) == set(METRICS) - from_planned
    assert closed.planned_rate is None


def test_figures_by_hand(reply: Any) -> None:
    records = [reply(k, sent=1000 * k, tokens=[100, 150, 200], prompt_tokens=33, prompt_token_source="usage") for k in range(3)]
    summary = summarise(Records(records), planned=3, percentiles=["50", "99.9"])
    assert summary.duration_s == 2.2
    assert summary.request_throughput == pytest.approx(3 / 2.2)
    assert (summary.total_input_tokens, summary.total_output_tokens) == (99, 9)
    assert summary.total_token_throughput == pytest.approx(108 / 2.2)
    assert summary.sent_rate == 1
    itl = summary.distributions["itl"]
    assert (itl.unit, itl.count, itl.mean) == ("ms", 6, 50)
    assert set(itl.percentiles) == {"50", "90", "95", "99", "99.9"}
    assert summary.distributions["output_len"].mean == 3 and summary.distributions["output_len"].unit == "tokens"
    assert summary.token_source == {"usage": 3} and summary.prompt_token_source == {"usage": 3}


def test_a_percentile_outside_its_range_is_refused(reply: Any) -> None:
    with pytest.raises(UsageError, match="101"):
        summarise(Records([reply(0, tokens=[1])]), planned=1, percentiles=["101"])


def warnings(records: list[Record], **options: Any) -> str:
    return "\n".join(summarise(Records(records), planned=len(records), percentiles=["50"], **options).warnings)


def test_streams_that_end_without_saying_why_where_others_say(reply: Any) -> None:
    bare = [reply(k, tokens=[10, 20], reason="no finish_reason", prompt_tokens=1) for k in range(3)]
    assert "3 of 4 completed streams ended in [DONE] without a finish_reason" in warnings([*bare, reply(3, tokens=[10, 20], prompt_tokens=1)])
    assert "finish_reason" not in warnings(bare)  # a server that never has one


def many(reply: Any, count: int = 10, **fields: Any) -> list[Record]:
    return [reply(k, **{"sent": 100 * k, "tokens": [10, 20, 30], "prompt_tokens": 5, "prompt_token_source": "usage", **fields}) for k in range(count)]


def test_a_clean_run_has_no_warning(reply: Any) -> None:
    assert warnings(many(reply)) == ""
    assert warnings([reply(k, 100 * k, [10, 20, 30], prompt_tokens=5, planned_ns=100 * k * MS) for k in range(10)], open_loop=True) == ""


def test_figures_from_planned_that_differ_by_more_than_a_tenth(reply: Any) -> None:
    def run(wait: float) -> list[Record]:
        return [reply(k, 100 * k + wait, [100, 200], prompt_tokens=5, planned_ns=100 * k * MS) for k in range(10)]

    assert "not delivered as asked" not in warnings(run(9), open_loop=True)
    assert "mean TTFT is 111.00 ms counted from when requests were due, 100.00 ms" in warnings(run(11), open_loop=True)
    assert "not delivered" not in warnings(run(11), open_loop=False)
    assert "cap of 1 requests" not in warnings(run(11), open_loop=True, max_concurrency=8)
    assert "The cap of 2 requests in flight was reached" in warnings([*run(50)], open_loop=True, max_concurrency=2)


def test_sends_slower_than_the_schedule(reply: Any) -> None:
    late = [reply(k, 120 * k, [100_000], prompt_tokens=5, planned_ns=100 * k * MS) for k in range(10)]
    assert "the schedule was 10.00 req/s, requests were sent at 8.33" in warnings(late, open_loop=True)


def test_too_few_samples(reply: Any) -> None:
    summary = summarise(Records(many(reply, 40)), planned=40, percentiles=["50", "99", "100"])
    assert summary.warnings == [
        "Too few samples to bound p99 of TTFT (40), TPOT (40), ITL (80), E2EL (40): 368 are needed. Read it as about the largest value seen."
    ]


def test_token_counts(reply: Any) -> None:
    assert "10 of 10 requests are counted by events" in warnings(many(reply, token_source="events"))
    assert "The server counts 330 input tokens where the client's tokenizer counts 200" in warnings(
        many(reply, prompt_tokens=33, local_prompt_tokens=20)
    )
    assert "client's own count" in warnings(many(reply, prompt_tokens=20, local_prompt_tokens=20, prompt_token_source="local"))
    assert "input tokens of 10 of 10 requests are unknown" in warnings(many(reply, prompt_tokens=None))
    assert "output tokens of 10 of 10 requests are unknown" in warnings(many(reply, output_tokens=None))


def test_shape_of_replies(reply: Any) -> None:
    assert "10 of 10 replies were shorter than asked (3.0 of 64.0 tokens" in warnings(many(reply, wanted_output_tokens=64))
    assert "shorter" not in warnings(many(reply, wanted_output_tokens=3))
    assert "50% of the token events came in one read" in warnings(many(reply, tokens=[10, 10, 20]))
    assert "10 of 10 replies brought several tokens in one event" in warnings(many(reply, tokens=[10], output_tokens=9))
    assert "brought no token" in warnings([*many(reply), reply(10, output_tokens=0, prompt_tokens=5)])
    assert "1 of 11 replies were not streamed" in warnings([*many(reply), reply(10, streamed=False, output_tokens=4, prompt_tokens=5)])
    assert "1 request was cut off" in warnings([*many(reply), reply(10, status="cancelled")])
    assert "Only 1 of 11 replies told how many tokens" in warnings([*many(reply), reply(10, tokens=[1, 2], token_counts=[1, 1], prompt_tokens=5)])
    assert "clock went backwards" in warnings(many(reply, tokens=[-5, 10, 20]))
