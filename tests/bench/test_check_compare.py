"""Measured against true: right values worked out by hand."""

from typing import Any

import pytest

from loadstone.bench.check_compare import compare
from loadstone.records import FAILED, Record, Records

MS = 1_000_000


def record(index: int, sent_ns: int, tokens_ns: list[int], **fields: Any) -> Record:
    """A completed request with token events at these absolute times."""
    times = {"first_token_ns": tokens_ns[0], "last_token_ns": tokens_ns[-1]} if tokens_ns else {}
    return Record(index=index, sent_ns=sent_ns, token_ns=[each - sent_ns for each in tokens_ns], **(times | fields))


def row(index: int, arrived_ns: int | None, read_ns: int, sends_ns: list[int], **fields: Any) -> dict[str, Any]:
    """The server's row of the same request."""
    times = {"first_ns": sends_ns[0], "last_ns": sends_ns[-1]}
    return {"id": f"r{index}", "arrived_ns": arrived_ns, "read_ns": read_ns, "send_ns": sends_ns, "outcome": "completed", **times, **fields}


def test_each_error_is_measured_minus_true() -> None:
    records = Records([record(1, 900 * MS, [940 * MS + 2000, 960 * MS]), record(0, 100 * MS, [110 * MS + 5000, 130 * MS + 9000, 150 * MS + 1000])])
    rows = [  # the server has finished them in another order
        row(0, 100 * MS + 3000, 101 * MS, [110 * MS, 130 * MS, 150 * MS]),
        row(1, 900 * MS + 1000, 900 * MS + 51_000, [940 * MS, 960 * MS + 4000]),
    ]
    found = compare(records, "r", rows)
    assert (found.matched, found.unmatched, found.without_arrival) == (2, 0, 0)
    assert (
        found.first_token
        and found.last_token
        and found.every_token
        and found.sending
        and found.ttft
        and found.itl
        and found.e2el
        and found.server_wait
    )
    assert found.first_token.count == 2
    assert found.first_token.mean_us == pytest.approx((5 + 2) / 2)
    assert (found.last_token.mean_us, found.last_token.max_us) == (pytest.approx((1 - 4) / 2), pytest.approx(4))
    assert found.last_token.p99_us == pytest.approx(1 + 0.99 * 3)  # of the sizes 1 and 4
    assert found.every_token.count == 5
    assert found.every_token.mean_us == pytest.approx((5 + 9 + 1 + 2 - 4) / 5)
    assert found.every_token.median_us == pytest.approx(2)
    assert found.sending.mean_us == pytest.approx((3 + 1) / 2)
    assert found.ttft.mean_us == pytest.approx(((5 + 3) + (2 + 1)) / 2)  # receive error + send error
    assert found.e2el.mean_us == pytest.approx(((1 + 3) + (-4 + 1)) / 2)
    assert found.itl.count == 3
    assert found.itl.mean_us == pytest.approx(((9 - 5) + (1 - 9) + (-4 - 2)) / 3)
    assert found.itl.max_us == pytest.approx(8)
    assert found.server_wait.mean_us == pytest.approx((997 + 50) / 2)
    assert found.true_ms["ttft"]["mean"] == pytest.approx((10 - 0.003 + 40 - 0.001) / 2)
    assert found.true_ms["itl"]["p50"] == pytest.approx(20)
    assert found.true_ms["itl"]["mean"] == pytest.approx((20 + 20 + 20.004) / 3)
    assert found.true_ms["e2el"]["p99"] == pytest.approx(50 - 0.003 + 0.99 * (60.004 - 0.001 - 50 + 0.003))
    assert found.arrival_rate == pytest.approx(1 / 0.799998)
    assert found.token_pace == pytest.approx(1e9 / ((20 + 20 + 20.004) / 3 * MS))


def test_the_servers_own_wait_is_no_error() -> None:
    found = compare(Records([record(0, 0, [90 * MS])]), "r", [row(0, 0, 80 * MS, [90 * MS])])
    assert found.ttft and found.server_wait
    assert found.ttft.max_us == 0
    assert found.server_wait.max_us == 80_000
    assert found.true_ms["ttft"]["mean"] == 90


def test_an_arrival_that_is_not_known_counts_as_sent_exactly() -> None:
    found = compare(Records([record(0, 7 * MS, [90 * MS])]), "r", [row(0, None, 80 * MS, [89 * MS])])
    assert found.without_arrival == 1
    assert found.sending and found.ttft
    assert found.sending.max_us == 0
    assert found.ttft.mean_us == pytest.approx(1000)


def test_what_the_server_does_not_know_or_counts_otherwise_is_unmatched() -> None:
    records = Records(
        [
            record(0, 0, [MS]),  # another prefix at the server
            record(1, 0, [MS, 2 * MS]),  # two token events of three
            record(2, 0, [MS]),  # not completed at the server
            record(3, 0, []),  # no token at all
            record(4, 0, [MS], status=FAILED, error="x"),  # failed: not compared
            record(5, 0, [MS]),
        ]
    )
    rows = [row(0, 0, 0, [MS], id="other0"), row(1, 0, 0, [MS, 2 * MS, 3 * MS]), row(2, 0, 0, [MS], outcome="cancelled")]
    rows += [row(3, 0, 0, [MS]), row(4, 0, 0, [MS]), row(5, 0, 0, [MS])]
    found = compare(records, "r", rows)
    assert (found.matched, found.unmatched) == (1, 4)
    assert found.itl is None and found.token_pace is None and found.arrival_rate is None


def test_nothing_to_compare() -> None:
    found = compare(Records([]), "r", [])
    assert (found.matched, found.unmatched, found.ttft, found.true_ms) == (0, 0, None, {})
