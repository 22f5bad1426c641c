"""The figures of a part of the run, worked out by hand: requests and tokens on either side of its edges."""

from collections.abc import Callable

import numpy as np
import pytest

from loadstone.metrics.batch_means import mean_interval
from loadstone.metrics.summarise import summarise
from loadstone.metrics.window import Times, measured
from loadstone.records import Record, Records

Reply = Callable[..., Record]


def test_a_request_that_straddles_an_edge(reply: Reply) -> None:
    """Three requests of 4 tokens, a second apart each, sent at 0, 2 and 6 s; the window is from 1 to 5 s."""
    seconds = [1000, 2000, 3000, 4000]
    records = Records([reply(number, sent=at, tokens=seconds, prompt_tokens=10.0) for number, at in enumerate((0, 2000, 6000))])
    found = measured(records, ["99"], open_loop=False, asked=Times(warmup=1, measure=4))
    assert (found.start_s, found.end_s) == (1.0, 5.0)
    assert (found.sent, found.completed) == (1, 1)  # the second was sent in it, the first ended in it
    assert found.request_throughput and found.request_throughput.value == pytest.approx(1 / 4)
    # tokens at 1, 2, 3, 4 s of the first and 3, 4, 5 s of the second
    assert found.output_throughput and found.output_throughput.value == pytest.approx(7 / 4)
    assert found.total_token_throughput and found.total_token_throughput.value == pytest.approx((7 + 10) / 4)
    assert found.in_flight == pytest.approx((3 + 3) / 4)  # 1 to 4 s of the first, 2 to 5 s of the second
    assert found.distributions["ttft"].count == 1
    assert found.distributions["itl"].count == 3  # those of the second, though one lies behind the edge
    assert found.distributions["e2el"].mean == 4000
    assert found.request_throughput.low is None  # two requests are no sample


def test_what_cannot_be_measured_says_why(reply: Reply) -> None:
    records = Records([reply(number, sent=number * 100, tokens=[10]) for number in range(11)])
    found = measured(records, ["99"], open_loop=False, asked=Times(warmup=2))
    assert found.asked
    assert found.start_s is None
    assert "sent for 1.00 s" in found.why
    found = measured(records, ["99"], open_loop=False)
    assert not found.asked
    assert "too few" in found.why


def test_cooldown_ends_it_before_the_last_send(reply: Reply) -> None:
    records = Records([reply(number, sent=number * 100, tokens=[10]) for number in range(101)])
    found = measured(records, ["99"], open_loop=False, asked=Times(warmup=2, cooldown=3))
    assert (found.start_s, found.end_s) == (2.0, 7.0)
    assert found.sent == 51


def test_means_have_the_interval_of_their_batches(reply: Reply) -> None:
    waits = np.random.default_rng(1).exponential(50, 500)
    records = Records([reply(number, sent=number * 10, tokens=[1 + wait, 11 + wait, 31 + wait]) for number, wait in enumerate(waits)])
    summary = summarise(records, planned=500)
    ttft, itl = summary.distributions["ttft"], summary.distributions["itl"]
    expected = mean_interval(np.round((1 + waits) * 1e6) / 1e6)
    assert expected
    assert (ttft.mean_low, ttft.mean_high) == pytest.approx(expected)
    assert (itl.mean_low, itl.mean_high) == pytest.approx((15, 15))  # every reply has a gap of 10 and one of 20
    assert summary.window.distributions["ttft"].mean_low is not None


def test_early_stopping_stands_beside_the_percentile(reply: Reply) -> None:
    records = Records([reply(number, sent=number, tokens=[number + 1]) for number in range(838)])
    point = summarise(records, planned=838).distributions["ttft"].percentiles["99"]
    assert point.early_stopping == 837  # 838 samples are proof with 2 above: the place is 836 from 0, the value one more
    few = summarise(Records([reply(number, sent=number, tokens=[5]) for number in range(661)]), planned=661)
    assert few.distributions["ttft"].percentiles["99"].early_stopping is None
