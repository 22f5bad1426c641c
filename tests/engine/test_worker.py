"""The worker against servers that behave, and servers that do not: what is captured, on which connection, and how it ends."""

import gc
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.engine.counters import Count
from loadstone.engine.ends import End
from loadstone.engine.worker import Worker
from support.scripted import LAST_CHUNK, STREAM_HEAD, Request, Scripted, chat_events, chunk, document, reset, stream
from support.worker import drive

CLOCKS = pytest.mark.parametrize("clock", ["auto", "user"])
WORDS = ["The", " quick", " fox"]


def resetting(after_s: float, which: Callable[[Request], Any]) -> Callable[[socket.socket, Request], bool]:
    """A server that takes the requests that are `which`, and resets their connection a while later; others it answers."""

    def play(connection: socket.socket, request: Request) -> bool:
        if which(request):
            time.sleep(after_s)
            reset(connection)
            return False
        return document("200 OK", b"{}")(connection, request)

    return play


@CLOCKS
def test_bytes_and_stamps_of_a_stream(tmp_path: Path, clock: str) -> None:
    """Every byte is kept; a read's stamp is never before the server's send of its last byte, nor after the worker knew the end."""
    sends: list[tuple[int, int]] = []  # bytes sent so far, time just before that send

    def play(connection: socket.socket, _request: Request) -> bool:
        total = 0
        for part in (STREAM_HEAD, *map(chunk, chat_events(WORDS)), LAST_CHUNK):
            total += len(part)
            sends.append((total, time.monotonic_ns()))
            connection.sendall(part)
            time.sleep(0.005)
        return True

    with Scripted(play) as server:
        (exchange,), _, counters = drive(tmp_path, server.port, 1, cap=1, clock=clock)
        finished = time.monotonic_ns()
    assert exchange.end == End.COMPLETE
    assert exchange.raw == STREAM_HEAD + b"".join(map(chunk, chat_events(WORDS))) + LAST_CHUNK
    assert exchange.read_ends[-1] == len(exchange.raw)
    assert np.all(np.diff(exchange.stamps_ns) >= 0)
    for end, sent_ns in sends:
        stamp = int(exchange.stamps_ns[np.searchsorted(exchange.read_ends, end)])
        assert sent_ns - 50_000 <= stamp <= finished
    assert exchange.sent_ns is not None and exchange.sent_ns <= server.seen[0].read_ns
    assert exchange.end_ns == exchange.stamps_ns[-1]
    assert counters[Count.READS] == len(exchange.stamps_ns)


@CLOCKS
def test_one_connection_serves_a_closed_loop_of_one(tmp_path: Path, clock: str) -> None:
    with Scripted(stream(WORDS)) as server:
        exchanges, _, counters = drive(tmp_path, server.port, 20, cap=1, clock=clock)
    assert [exchange.end for exchange in exchanges] == [End.COMPLETE] * 20
    assert server.connections == 1 == counters[Count.CONNECTIONS]
    assert [request.headers["x-request-id"] for request in server.seen] == [f"r{index}" for index in range(20)]
    assert [exchange.reused for exchange in exchanges] == [False] + [True] * 19
    assert {exchange.planned_ns for exchange in exchanges} == {None}


def test_the_cap_is_reached_and_never_passed(tmp_path: Path) -> None:
    gate = threading.Barrier(4)

    def play(connection: socket.socket, request: Request) -> bool:
        gate.wait(20)  # all four slots must be busy at once, four times
        return document("200 OK", b"{}")(connection, request)

    with Scripted(play) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 16, cap=4, connections=4)
    assert len(exchanges) == 16 and server.peak == 4 and server.connections == 4


def test_without_a_cap_all_go_at_once(tmp_path: Path) -> None:
    gate = threading.Barrier(30)

    def play(connection: socket.socket, request: Request) -> bool:
        gate.wait(20)
        return document("200 OK", b"{}")(connection, request)

    with Scripted(play) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 30, due_ns=[0] * 30)
    assert {exchange.end for exchange in exchanges} == {End.COMPLETE}
    assert server.peak == 30


