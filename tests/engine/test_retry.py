"""Trying again: after what, how long later, with what kept. Lower bounds by the server's own clock; nothing here asserts how quick a machine is."""

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.engine.ends import End
from loadstone.engine.retry import pause_ns, retry_after_s
from loadstone.engine.worker import Worker
from support.scripted import Request, Scripted, document, reset, stream
from support.worker import drive

WORDS = ["one", " two"]
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def said(*headers: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 429 Too Many Requests", *headers, "", ""]).encode("latin-1")


def date(after_s: float) -> str:
    return format_datetime(NOW + timedelta(seconds=after_s), usegmt=True)


@pytest.mark.parametrize(
    ("reply", "wait_s"),
    [
        (said("Retry-After: 2"), 2.0),
        (said("retry-after:0"), 0.0),
        (said("Retry-After:  1.5 "), 1.5),
        (said(f"Date: {date(0)}", f"Retry-After: {date(90)}"), 90.0),
        (said(f"Date: {date(0)}", f"Retry-After: {date(-5)}"), 0.0),
        (said(f"Retry-After: {date(0)}"), 0.0),  # long past by this machine's clock
        (said("Retry-After: soon"), None),
        (said("Retry-After: -3"), None),
        (said("X-Retry-After: 3"), None),
        (said(), None),
        (b"", None),
        (b"HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\n\r\n" + said("Retry-After: 1"), 1.0),
        (said("Content-Length: 16") + b"\r\nRetry-After: 7", None),  # that is the body
    ],
)
def test_retry_after(reply: bytes, wait_s: float | None) -> None:
    assert retry_after_s(reply) == wait_s


printable = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n"), max_size=40)


@given(printable, st.sampled_from(["", "Fri, 01 Jan 9999999 ", "1 Mar 2026 99:"]))
def test_no_retry_after_ends_a_worker(text: str, begins: str) -> None:
    for reply in (said(f"Retry-After: {begins}{text}"), said(f"Date: {begins}{text}", f"Retry-After: {date(5)}")):
        wait_s = retry_after_s(reply)
        assert wait_s is None or 0 <= wait_s < 1e12


def test_back_off_doubles_up_to_eight_seconds_and_is_drawn_from_the_seed() -> None:
    longest = [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    for failed, longest_s in enumerate(longest, 1):
        pauses = [pause_ns(b"", seed, 3, failed) / 1e9 for seed in range(50)]
        assert longest_s / 2 <= min(pauses) < 0.6 * longest_s and 0.9 * longest_s < max(pauses) <= longest_s
    assert pause_ns(b"", 1, 2, 3) == pause_ns(b"", 1, 2, 3) != pause_ns(b"", 1, 3, 3)
    assert pause_ns(said("Retry-After: 3"), 1, 2, 3) == 3_000_000_000


def refusing(times: int, status: str = "429 Too Many", wait: str = "0.2"):  # type: ignore[no-untyped-def]
    """A script that refuses the first tries of each request, and streams then."""
    tries: dict[str, int] = {}

    def play(connection: socket.socket, request: Request) -> bool:
        key = request.headers["x-request-id"]
        tries[key] = tries.get(key, 0) + 1
        if tries[key] <= times:
            return document(status, b'{"error": "no"}', f"Retry-After: {wait}\r\n".encode())(connection, request)
        return stream(WORDS)(connection, request)

    return play


def test_without_retries_a_refusal_is_the_end(tmp_path: Path) -> None:
    with Scripted(refusing(1)) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1)
    assert len(server.seen) == 1 and exchange.raw.startswith(b"HTTP/1.1 429") and exchange.retried == ()


def test_retry_after_is_waited_for_and_times_run_from_the_first_try(tmp_path: Path) -> None:
    with Scripted(refusing(2)) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, retries=3)
    first, second, third = (request.read_ns for request in server.seen)
    assert second - first >= 200_000_000 and third - second >= 200_000_000
    assert exchange.end == End.COMPLETE and exchange.raw.startswith(b"HTTP/1.1 200")
    assert exchange.sent_ns is not None and exchange.sent_ns <= first and exchange.end_ns >= third
    assert [(attempt.server, attempt.end, attempt.status) for attempt in exchange.retried] == [(0, End.COMPLETE, 429)] * 2
    assert exchange.retried[0].began_ns == exchange.sent_ns <= first <= exchange.retried[0].end_ns <= exchange.retried[1].began_ns <= second
    assert server.connections == 1  # the reply that refused left its connection fit for more


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Unavailable", "504 Gateway Timeout", "529 Overloaded"])
def test_an_overloaded_server_is_asked_again(tmp_path: Path, status: str) -> None:
    with Scripted(refusing(1, status, "0")) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, retries=1)
    assert len(server.seen) == 2 and exchange.retried[0].status == int(status[:3])


