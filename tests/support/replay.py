"""Plays a case of tests/cases on a loopback port, and knows when each of its writes really went out."""

import base64
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

from support.scripted import LAST_CHUNK, Request, Scripted, chunk, reset

CASES = Path(__file__).parent.parent / "cases"


def cases() -> list[dict[str, Any]]:
    """Every case, by name."""
    return [json.loads(path.read_text()) for path in sorted(CASES.glob("*.json"))]


def data_of(write: dict[str, Any]) -> bytes:
    data = base64.b64decode(write["b64"]) if "b64" in write else write["text"].encode()
    return data * int(write.get("repeat", 1))


class Replay(Scripted):
    """A Scripted server for one case. `sends[k]` are the writes of the k-th reply: (planned ms since the request was read, CLOCK_MONOTONIC)."""

    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__(self._play)
        self._replies = [case, *case.get("then", [])]
        self._next = 0
        self.sends: list[list[tuple[float, int]]] = []
        self._order = threading.Lock()

    def _play(self, connection: socket.socket, request: Request) -> bool:
        with self._order:
            place = self._next
            while self._replies[place].get("when") == "reused-connection" and not request.on_connection and place < len(self._replies) - 1:
                place += 1
            self._next = min(place + 1, len(self._replies) - 1)
            log: list[tuple[float, int]] = []
            self.sends.append(log)
        reply = self._replies[place]
        framing, writes = reply.get("framing", "chunked"), reply["writes"]
        if reply["http_status"]:
            headers = dict(reply["headers"])
            if framing == "chunked":
                headers["Transfer-Encoding"] = "chunked"
            elif framing == "length":
                headers["Content-Length"] = str(sum(len(data_of(write)) for write in writes))
            elif framing == "close":
                headers["Connection"] = "close"
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            connection.sendall(f"HTTP/1.1 {reply['http_status']} X\r\n{lines}\r\n".encode())
        planned_ms = 0.0
        for write in writes:
            planned_ms += write["after_ms"]
            wait_s = request.read_ns / 1e9 + planned_ms / 1e3 - time.monotonic()
            time.sleep(max(wait_s, 0))
            log.append((planned_ms, time.monotonic_ns()))
            connection.sendall(chunk(data_of(write)) if framing == "chunked" else data_of(write))
        if reply["close"] == "reset":
            time.sleep(0.02)
            reset(connection)
            return False
        if reply["close"] == "hang":
            connection.recv(1)  # until the client has had enough
            return False
        if framing == "chunked":
            connection.sendall(LAST_CHUNK)
        if framing == "raw":
            return bool(writes) and data_of(writes[-1]).endswith(b"\r\n\r\n")
        return framing != "close"

    def real_ns(self, planned_ms: float, reply: int = 0) -> int:
        """When the write that was planned for `planned_ms` really went out."""
        return dict(self.sends[reply])[planned_ms]