def test_a_request_waits_for_its_time_and_keeps_it_when_the_cap_holds_it_back(tmp_path: Path) -> None:
    gate = threading.Event()

    def play(connection: socket.socket, request: Request) -> bool:
        if request.number == 0:
            gate.wait(20)  # the first holds the only slot until the second is long due
        return document("200 OK", b"{}")(connection, request)

    threading.Timer(0.15, gate.set).start()
    with Scripted(play) as server:
        (first, second), _, _ = drive(tmp_path, server.port, 2, cap=1, due_ns=[10_000_000, 20_000_000])
    assert first.planned_ns is not None and second.planned_ns is not None
    assert second.planned_ns - first.planned_ns == 10_000_000
    assert first.sent_ns is not None and second.sent_ns is not None
    assert first.sent_ns >= first.planned_ns
    assert second.sent_ns >= first.end_ns > second.planned_ns


def test_due_times_are_absolute(tmp_path: Path) -> None:
    """200 requests 2 ms apart: the last is due 398 ms after the first, whatever the loop spends on the way, and none is sent early."""
    due = [index * 2_000_000 for index in range(200)]
    with Scripted(document("200 OK", b"{}")) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 200, due_ns=due, connections=4)
    late = np.array([exchange.sent_ns - exchange.planned_ns for exchange in exchanges])  # type: ignore[operator]
    assert exchanges[-1].planned_ns - exchanges[0].planned_ns == 398_000_000  # type: ignore[operator]
    assert np.all(late >= 0)
    assert np.median(late) < 20_000_000  # a noisy machine may delay some; a re-based schedule would add up


def test_length_and_close_framing(tmp_path: Path) -> None:
    def play(connection: socket.socket, request: Request) -> bool:
        if request.number == 0:
            return document("200 OK", b'{"a": 1}')(connection, request)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\ndata: x\n\n")
        time.sleep(0.01)
        connection.sendall(b"data: y\n\n")
        return False

    with Scripted(play) as server:
        (first, second, third), _, _ = drive(tmp_path, server.port, 3, cap=1)
    assert [exchange.end for exchange in (first, second, third)] == [End.COMPLETE] * 3
    assert first.raw.endswith(b'{"a": 1}')
    assert second.raw.endswith(b"data: x\n\ndata: y\n\n")
    assert server.connections == 2


def test_a_payload_cannot_fake_the_end(tmp_path: Path) -> None:
    """A read that ends like a last chunk, inside a chunk."""

    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD)
        connection.sendall(b"16\r\ndata: {}\n\n0\r\n\r\n")
        time.sleep(0.05)
        connection.sendall(b"1234567\r\n")
        connection.sendall(LAST_CHUNK)
        return True

    with Scripted(play) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1)
    assert exchange.end == End.COMPLETE
    assert exchange.raw.endswith(b"0\r\n\r\n1234567\r\n0\r\n\r\n")


def test_trailers_cut_after_the_last_chunk_then_a_second_request(tmp_path: Path) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD + b"3;q=1\r\nabc\r\n0\r\n")
        time.sleep(0.02)
        connection.sendall(b"X-A: 1\r\nX-B: 2\r\n")
        time.sleep(0.02)
        connection.sendall(b"\r\n")
        return True

    with Scripted(play) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 2, cap=1)
    assert [exchange.end for exchange in exchanges] == [End.COMPLETE] * 2
    assert server.connections == 1


def test_a_server_that_says_done_and_hangs(tmp_path: Path) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD)
        for event in chat_events(WORDS):
            connection.sendall(chunk(event))
        connection.recv(1)  # until the client closes
        return False

    with Scripted(play) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 2, cap=1)
    assert [exchange.end for exchange in exchanges] == [End.OPEN_AFTER_DONE] * 2
    assert server.connections == 2


def test_a_reset_keeps_what_had_come(tmp_path: Path) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD + chunk(chat_events(WORDS)[0]))
        time.sleep(0.05)
        reset(connection)
        return False

    with Scripted(play) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1)
    assert exchange.end == End.RESET and "reset" in exchange.detail.lower()
    assert exchange.raw == STREAM_HEAD + chunk(chat_events(WORDS)[0])