@pytest.mark.parametrize("status", ["400 Bad Request", "401 No", "404 No", "500 Fault", "408 Timeout"])
def test_a_server_that_has_understood_is_not(tmp_path: Path, status: str) -> None:
    with Scripted(refusing(1, status, "0")) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, retries=1)
    assert len(server.seen) == 1 and exchange.retried == ()


def test_exhausted_retries_leave_the_last_reply(tmp_path: Path) -> None:
    with Scripted(refusing(9, "503 Unavailable", "0")) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, retries=2)
    assert len(server.seen) == 3 and len(exchange.retried) == 2 and exchange.raw.startswith(b"HTTP/1.1 503")


def test_a_reset_before_the_first_byte_is_tried_again_and_one_in_the_reply_is_not(tmp_path: Path) -> None:
    def play(connection: socket.socket, request: Request) -> bool:
        if request.number == 1:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            time.sleep(0.02)
        if request.number < 2:
            reset(connection)
            return False
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        (first,), _, _ = drive(tmp_path, server.port, 1, cap=1, retries=5, connections=0)  # none that could be stale
    assert len(server.seen) == 2
    assert first.end == End.RESET and first.raw.endswith(b"half")
    assert [(attempt.end, attempt.status) for attempt in first.retried] == [(End.RESET, 0)]


def test_a_server_that_is_not_there_is_tried_again_and_the_first_try_has_begun_before(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    began = time.monotonic_ns()
    (exchange,), _, _ = drive(tmp_path, port, 1, cap=1, retries=1)
    assert exchange.end == End.NOT_CONNECTED and [attempt.end for attempt in exchange.retried] == [End.NOT_CONNECTED]
    assert exchange.sent_ns is not None and began <= exchange.sent_ns == exchange.retried[0].began_ns
    assert exchange.end_ns - exchange.sent_ns >= pause_ns(b"", 0, 0, 1)


@pytest.mark.parametrize("fresh", [False, True])
def test_the_slot_is_held_while_a_request_waits(tmp_path: Path, fresh: bool) -> None:
    """One slot: the second request is read only after the first, which was refused, has been answered."""
    with Scripted(refusing(1)) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 3, cap=1, retries=1, fresh=fresh)
    assert [request.headers["x-request-id"] for request in server.seen] == ["r0", "r0", "r1", "r1", "r2", "r2"]
    assert [exchange.end for exchange in exchanges] == [End.COMPLETE] * 3 and server.peak == 1


def test_a_request_that_waits_keeps_no_other_from_going(tmp_path: Path) -> None:
    """Two slots, and a first request that is to wait for a second: nine others are through before it goes again."""

    def play(connection: socket.socket, request: Request) -> bool:
        if request.number == 0:
            return document("429 Too Many", b"", b"Retry-After: 1\r\n")(connection, request)
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        drive(tmp_path, server.port, 10, cap=2, connections=2, retries=1)
    order = [request.headers["x-request-id"] for request in server.seen]
    assert len(order) == 11 and order[-1] == order[0] == server.seen[0].headers["x-request-id"]


def test_what_would_wait_beyond_the_request_timeout_is_given_up_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    with Scripted(refusing(1, wait="60")) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, retries=3, request_timeout_s=59)
    assert time.monotonic() - began < 50 and len(server.seen) == 1
    assert exchange.raw.startswith(b"HTTP/1.1 429") and exchange.retried == ()


def test_the_request_timeout_holds_over_all_tries(tmp_path: Path) -> None:
    """The second try hangs: it has what the first and the pause have left of the time."""

    def play(connection: socket.socket, request: Request) -> bool:
        if request.number == 0:
            return document("503 No", b"", b"Retry-After: 0.4\r\n")(connection, request)
        connection.recv(1)
        return False

    with Scripted(play) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, retries=9, request_timeout_s=0.6)
    assert exchange.end == End.REQUEST_TIMEOUT and len(exchange.retried) == 1 and len(server.seen) == 2


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_a_waiting_request_is_cancelled_when_the_load_is_stopped(tmp_path: Path, how: str) -> None:
    refused = threading.Event()

    def play(connection: socket.socket, request: Request) -> bool:
        document("429 Too Many", b"", b"Retry-After: 500\r\n")(connection, request)
        refused.set()
        return True

    def interrupt(worker: Worker) -> None:
        look = worker._timeouts.look  # called at every sweep, within the loop

        def looking(now: int) -> None:
            if refused.is_set():
                getattr(worker, how)()
            look(now)

        worker._timeouts.look = looking  # type: ignore[method-assign]

    with Scripted(play) as server:
        (exchange,), worker, _ = drive(tmp_path, server.port, 1, cap=1, retries=1, while_running=interrupt)
    assert exchange.end == End.CANCELLED and len(exchange.retried) == 1 and len(server.seen) == 1
    assert worker.in_flight == 0


def test_the_end_of_the_duration_ends_the_waiting(tmp_path: Path) -> None:
    with Scripted(refusing(1, wait="300")) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, retries=1, duration_ns=300_000_000)
    assert exchange.end == End.CANCELLED and len(server.seen) == 1 and len(exchange.retried) == 1
