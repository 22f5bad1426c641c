"""The ledger's sums against numpy and by hand."""

import numpy as np
import pytest

from loadstone.simulator.truth import Row, Spread, Truth

MS = 1_000_000


def row(outcome: str = "completed", tokens: int = 3, **fields: object) -> Row:
    plain: dict[str, object] = {"id": "a", "read_ns": 0, "first_ns": 10 * MS, "last_ns": 40 * MS, "tokens": tokens, "outcome": outcome}
    return Row(**(plain | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 5000])
def test_percentiles_are_numpys_to_a_microsecond(count: int) -> None:
    values = np.random.default_rng(count).lognormal(17, 1, count).astype(np.int64)
    spread = Spread()
    for value in values.tolist():
        spread.add(value)
    summary = spread.summary()
    assert summary is not None
    assert summary["count"] == count
    assert summary["mean"] == pytest.approx(values.mean() / 1e6)
    assert summary["max"] == values.max() / 1e6
    for share in (50, 90, 99):
        assert summary[f"p{share}"] == pytest.approx(np.percentile(values, share) / 1e6, abs=0.001, rel=1e-6)


def test_no_samples_no_summary() -> None:
    assert Spread().summary() is None


def test_gaps_are_shared_over_the_tokens_of_an_event() -> None:
    truth = Truth(10, keep_sends=False)
    epoch = truth.receive(prompt_tokens=4)
    truth.finish(row(tokens=5), [10 * MS, 30 * MS, 40 * MS], 2, epoch)  # events of 2, 2 and 1 tokens
    document = truth.document({})
    assert document["icl_ms"] == {"count": 2, "mean": 15.0, "p50": 15.0, "p90": 19.0, "p99": 19.9, "max": 20.0}
    assert document["itl_ms"] == {"count": 3, "mean": 10.0, "p50": 10.0, "p90": 10.0, "p99": 10.0, "max": 10.0}
    assert (document["ttft_ms"]["mean"], document["e2el_ms"]["mean"]) == (10.0, 40.0)


def test_outcomes_add_up_and_only_completed_replies_join_latencies() -> None:
    truth = Truth(2, keep_sends=True)
    epochs = [truth.receive(1) for _ in range(6)]
    truth.finish(row(), [10 * MS, 20 * MS, 40 * MS], 1, epochs[0])
    truth.finish(row("reset"), [99 * MS], 1, epochs[1])
    truth.finish(row("cancelled"), [99 * MS, 999 * MS], 1, epochs[2])
    truth.finish(row("error", first_ns=None, last_ns=None), [], 1, epochs[3])
    truth.finish(row(stream=False, first_ns=None), [], 1, epochs[4])
    document = truth.document({}, with_requests=True)
    assert document["received"] == 6
    assert (document["completed"], document["cancelled"], document["errors"], document["in_flight"]) == (2, 1, {"reset": 1, "error": 1}, 1)
    assert document["peak_in_flight"] == 6
    assert document["output_tokens"] == 6
    assert (document["ttft_ms"]["count"], document["itl_ms"]["count"], document["e2el_ms"]["count"]) == (1, 2, 2)
    assert len(document["requests"]) == 2  # the latest that fit
    assert document["requests_left_out"] == 3


def test_a_request_from_before_the_reset_is_not_counted_after_it() -> None:
    truth = Truth(10, keep_sends=False)
    old = truth.receive(1)
    truth.reset()
    new = truth.receive(1)
    truth.finish(row(), [1], 1, old)
    assert (truth.in_flight, truth.completed) == (1, 0)
    truth.finish(row(), [1], 1, new)
    assert (truth.in_flight, truth.completed) == (0, 1)