def test_a_close_in_the_middle_is_no_end(tmp_path: Path) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD + b"ff\r\ndata: ")
        return False

    with Scripted(play) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1)
    assert exchange.end == End.CLOSED and exchange.raw.endswith(b"data: ")


def test_what_is_no_http_is_an_end_too(tmp_path: Path) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(b"220 smtp.example.org ready\r\n")
        connection.recv(1)
        return False

    with Scripted(play) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1)
    assert exchange.end == End.BAD_HTTP and exchange.raw.startswith(b"220 smtp")


def test_a_stale_connection_is_replaced_once(tmp_path: Path) -> None:
    """The server closes each connection after its first reply, without a word; the client finds out when it sends again."""

    def play(connection: socket.socket, request: Request) -> bool:
        if request.on_connection:
            return False  # read, then closed without a byte: as a race with an idle time-out looks
        return document("200 OK", b"{}")(connection, request)

    with Scripted(play) as server:
        exchanges, _, counters = drive(tmp_path, server.port, 4, cap=1)
    assert [exchange.end for exchange in exchanges] == [End.COMPLETE] * 4
    assert [exchange.tries for exchange in exchanges] == [1, 2, 2, 2]
    assert counters[Count.REPLACED] == 3
    assert all(exchange.sent_ns <= exchange.stamps_ns[0] for exchange in exchanges)


def test_the_news_of_a_stale_connection_may_take_its_time(tmp_path: Path) -> None:
    """As behind a proxy: the reset comes 25 ms after the request, on a connection that has carried one."""

    with Scripted(resetting(0.025, lambda request: request.on_connection)) as server:
        exchanges, _, counters = drive(tmp_path, server.port, 2, cap=1)
    assert [exchange.end for exchange in exchanges] == [End.COMPLETE] * 2 and counters[Count.REPLACED] == 1


def test_a_fresh_connection_is_not_tried_again(tmp_path: Path) -> None:
    """One that was never idle and closes without a byte is the server's failure."""
    with Scripted(lambda _connection, _request: False) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, connections=0)
        assert len(server.seen) == 1
    assert exchange.end in (End.CLOSED, End.RESET) and exchange.tries == 1


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        exchanges, _, _ = drive(tmp_path, taken.getsockname()[1], 3, cap=2, connections=2)
    assert [exchange.end for exchange in exchanges] == [End.NOT_CONNECTED] * 3
    assert "refused" in exchanges[0].detail.lower()
    assert exchanges[0].sent_ns is None


def test_a_silent_server_meets_the_request_time_out(tmp_path: Path) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        connection.recv(1)
        return False

    with Scripted(play) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, request_timeout_s=0.3)
    assert exchange.end == End.REQUEST_TIMEOUT and "--request-timeout" in exchange.detail
    assert exchange.sent_ns is not None and exchange.end_ns - exchange.sent_ns >= 300_000_000


def test_silence_in_the_middle_meets_the_idle_time_out(tmp_path: Path) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD + chunk(chat_events(WORDS)[0]))
        connection.recv(1)
        return False

    with Scripted(play) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, idle_timeout_s=0.3)
    assert exchange.end == End.IDLE_TIMEOUT and exchange.raw


def test_a_large_body_is_sent_whole(tmp_path: Path) -> None:
    """More than any socket buffer holds, to a server that takes its time."""
    body = b'{"prompt": "' + b"x" * (16 << 20) + b'"}'

    def play(connection: socket.socket, request: Request) -> bool:
        return document("200 OK", b'{"n": %d}' % len(request.body))(connection, request)

    with Scripted(play) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 2, cap=1, body=body)
        assert [request.body == body for request in server.seen] == [True, True]
    assert all(exchange.raw.endswith(b'{"n": %d}' % len(body)) for exchange in exchanges)


