"""Thresholds: what can be written, and what becomes of it, by hand."""

import pytest

from loadstone.errors import UsageError
from loadstone.metrics.summarise import summarise
from loadstone.metrics.thresholds import FAIL, PASS, TOO_FEW, judge, threshold_of
from loadstone.records import FAILED, Record, Records


def records(count, failed=0, step_ms=1):
    """TTFTs of 1, 2, 3 ... ms, one token every ms after, two tokens; a request every ms."""
    made = [
        Record(index=k, sent_ns=k * 10**6, first_token_ns=(k + (k + 1) * step_ms) * 10**6, last_token_ns=(k + (k + 1) * step_ms + 1) * 10**6,
               end_ns=(k + (k + 1) * step_ms + 1) * 10**6, token_ns=[(k + 1) * step_ms * 10**6, ((k + 1) * step_ms + 1) * 10**6], output_tokens=2,
               prompt_tokens=3)
        for k in range(count)
    ]  # fmt: skip
    lost = [Record(index=count + k, status=FAILED, reason="reset", error="reset", sent_ns=0, end_ns=1) for k in range(failed)]
    return Records([*made, *lost])


def verdicts(texts, count=400, failed=0, **fields):
    thresholds = [threshold_of(text) for text in texts]
    points = [each.percentile for each in thresholds if each.percentile]
    summary = summarise(records(count, failed), planned=count + failed, percentiles=points, **fields)
    return judge(thresholds, summary)


@pytest.mark.parametrize(
    ("text", "shown", "limit"),
    [
        ("p99 ttft <= 200ms", "p99 ttft <= 200 ms", 200),
        ("  P99.9   e2el<2s ", "p99.9 e2el < 2 s", 2000),
        ("mean tpot > 1.5e1us", "mean tpot > 1.5e1 us", 0.015),
        ("error rate < 1%", "error rate < 1%", 0.01),
        ("error-rate < 1%", "error rate < 1%", 0.01),
        ("goodput >= 95%", "goodput >= 95%", 0.95),
        ("goodput >= 12.5 req/s", "goodput >= 12.5 req/s", 12.5),
        ("output_throughput >= 1000tok/s", "output throughput >= 1000 tok/s", 1000),
        ("max output_len <= 128 tokens", "max output_len <= 128 tokens", 128),
    ],
)
def test_what_can_be_written(text, shown, limit):
    threshold = threshold_of(text)
    assert (threshold.text, threshold.number * threshold.per_unit) == (shown, pytest.approx(limit))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast", "is no threshold: write, for example, 'p99 ttft <= 200ms'"),
        ("p99 ttft <= 200", "ttft is in us or ms or s, not a bare number"),
        ("p99 ttft <= 200%", "ttft is in us or ms or s, not %"),
        ("ttft <= 200ms", "which statistic of ttft"),
        ("p101 ttft <= 200ms", "a percentile is a number from 0 to 100"),
        ("p99 tfft <= 200ms", "there is no metric 'tfft'; there are ttft, ttfot"),
        ("error rate < 1ms", "error rate is in %, not ms"),
        ("p99 ttft = 200ms", "is no threshold"),
        ("p99 ttft <= -2ms", "is no threshold"),
    ],
)
def test_what_cannot(text, said):
    with pytest.raises(UsageError, match=said):
        threshold_of(text)


def test_values_on_either_side():
    """TTFTs 1 to 400 ms: p99 = 1 + 0.99 * 399 = 396.01, mean 200.5."""
    met, missed, mean, exact = verdicts(["p99 ttft <= 396.02ms", "p99 ttft < 0.396s", "mean ttft >= 201ms", "max ttft <= 400ms"])
    assert [each.verdict for each in (met, missed, mean, exact)] == [PASS, FAIL, FAIL, PASS]
    assert missed.value == pytest.approx(0.39601) and missed.unit == "s" and met.samples == 400


def test_too_few_samples_is_no_miss_but_a_value_on_the_wrong_side_is():
    few, wrong, median = verdicts(["p99 ttft <= 1s", "p99 ttft <= 1ms", "p50 ttft <= 1s"], count=100)
    assert (few.verdict, few.why) == (TOO_FEW, "100 samples; p99 needs 368")
    assert (wrong.verdict, median.verdict) == (FAIL, PASS)


def test_rates_and_shares():
    """396 completed, 4 failed: an error rate of 1 %."""
    at, below = verdicts(["error rate <= 1%", "error rate < 1%"], count=396, failed=4)
    assert (at.verdict, below.verdict, below.value) == (PASS, FAIL, pytest.approx(1))
    share, absent = verdicts(["goodput >= 50%"], slos_ms={"ttft": 200.0})[0], verdicts(["goodput >= 50%"])[0]
    assert (share.verdict, share.value) == (PASS, pytest.approx(50))
    assert (absent.verdict, absent.value, absent.why) == (FAIL, None, "no --goodput limits were given")


def test_what_is_not_there_is_a_miss():
    assert [each.verdict for each in verdicts(["p99 s_ttft <= 1s", "p99 response_ttft <= 1s"])] == [FAIL, FAIL]
