"""Replies of any API as records: each piece of a body is a read of its own, i of them at 10 + i nanoseconds after the request."""

import json
import socket
from collections.abc import Callable
from typing import Any

import numpy as np

from loadstone.backends import get
from loadstone.decode.reply import decode
from loadstone.engine.exchange import End, Exchange
from loadstone.records import Record
from support.scripted import LAST_CHUNK, STREAM_HEAD, Request, chunk, document


def record(backend: str, *pieces: bytes, end: End = End.COMPLETE, status: str = "200 OK", template: str | None = None, **how: Any) -> Record:
    """The record of a reply whose body ends with its connection: piece i is read at 11 + i, the head at 10."""
    reads = (f"HTTP/1.1 {status}\r\nContent-Type: text/event-stream\r\n\r\n".encode(), *pieces)
    exchange = Exchange(
        index=0,
        worker=0,
        planned_ns=None,
        sent_ns=0,
        end_ns=99,
        end=end,
        detail="",
        raw=b"".join(reads),
        stamps_ns=np.arange(10, 10 + len(reads), dtype=np.int64),
        read_ends=np.cumsum([len(read) for read in reads]).astype(np.int64),
    )
    return decode(exchange, get(backend, template), **how)


def typed(*messages: dict[str, Any], names: bool = True) -> list[bytes]:
    """Events whose type stands in their data, and as their name if `names`."""
    return [(f"event: {message['type']}\n" if names else "").encode() + b"data: " + json.dumps(message).encode() + b"\n\n" for message in messages]


def plays(events: list[bytes], whole: dict[str, Any]) -> Callable[[socket.socket, Request], bool]:
    """A script that streams `events` to who asks for a stream, and else answers with `whole`."""

    def play(connection: socket.socket, request: Request) -> bool:
        asked = b'"stream":true' in request.body or b'name="stream"\r\n\r\ntrue' in request.body or "stream" in request.target
        if not asked:
            return document("200 OK", json.dumps(whole).encode())(connection, request)
        connection.sendall(STREAM_HEAD)
        for event in events:
            connection.sendall(chunk(event))
        connection.sendall(LAST_CHUNK)
        return True

    return play