def test_a_refusal_in_the_middle_of_a_large_body_is_heard(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlong")
            time.sleep(0.2)
            connection.close()

        threading.Thread(target=refuse, daemon=True).start()
        (exchange,), _, _ = drive(tmp_path, listener.getsockname()[1], 1, cap=1, body=b"x" * (32 << 20))
    assert exchange.end == End.COMPLETE and exchange.raw.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("action", ["stop", "cancel"])
def test_interrupts(tmp_path: Path, action: str) -> None:
    """`stop` lets the two in flight finish; `cancel` ends them at once, with what had come. Neither sends another."""
    holder: list[Worker] = []
    gate = threading.Event()

    def play(connection: socket.socket, request: Request) -> bool:
        connection.sendall(STREAM_HEAD + chunk(chat_events(WORDS)[0]))
        if request.number == 1:
            threading.Timer(0.1, getattr(holder[0], action)).start()
            threading.Timer(0.4, gate.set).start()
        gate.wait(20)
        connection.sendall(b"".join(map(chunk, chat_events(WORDS)[1:])) + LAST_CHUNK)
        return True

    with Scripted(play) as server:
        exchanges, _, counters = drive(tmp_path, server.port, 10, cap=2, connections=2, while_running=holder.append)
    assert len(server.seen) == len(exchanges) == counters[Count.SENT] == 2
    assert {exchange.end for exchange in exchanges} == {End.COMPLETE if action == "stop" else End.CANCELLED}
    assert all(exchange.raw.startswith(STREAM_HEAD) for exchange in exchanges)


def test_ipv6(tmp_path: Path) -> None:
    try:
        server = Scripted(stream(WORDS), family=socket.AF_INET6, address="::1").__enter__()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, family=socket.AF_INET6)
    assert exchange.end == End.COMPLETE


def test_segments_of_a_run_hold_every_exchange_once(tmp_path: Path) -> None:
    with Scripted(stream(WORDS)) as server:
        exchanges, _, counters = drive(tmp_path, server.port, 40, cap=8, connections=8, segment_bytes=2000)
    assert [exchange.index for exchange in exchanges] == list(range(40))
    assert counters[Count.SEGMENT] > 3


def test_a_duration_ends_the_sending(tmp_path: Path) -> None:
    """A closed loop over a plan of three, repeated until the time is over; what was in flight then is finished."""
    with Scripted(document("200 OK", b"{}")) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 3, cap=2, connections=2, duration_ns=300_000_000, repeat=True)
    start_ns = min(exchange.sent_ns for exchange in exchanges)  # type: ignore[type-var]
    assert len(exchanges) > 3
    assert [exchange.index for exchange in exchanges] == list(range(len(exchanges)))
    assert all(exchange.end == End.COMPLETE for exchange in exchanges)
    assert all(exchange.sent_ns - start_ns < 300_000_000 for exchange in exchanges)  # type: ignore[operator]


def test_a_duration_drops_what_is_due_later(tmp_path: Path) -> None:
    with Scripted(document("200 OK", b"{}")) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 3, due_ns=[0, 50_000_000, 10**12], duration_ns=100_000_000)
    assert [exchange.index for exchange in exchanges] == [0, 1]


def test_sending_is_held_back_while_decoding_is_too_far_behind(tmp_path: Path) -> None:
    """Nobody decodes here: after the first replies have passed the limit no more is sent, until the decoder's counter says that it caught up."""
    holder: list[Worker] = []

    def catch_up() -> None:
        counters = holder[0].counters
        while counters[Count.SENT] < 4 or not holder[0]._held_since_ns:
            time.sleep(0.01)
        held_at.append(counters[Count.SENT])
        while counters[Count.SENT] < 60:
            counters[Count.DECODED_BYTES] = counters[Count.SPOOLED_BYTES]
            time.sleep(0.001)

    held_at: list[int] = []
    thread = threading.Thread(target=catch_up, daemon=True)

    def begin(worker: Worker) -> None:
        holder.append(worker)
        thread.start()

    due = [index * 10_000_000 for index in range(60)]
    with Scripted(document("200 OK", b"x" * 1000)) as server:
        exchanges, worker, _ = drive(tmp_path, server.port, 60, due_ns=due, spool_limit_bytes=5000, while_running=begin)
    thread.join(20)
    assert len(exchanges) == 60
    assert held_at[0] < 60
    assert worker.gauges.health().held_s > 0


