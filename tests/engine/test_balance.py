"""Several servers: which gets which request, and what happens when one of them fails."""

import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadstone.engine.balance import server_of
from loadstone.engine.ends import End
from loadstone.plan import NONE
from support.scripted import Request, Scripted, document, stream
from support.worker import drive

WORDS = ["one", " two"]


def ids(server: Scripted) -> list[int]:
    return sorted(int(request.headers["x-request-id"][1:]) for request in server.seen)


def gone() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_round_robin_is_by_the_requests_number_and_a_conversation_stays() -> None:
    assert [server_of(number, NONE, 3) for number in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert {server_of(number, 4, 3) for number in range(7)} == {1}


@pytest.mark.parametrize("cap", [1, 4, None])
def test_round_robin_is_exact(tmp_path: Path, cap: int | None) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(Scripted(stream(WORDS))) for _ in range(3)]
        due = [0] * 10 if cap is None else None
        exchanges, _, _ = drive(tmp_path, [server.port for server in servers], 10, cap=cap, connections=4, due_ns=due)
    assert [ids(server) for server in servers] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert [exchange.server for exchange in exchanges] == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert {exchange.end for exchange in exchanges} == {End.COMPLETE}


def test_connections_are_opened_ahead_to_all(tmp_path: Path) -> None:
    with Scripted(stream(WORDS)) as first, Scripted(stream(WORDS)) as second:
        ready: list[int] = []
        ports = [first.port, second.port]
        drive(tmp_path, ports, 0, cap=5, connections=5, while_running=lambda worker: ready.extend(len(pool.idle) for pool in worker.pools))
    assert ready == [3, 2]


def test_a_repeated_plan_goes_on_round_robin(tmp_path: Path) -> None:
    """A plan of three requests over two servers: the fourth request, which is the first body again, is number 3 and goes to server 1."""
    with Scripted(stream(WORDS)) as first, Scripted(stream(WORDS)) as second:
        exchanges, _, _ = drive(tmp_path, [first.port, second.port], 3, cap=1, repeat=True, duration_ns=100_000_000)
    assert len(exchanges) > 4
    assert all(exchange.server == exchange.index % 2 for exchange in exchanges)


def test_least_loaded_avoids_a_server_that_holds_its_requests(tmp_path: Path) -> None:
    """Server 0 answers when all others are through: it has one of 20 requests, for of three in flight on two servers it has never fewer."""
    gate, answered = threading.Event(), []

    def slow(connection: socket.socket, request: Request) -> bool:
        gate.wait(20)
        return stream(WORDS)(connection, request)

    def quick(connection: socket.socket, request: Request) -> bool:
        answered.append(request)
        if len(answered) == 19:
            gate.set()
        return stream(WORDS)(connection, request)

    with Scripted(slow) as first, Scripted(quick) as second:
        drive(tmp_path, [first.port, second.port], 20, cap=2, connections=2, balance="least-loaded")
    assert (len(first.seen), len(second.seen)) == (1, 19)


def test_least_loaded_takes_equals_in_turn(tmp_path: Path) -> None:
    with Scripted(stream(WORDS)) as first, Scripted(stream(WORDS)) as second:
        drive(tmp_path, [first.port, second.port], 10, cap=1, balance="least-loaded")
    assert (len(first.seen), len(second.seen)) == (5, 5)


def test_a_server_that_is_gone_fails_its_own_requests_alone(tmp_path: Path) -> None:
    with Scripted(stream(WORDS)) as server:
        exchanges, _, _ = drive(tmp_path, [gone(), server.port], 6, cap=1)
    assert [exchange.end for exchange in exchanges] == [End.NOT_CONNECTED, End.COMPLETE] * 3
    assert [exchange.server for exchange in exchanges] == [0, 1] * 3


def test_least_loaded_does_not_run_after_a_server_that_fails_at_once(tmp_path: Path) -> None:
    with Scripted(stream(WORDS)) as server:
        exchanges, _, _ = drive(tmp_path, [gone(), server.port], 20, cap=1, balance="least-loaded")
    failed = [exchange for exchange in exchanges if exchange.end == End.NOT_CONNECTED]
    assert {exchange.server for exchange in failed} <= {0} and len(failed) < 10 and len(server.seen) == 20 - len(failed)


@pytest.mark.parametrize("balance", ["round-robin", "least-loaded"])
def test_a_further_try_goes_to_the_next_server(tmp_path: Path, balance: str) -> None:
    with Scripted(document("503 No", b"", b"Retry-After: 0\r\n")) as first, Scripted(stream(WORDS)) as second:
        exchanges, worker, _ = drive(tmp_path, [first.port, second.port], 4, cap=1, retries=1, balance=balance)
    assert [exchange.end for exchange in exchanges] == [End.COMPLETE] * 4 and {exchange.server for exchange in exchanges} == {1}
    assert [attempt.server for exchange in exchanges for attempt in exchange.retried] == [0] * len(first.seen)
    assert len(second.seen) == 4 and [pool.in_flight for pool in worker.pools] == [0, 0]


@pytest.mark.parametrize("fresh", [False, True])
def test_the_request_timeout_holds_where_the_next_server_takes_no_connection(tmp_path: Path, fresh: bool) -> None:
    """A listener whose queue is full lets connects wait for ever."""
    with ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(silent.getsockname())
        server = stack.enter_context(Scripted(document("503 No", b"", b"Retry-After: 0\r\n")))
        ports = [server.port, silent.getsockname()[1]]
        (exchange,), worker, _ = drive(tmp_path, ports, 1, cap=1, connections=1, retries=1, request_timeout_s=0.3, fresh=fresh)
    assert exchange.end == End.REQUEST_TIMEOUT and exchange.server == 1 and len(exchange.retried) == 1
    assert [pool.in_flight for pool in worker.pools] == [0, 0]
