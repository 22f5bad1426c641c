"""One generation on its way out: what the engine makes of it becomes bytes, and when they left becomes truth."""

import time
from collections.abc import Callable

from loadstone.simulator.asking import ApiError, Asked
from loadstone.simulator.batching import Engine, Sequence
from loadstone.simulator.chances import ERROR_EVENT, RESET, STALL, TRUNCATE, Fate
from loadstone.simulator.connection import Connection
from loadstone.simulator.events import EventWriter
from loadstone.simulator.truth import CANCELLED, COMPLETED, Row

Finish = Callable[["Reply", str], None]


class Reply:
    """A reply under way. It ends exactly once, in `_end`, with its outcome."""

    def __init__(
        self,
        connection: Connection,
        sequence: Sequence,
        engine: Engine,
        asked: Asked,
        fate: Fate,
        writer: EventWriter,
        finish: Finish,
        *,
        request_id: str,
        read_ns: int,
        arrived_ns: int | None,
        keep_alive: bool,
        epoch: int,
    ) -> None:
        self.request_id, self.read_ns, self.arrived_ns, self.epoch = request_id, read_ns, arrived_ns, epoch
        self.sends_ns: list[int] = []
        self.tokens_sent = 0
        self._body_sent_ns: int | None = None
        self._connection, self._sequence, self._engine = connection, sequence, engine
        self._asked, self._fate, self._writer, self._finish = asked, fate, writer, finish
        self._keep_alive = keep_alive
        self._events = 0
        self._fault_event = fate.fault_event if fate.fault in (RESET, TRUNCATE, ERROR_EVENT) else -1
        self._ended = False

    def row(self, outcome: str) -> Row:
        last_ns = self.sends_ns[-1] if self.sends_ns else self._body_sent_ns
        return Row(
            id=self.request_id,
            read_ns=self.read_ns,
            arrived_ns=self.arrived_ns,
            first_ns=self.sends_ns[0] if self.sends_ns else None,
            last_ns=last_ns,
            tokens=self.tokens_sent,
            outcome=outcome,
            stream=self._asked.stream,
            stalled=self._fate.fault == STALL,
        )

    def open(self) -> None:
        """The head of a stream goes out as soon as the request has been read."""
        if self._asked.stream:
            self._connection.send(self._writer.opening(self._keep_alive))

    def step(self) -> None:
        """The engine gave tokens."""
        sequence = self._sequence
        if self._ended:
            return
        if self._events == self._fault_event:
            self._fail()
            return
        self._events += 1
        finished = sequence.made >= sequence.output_tokens
        if self._asked.stream:
            first = sequence.made - sequence.fresh
            self.tokens_sent += sequence.fresh
            self._connection.send(self._writer.tokens(first, sequence.fresh, finished), self._stamp)
            if finished and not self._ended:
                self._writer.cached_tokens = sequence.cached_tokens
                self._connection.send(self._writer.closing(), self._complete)
        elif finished:
            self._writer.cached_tokens = sequence.cached_tokens
            self._send_document(200, self._writer.document())

    def abandon(self) -> None:
        """The client has gone."""
        self._end(CANCELLED)

    def _stamp(self) -> None:
        self.sends_ns.append(time.monotonic_ns())

    def _complete(self) -> None:
        self._end(COMPLETED)
        self._connection.served(self._keep_alive)

    def _send_document(self, status: int, body: bytes) -> None:
        self._connection.send(json_response(status, body, self._keep_alive), self._document_sent)

    def _document_sent(self) -> None:
        self._body_sent_ns = time.monotonic_ns()
        self.tokens_sent = self._sequence.made
        self._complete()

    def _fail(self) -> None:
        """The error that this request was drawn for, in place of a token event (or of the whole document)."""
        fault = self._fate.fault or ""
        connection, keep_alive, stream = self._connection, self._keep_alive, self._asked.stream
        self._end(fault)
        if fault == RESET:
            connection.reset()
        elif fault == ERROR_EVENT:
            error = ApiError(500, "The simulated engine failed, as it was asked to.").body()
            connection.send(self._writer.failure(error) if stream else json_response(500, error, keep_alive), lambda: connection.served(keep_alive))
        else:
            if not stream:  # a body cut short: the length promises more
                whole = json_response(200, self._writer.document(), keep_alive)
                connection.send(whole[: len(whole) - 20])
            connection.drop_when_sent()

    def _end(self, outcome: str) -> None:
        if self._ended:
            return
        self._ended = True
        self._engine.cancel(self._sequence)
        self._sequence.owner = None  # it points back here
        self._finish(self, outcome)


_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed", 413: "Content Too Large"} | {
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


def json_response(status: int, body: bytes, keep_alive: bool, headers: dict[str, str] | None = None) -> bytes:
    """A whole HTTP response. Bodies are JSON; an empty one has no type."""
    lines = [f"HTTP/1.1 {status} {_REASONS[status]}", f"content-length: {len(body)}"]
    if body:
        lines.append("content-type: application/json")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if not keep_alive:
        lines.append("connection: close")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
