"""TLS by memory buffers: the same bytes, the same stamps, and certificates that are really checked."""

import socket
import ssl
import time
from pathlib import Path

import pytest

from loadstone.engine.ends import End
from loadstone.engine.settings import Tls
from support.scripted import LAST_CHUNK, STREAM_HEAD, Request, Scripted, chat_events, chunk, stream
from support.worker import drive

SUPPORT = Path(__file__).parent.parent / "support"
CERTIFICATE = str(SUPPORT / "tls-cert.pem")
WORDS = ["Salt", " and", " pepper"]


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, str(SUPPORT / "tls-key.pem"))
    return context


@pytest.mark.parametrize("clock", ["auto", "user"])
def test_a_stream_over_tls(tmp_path: Path, clock: str) -> None:
    sends: list[int] = []

    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD)
        for event in chat_events(WORDS):
            time.sleep(0.01)
            sends.append(time.monotonic_ns())
            connection.sendall(chunk(event))
        connection.sendall(LAST_CHUNK)
        return True

    with Scripted(play, tls=server_context()) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 3, cap=1, clock=clock, tls=Tls(server_name="localhost", ca_file=CERTIFICATE))
    assert [exchange.end for exchange in exchanges] == [End.COMPLETE] * 3
    assert server.connections == 1
    for number, exchange in enumerate(exchanges):
        assert exchange.raw == STREAM_HEAD + b"".join(map(chunk, chat_events(WORDS))) + LAST_CHUNK
        first = exchange.raw.index(b"data:")
        stamp = int(exchange.stamps_ns[(exchange.read_ends > first).argmax()])
        assert sends[number * 5] - 50_000 <= stamp < sends[number * 5 + 1] + 50_000  # before the second event was sent


def test_large_bodies_both_ways(tmp_path: Path) -> None:
    body = b"x" * (3 << 20)

    def play(connection: socket.socket, request: Request) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(request.body), request.body))
        return True

    with Scripted(play, tls=server_context()) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 2, cap=1, body=body, tls=Tls(server_name="localhost", ca_file=CERTIFICATE))
    assert all(exchange.raw.endswith(b"\r\n\r\n" + body) for exchange in exchanges)


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    with Scripted(stream(WORDS), tls=server_context()) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, tls=Tls(server_name="localhost"))
    assert exchange.end == End.NOT_CONNECTED and "certificate" in exchange.detail
    assert not server.seen


def test_a_certificate_of_another_host(tmp_path: Path) -> None:
    with Scripted(stream(WORDS), tls=server_context()) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, tls=Tls(server_name="example.org", ca_file=CERTIFICATE))
    assert exchange.end == End.NOT_CONNECTED and "example.org" in exchange.detail


def test_unchecked_on_demand(tmp_path: Path) -> None:
    with Scripted(stream(WORDS), tls=server_context()) as server:
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, tls=Tls(server_name="example.org", verify=False))
    assert exchange.end == End.COMPLETE


def test_a_server_that_speaks_no_tls(tmp_path: Path) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        return False

    with Scripted(play) as server:
        server_tls = Tls(server_name="localhost", verify=False)
        # the plain server waits for a head that never comes: end it from this side by the time-out for connecting
        (exchange,), _, _ = drive(tmp_path, server.port, 1, cap=1, tls=server_tls, connections=0, connect_timeout_s=0.3)
    assert exchange.end in (End.CONNECT_TIMEOUT, End.NOT_CONNECTED)