def test_the_worker_knows_how_it_fared(tmp_path: Path) -> None:
    with Scripted(stream(WORDS, gap_s=0.002)) as server:
        _, worker, _ = drive(tmp_path, server.port, 40, due_ns=[index * 5_000_000 for index in range(40)], connections=4)
    health = worker.gauges.health()
    assert health.turns.samples > 40 and health.read_late.samples > 0 and health.send_late.samples == 40
    assert health.read_late.p50_ns is not None and 0 <= health.read_late.p50_ns < 10**9
    assert health.cpu_s > 0 and health.wall_s > 0.15


def test_a_server_that_closes_after_each_reply_costs_no_request(tmp_path: Path) -> None:
    """Without saying so: each second request finds its connection closed, and the second try needs one that is new."""
    with Scripted(lambda connection, request: document("200 OK", b"{}")(connection, request) and False) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 400, cap=8, connections=8)
    assert {exchange.end for exchange in exchanges} == {End.COMPLETE}
    assert len(server.seen) == 400


def test_a_request_that_was_taken_and_then_dropped_has_failed(tmp_path: Path) -> None:
    """The server reads it, works on it, and resets: that is its failure, and nothing is sent twice."""

    with Scripted(resetting(0.25, lambda request: request.number == 3)) as server:
        exchanges, _, counters = drive(tmp_path, server.port, 10, cap=1)
    assert len(server.seen) == 10 and counters[Count.REPLACED] == 0
    assert [exchange.end for exchange in exchanges].count(End.COMPLETE) == 9
    assert exchanges[3].end in (End.RESET, End.CLOSED)


def test_a_connection_with_an_unsent_rest_carries_no_other_request(tmp_path: Path) -> None:
    """The server answers when it has read the head, and keeps the connection: what was not sent of the body must not run into the next request."""
    listener = socket.create_server(("127.0.0.1", 0))
    heads: list[bytes] = []
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        data = connection.recv(4096)
        heads.append(data[:4])
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        over.wait(60)  # and reads no more: the rest stays unsent, however fast the machine

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    exchanges, _, _ = drive(tmp_path, listener.getsockname()[1], 3, cap=1, body=b"x" * (24 << 20), request_timeout_s=20)
    over.set()
    listener.close()
    assert [exchange.end for exchange in exchanges] == [End.COMPLETE] * 3
    assert heads == [b"POST"] * 3


def test_a_server_that_speaks_first_is_no_reply(tmp_path: Path) -> None:
    """A proxy that tells idle connections of its time-out: that connection is let go, and the request goes on another."""
    greeted: list[int] = []

    def greet(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            greeted.append(1)
            if len(greeted) <= 2:
                connection.sendall(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                connection.close()
                continue
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        if connection.recv(65536):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=greet, args=(listener,), daemon=True).start()
        exchanges, _, _ = drive(tmp_path, listener.getsockname()[1], 1, due_ns=[300_000_000], connections=2)
    assert exchanges[0].end == End.COMPLETE and exchanges[0].raw.endswith(b"ok")


def test_bytes_behind_the_end_do_not_hide_it(tmp_path: Path) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD)
        time.sleep(0.02)
        connection.sendall(b"".join(map(chunk, chat_events(WORDS))) + LAST_CHUNK + b"z" * 400)
        connection.recv(1)
        return False

    with Scripted(play) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 2, cap=1, request_timeout_s=20)
    assert [exchange.end for exchange in exchanges] == [End.COMPLETE] * 2
    assert server.connections == 2  # neither is used again


def test_an_absurd_length_ends_one_request(tmp_path: Path) -> None:
    def play(connection: socket.socket, request: Request) -> bool:
        if request.number == 2:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n{}")
            return False
        return document("200 OK", b"{}")(connection, request)

    with Scripted(play) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 6, cap=1)
    assert [exchange.end == End.COMPLETE for exchange in exchanges] == [True, True, False, True, True, True]


def test_replies_leave_nothing_in_memory(tmp_path: Path) -> None:
    """With garbage collection off, a circle of objects a reply would stay for ever."""
    from loadstone.engine.framing import Framing

    with Scripted(document("200 OK", b"{}")) as server:
        drive(tmp_path, server.port, 50, cap=2)
    assert sum(isinstance(found, Framing) and hasattr(found, "parser") for found in gc.get_objects()) == 0
