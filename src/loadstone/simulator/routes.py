"""What each path of the server does."""

import hmac
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import msgspec

from loadstone.simulator.asking import ApiError, generation, tokenized
from loadstone.simulator.batching import NEVER, Engine, Sequence
from loadstone.simulator.chances import ERROR, STALL, fate
from loadstone.simulator.connection import Connection, HttpRequest
from loadstone.simulator.events import EventWriter
from loadstone.simulator.options import SimulatorOptions
from loadstone.simulator.reply import Reply, json_response
from loadstone.simulator.truth import Row, Truth

OPEN = ("/health", "/truth", "/truth/reset")  # need no key


class Routes:
    def __init__(self, options: SimulatorOptions, engine: Engine, truth: Truth) -> None:
        self._options, self._engine, self._truth = options, engine, truth
        self._number = 0  # generations so far
        self._created_s = int(time.time())
        self._simple: dict[tuple[str, str], Callable[[HttpRequest], bytes]] = {
            ("GET", "/health"): lambda _: b"",
            ("GET", "/v1/models"): lambda _: self._models(),
            ("POST", "/tokenize"): lambda request: tokenized(request.body, options),
            ("POST", "/start_profile"): lambda _: self._profile(1, 0),
            ("POST", "/stop_profile"): lambda _: self._profile(0, 1),
            ("GET", "/truth"): lambda request: msgspec.json.encode(self.truth_document(parse_qs(request.query).get("requests", ["0"])[-1] != "0")),
            ("POST", "/truth/reset"): lambda _: self._reset(),
        }
        self._generations = {"/v1/chat/completions": True, "/v1/completions": False}

    def handle(self, connection: Connection, request: HttpRequest) -> None:
        try:
            if request.refusal:
                raise ApiError(request.refusal, request.detail)
            self._check_key(request)
            if request.method == "POST" and request.path in self._generations:
                self._generate(connection, request, self._generations[request.path])
                return
            answer = self._simple.get((request.method, request.path))
            if answer is None:
                raise self._no_such(request)
            self._answer(connection, request, 200, answer(request))
        except ApiError as error:
            self._truth.refuse(error.status)
            self._answer(connection, request, error.status, error.body(), error.headers)

    def truth_document(self, with_requests: bool = False) -> dict[str, Any]:
        engine = self._engine
        counts = {"running": engine.running, "waiting": engine.waiting, "peak_running": engine.peak_running}
        return self._truth.document({**counts, "peak_waiting": engine.peak_waiting, "steps": engine.steps}, with_requests)

    def _generate(self, connection: Connection, request: HttpRequest, chat: bool) -> None:
        asked = generation(request.body, chat, self._options)
        number, self._number = self._number, self._number + 1
        fated = fate(number, asked, self._options)
        request_id = request.headers.get("x-request-id") or f"simulated-{number}"
        epoch = self._truth.receive(asked.prompt_tokens)
        if fated.fault == ERROR:
            row = Row(id=request_id, read_ns=request.read_ns, first_ns=None, last_ns=None, tokens=0, outcome=ERROR, stream=asked.stream)
            self._truth.finish(row, [], 1, epoch)
            error = ApiError(503, "The simulated server is overloaded, as it was asked to be.")
            self._answer(connection, request, 503, error.body(), {"retry-after": "1"})
            return
        stalls = fated.fault == STALL
        sequence = Sequence(
            asked.prompt_tokens,
            fated.length,
            stall_at=fated.fault_event * self._options.tokens_per_event if stalls else NEVER,
            stall_ns=round(self._options.stall_s * 1e9),
            blocks=asked.blocks,
        )
        writer = EventWriter(request_id, self._created_s, request.read_ns, asked, fated, self._options)
        reply = Reply(
            connection,
            sequence,
            self._engine,
            asked,
            fated,
            writer,
            self._finished,
            request_id=request_id,
            read_ns=request.read_ns,
            arrived_ns=request.arrived_ns,
            keep_alive=request.keep_alive,
            epoch=epoch,
        )
        sequence.owner = connection.reply = reply
        self._engine.submit(sequence)
        if self._engine.idle:
            self._engine.begin(request.read_ns)
        reply.open()

    def _finished(self, reply: Reply, outcome: str) -> None:
        self._truth.finish(reply.row(outcome), reply.sends_ns, self._options.tokens_per_event, reply.epoch)

    def _check_key(self, request: HttpRequest) -> None:
        key = self._options.api_key
        if key is None or request.path in OPEN:
            return
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode("latin-1", "replace"), f"Bearer {key}".encode()):
            raise ApiError(401, "Incorrect API key provided. Send it as `Authorization: Bearer KEY`.")

    def _no_such(self, request: HttpRequest) -> ApiError:
        known = {path for _, path in self._simple} | set(self._generations)
        if request.path in known:
            return ApiError(405, f"{request.path} does not take {request.method}.")
        return ApiError(404, f"There is no {request.path} here. Paths: {', '.join(sorted(known))}.")

    @staticmethod
    def _answer(connection: Connection, request: HttpRequest, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        response = json_response(status, body, request.keep_alive, headers)
        connection.send(response[: len(response) - len(body)] if request.method == "HEAD" else response)
        if connection.open and not request.keep_alive:
            connection.served(False)

    def _models(self) -> bytes:
        model = self._options.model
        card = {"id": model, "object": "model", "created": self._created_s, "owned_by": "loadstone", "root": model, "parent": None}
        return msgspec.json.encode({"object": "list", "data": [{**card, "max_model_len": self._options.model_len}]})

    def _profile(self, starts: int, stops: int) -> bytes:
        self._truth.profile_starts += starts
        self._truth.profile_stops += stops
        return b""

    def _reset(self) -> bytes:
        self._truth.reset()
        self._engine.peak_running, self._engine.peak_waiting = self._engine.running, self._engine.waiting
        self._engine.steps = 0
        return b""
