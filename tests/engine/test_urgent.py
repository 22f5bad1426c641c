"""Bytes out of band: a read ends before one, and what stands behind it must be read all the same."""

import socket
import time
from pathlib import Path

import pytest

from loadstone.decode.http import read_reply
from loadstone.engine.ends import End
from support.scripted import LAST_CHUNK, STREAM_HEAD, Request, Scripted, chunk
from support.worker import drive


@pytest.mark.parametrize("clock", ["auto", "user"])
@pytest.mark.parametrize("pause_s", [0.0, 0.02])
def test_a_byte_out_of_band_holds_nothing_up(tmp_path: Path, clock: str, pause_s: float) -> None:
    def play(connection: socket.socket, _request: Request) -> bool:
        connection.sendall(STREAM_HEAD + chunk(b"data: a\n\n"))
        time.sleep(pause_s)
        connection.send(chunk(b"data: b\n\n") + b"!", socket.MSG_OOB)
        time.sleep(pause_s)
        connection.sendall(chunk(b"data: c\n\n") + LAST_CHUNK)
        return True

    with Scripted(play) as server:
        exchanges, _, _ = drive(tmp_path, server.port, 20, cap=2, connections=2, clock=clock, request_timeout_s=5)
    assert [each.end for each in exchanges] == [End.COMPLETE] * 20
    assert {read_reply(each).body for each in exchanges} == {b"data: a\n\ndata: b\n\ndata: c\n\n"}
