"""Figures of each server, and of attempts: worked out by hand on a few records."""

import pytest

from loadstone.metrics.servers import by_server, retries
from loadstone.records import CANCELLED, FAILED, Record, Records, Retried

MS = 1_000_000
A, B, C = "http://a:1", "http://b:1", "http://c:1"


def made(index: int, target: str, ttft_ms: int = 10, e2el_ms: int = 50, tokens: int = 5, **fields: object) -> Record:
    """Sent at index * 100 ms."""
    sent = index * 100 * MS
    times = {"first_token_ns": sent + ttft_ms * MS, "last_token_ns": sent + e2el_ms * MS, "end_ns": sent + e2el_ms * MS}
    return Record(index=index, target=target, sent_ns=sent, output_tokens=tokens, **(times | fields))  # type: ignore[arg-type]


def again(server: int, reason: str) -> Retried:
    return Retried(server=server, reason=reason, began_ns=0, end_ns=1)


RECORDS = [
    made(0, A, ttft_ms=10),
    made(1, B, ttft_ms=100, e2el_ms=180),
    made(2, A, ttft_ms=30),
    made(3, A, ttft_ms=999, e2el_ms=1000, status=FAILED, reason="http 429", attempts=3, retried=[again(0, "http 429"), again(1, "reset")]),
    made(4, B, status=CANCELLED),
    made(5, B, ttft_ms=300, e2el_ms=380, attempts=2, retried=[again(0, "http 429")]),
]


def test_each_server_has_its_own_and_the_rates_add_up() -> None:
    """Duration: 0 to 300 + 1000 ms = 1.3 s."""
    a, b, c = by_server(Records(RECORDS), [A, B, C], ["50", "99"])
    assert [(each.url, each.sent, each.completed, each.failed, each.cancelled) for each in (a, b, c)] == [
        (A, 3, 2, 1, 0),
        (B, 3, 2, 0, 1),
        (C, 0, 0, 0, 0),
    ]
    assert a.request_throughput == b.request_throughput == pytest.approx(2 / 1.3)
    assert (a.total_output_tokens, a.output_throughput) == (10, pytest.approx(10 / 1.3))
    assert (a.distributions["ttft"].count, a.distributions["ttft"].mean) == (2, 20.0)
    assert b.distributions["ttft"].percentiles["99"].value == pytest.approx(100 + 0.99 * 200)
    assert a.distributions["tpot"].mean == pytest.approx((10 + 5) / 2)  # (50 - 10) / 4 and (50 - 30) / 4
    assert b.distributions["e2el"].median is not None and b.distributions["e2el"].median.value == 280.0
    assert c.distributions["ttft"].count == 0 and c.distributions["ttft"].mean is None
    assert (a.retried, b.retried, c.retried) == ({"http 429": 2}, {"reset": 1}, {})


def test_one_server_has_no_part_of_its_own() -> None:
    assert by_server(Records(RECORDS[:1]), [A], ["99"]) == [] == by_server(Records([]), [], ["99"])


def test_attempts_are_requests_and_those_that_were_tried_again() -> None:
    found = retries(Records(RECORDS))
    assert found.attempts == 6 + 3 and found.reasons == {"http 429": 2, "reset": 1}
    assert (found.requests, found.completed) == (2, 1)
    assert retries(Records([])).attempts == 0
