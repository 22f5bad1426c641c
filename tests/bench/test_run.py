"""Whole runs through the Python API: what is sent, what is counted, and what stays outside the measured time."""

import json
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loadstone import LoadstoneError, RunConfig, run
from loadstone.errors import NotReadyError, UsageError
from loadstone.records import read_records
from support.scripted import Request, Scripted, document, stream

WORDS = ["one", " two", " three"]


def config(server: Scripted, **fields: Any) -> RunConfig:
    chosen: dict[str, Any] = {"model": "m", "num_prompts": 5, "random_input_len": 8, "random_output_len": 3, "ready_check_timeout_sec": 5}
    return RunConfig(base_url=server.url, **(chosen | fields))


def bodies(server: Scripted) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in server.seen if request.method == "POST" and request.body]


def test_the_same_seed_sends_the_same_bodies_at_the_same_offsets() -> None:
    sent, planned = [], []
    for seed in (1, 1, 2):
        with Scripted(stream(WORDS)) as server:
            result = run(config(server, seed=seed, request_rate=500.0, num_prompts=20, random_range_ratio=0.5, ready_check_timeout_sec=0))
        order = sorted(server.seen, key=lambda request: int(request.headers["x-request-id"].removeprefix("benchmark-serving")))
        sent.append([request.body for request in order])
        planned.append((result.records.planned_ns - result.records.planned_ns[0]).tolist())
    assert sent[0] == sent[1] and planned[0] == planned[1]
    assert sent[0] != sent[2] and planned[0] != planned[2]


def test_without_a_prefix_no_x_request_id_is_sent() -> None:
    """llama-cpp-python's server answers 400, without a word, to one that is no UUID."""

    def play(connection: socket.socket, request: Request) -> bool:
        return (document("400 Bad Request", b"") if "x-request-id" in request.headers else stream(WORDS))(connection, request)

    with Scripted(play) as server:
        with pytest.raises(NotReadyError, match=r"refused the test request .*no UUID in this way: --request-id-prefix '' sends none"):
            run(config(server))
        assert run(config(server, request_id_prefix="", num_warmups=1, max_concurrency=1)).summary.completed == 5
    assert [request.headers["x-loadstone-request"] for request in server.seen[1:]] == ["-ready", "-warm-up-0", *"01234"]


def test_warm_ups_and_the_ready_check_are_not_counted() -> None:
    """Case F08: the first three requests take long; the measured five do not."""

    def play(connection: socket.socket, request: Request) -> bool:
        time.sleep(0.4 if request.number < 3 else 0.02)
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        result = run(config(server, num_warmups=2, max_concurrency=1))
    assert len(server.seen) == 8
    summary = result.summary
    assert summary.completed == summary.sent == 5
    assert summary.duration_s < 0.4
    assert (summary.distributions["ttft"].maximum or 0) < 400
    ids = [request.headers["x-request-id"] for request in server.seen]
    assert ids[:3] == ["benchmark-serving-ready", "benchmark-serving-warm-up-0", "benchmark-serving-warm-up-1"]
    assert ids[3:] == [f"benchmark-serving{index}" for index in range(5)]
    texts = {json.loads(request.body)["messages"][0]["content"] for request in server.seen[3:]}
    assert texts.isdisjoint(json.loads(request.body)["messages"][0]["content"] for request in server.seen[:3])


def test_warm_ups_shift_no_seed() -> None:
    sent = []
    for warm_ups in (0, 3):
        with Scripted(stream(WORDS)) as server:
            run(config(server, num_warmups=warm_ups, max_concurrency=1, lora_modules=["a", "b", "c"], seed=3, num_prompts=9))
        sent.append(bodies(server)[-9:])
    assert sent[0] == sent[1]
    assert {body["model"] for body in sent[0]} <= {"a", "b", "c"}


def test_lora_round_robin() -> None:
    """Case E07."""
    with Scripted(stream(WORDS)) as server:
        run(config(server, lora_modules=["a", "b", "c"], lora_assignment="round-robin", num_prompts=7, max_concurrency=1))
    assert [body["model"] for body in bodies(server)] == ["a", "a", "b", "c", "a", "b", "c", "a"]  # the ready check asks for an adapter too


def test_the_key_is_on_every_call_and_in_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case D05."""
    monkeypatch.setenv("OPENAI_API_KEY", "k-123")
    with Scripted(stream(WORDS)) as server:
        run(config(server, profile=True, num_warmups=1, header={"X-Tenant": "t 1=2"}, records=str(tmp_path / "r.jsonl")))
    assert [request.target for request in server.seen].count("/start_profile") == 1
    assert {request.headers.get("authorization") for request in server.seen} == {"Bearer k-123"}
    assert {request.headers.get("x-tenant") for request in server.seen} == {"t 1=2"}
    assert "k-123" not in (tmp_path / "r.jsonl").read_text() and "1=2" not in (tmp_path / "r.jsonl").read_text()


def test_without_a_key_there_is_no_authorization() -> None:
    with Scripted(stream(WORDS)) as server:
        run(config(server))
    assert all("authorization" not in request.headers for request in server.seen)


def test_the_profiler_runs_around_the_load_and_not_inside_it() -> None:
    with Scripted(stream(WORDS)) as server:
        result = run(config(server, profile=True, num_warmups=1))
    order = [request.target for request in server.seen]
    assert order[0] == order[1] == "/v1/chat/completions"  # ready check, warm-up
    assert order[2] == "/start_profile" and order[-1] == "/stop_profile"
    assert result.summary.completed == 5


@pytest.mark.parametrize(
    ("base", "endpoint", "path"),
    [
        ("", None, "/v1/completions"),
        ("/", None, "/v1/completions"),
        ("/team/a", None, "/team/a/v1/completions"),
        ("/team/a/", None, "/team/a/v1/completions"),
        ("/team/a", "v1/completions", "/team/a/v1/completions"),
        ("/team/a/", "/v1/completions", "/team/a/v1/completions"),
    ],
)
def test_base_urls_lose_no_part(base: str, endpoint: str | None, path: str) -> None:
    """Case D01."""
    with Scripted(document("200 OK", b'{"choices":[{"text":"x","finish_reason":"stop"}]}')) as server:
        run(RunConfig(base_url=server.url + base, endpoint=endpoint, backend="openai", model="m", num_prompts=1, random_input_len=4))
    assert {request.target for request in server.seen} == {path}


def test_all_at_once_is_all_at_once() -> None:
    """Case F01: 50 sends before the first answer."""
    gate = threading.Barrier(50)

    def play(connection: socket.socket, request: Request) -> bool:
        gate.wait(20)
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        result = run(config(server, num_prompts=50, ready_check_timeout_sec=0))
    assert server.peak == 50 and result.summary.completed == 50
    assert max(result.records.sent_ns) < min(result.records.first_token_ns)


def test_every_kind_of_failure_has_its_reason_and_ends_nothing() -> None:
    """Case G10: 20 requests, three of which fail, each in its own way."""
    broken = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: {"choices": [\n\ndata: [DONE]\n\n'
    nulls = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: {"choices": 7}\n\ndata: [DONE]\n\n'

    def play(connection: socket.socket, request: Request) -> bool:
        number = int(request.headers["x-request-id"].removeprefix("benchmark-serving"))
        if number == 4:
            return False
        if number in (7, 9):
            connection.sendall(broken if number == 7 else nulls)
            return False
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        result = run(config(server, num_prompts=20, max_concurrency=5, ready_check_timeout_sec=0))
    summary = result.summary
    assert (summary.sent, summary.completed, summary.failed) == (20, 17, 3), {k: e for k, e in enumerate(result.records.error) if e}
    assert sum(summary.failures.values()) == 3
    assert all(result.records.error[index] for index in (4, 7, 9))


def test_when_every_answer_is_a_refusal() -> None:
    """Case G03."""
    with Scripted(document("500 Internal Server Error", b'{"error": {"message": "out of memory"}}')) as server:
        result = run(config(server, num_prompts=20, ready_check_timeout_sec=0))
    assert (result.summary.completed, result.summary.failed) == (0, 20)
    assert result.summary.distributions["ttft"].mean is None
    assert "out of memory" in next(iter(result.summary.failure_examples.values()))


def test_the_model_is_the_one_that_the_server_lists() -> None:
    def play(connection: socket.socket, request: Request) -> bool:
        if request.method == "GET":
            return document("200 OK", b'{"data": [{"id": "the-model"}]}')(connection, request)
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        result = run(config(server, model=None))
    assert result.config.model == "the-model"
    assert {body["model"] for body in bodies(server)} == {"the-model"}


@pytest.mark.parametrize("listing", [b'{"data": []}', b'{"data": [{"id": "a"}, {"id": "b"}]}', b"<html>"])
def test_a_model_that_cannot_be_guessed_must_be_given(listing: bytes) -> None:
    with Scripted(document("200 OK", listing)) as server, pytest.raises(UsageError, match="--model"):
        run(config(server, model=None))


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ("401 Unauthorized", "--api-key"),
        ("404 Not Found", "--base-url"),
        ("400 Bad Request", "of the workload's kind"),
        ("422 X", "--ready-check-timeout-sec"),
    ],
)
def test_a_definite_refusal_ends_the_ready_check_at_once(status: str, says: str) -> None:
    with Scripted(document(status, b'{"error": {"message": "no such thing"}}')) as server, pytest.raises(NotReadyError) as caught:
        run(config(server, ready_check_timeout_sec=600))
    assert len(server.seen) == 1
    assert "no such thing" in str(caught.value) and says in str(caught.value) and server.url in str(caught.value)


def test_a_server_that_comes_up_late_is_waited_for() -> None:
    def play(connection: socket.socket, request: Request) -> bool:
        if request.number < 1:
            return document("503 Service Unavailable", b"loading")(connection, request)
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        assert run(config(server)).summary.completed == 5


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(NotReadyError, match=f"127.0.0.1:{port}.*refused") as caught:
            run(RunConfig(port=port, model="m", ready_check_timeout_sec=0.5, num_prompts=1))
    assert caught.value.exit_code == 3 and isinstance(caught.value, LoadstoneError)


def test_records_are_a_file_of_their_own(tmp_path: Path) -> None:
    with Scripted(stream(WORDS)) as server:
        result = run(config(server, records=str(tmp_path / "r.jsonl")))
    header, records = read_records(tmp_path / "r.jsonl")
    assert header.clock == result.clock
    assert sorted(record.request_id for record in records) == [f"benchmark-serving{index}" for index in range(5)]
    for record in records:
        assert record.text == "one two three" and record.output_tokens == 3 and record.prompt_tokens == 7
        assert record.sent_ns is not None and record.first_token_ns == record.sent_ns + record.token_ns[0]
        assert record.model == "m"


def test_several_workers_share_one_plan() -> None:
    """Every request once, the cap exact over all workers."""
    gate = threading.Barrier(6)

    def play(connection: socket.socket, request: Request) -> bool:
        gate.wait(20)
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        result = run(config(server, workers=3, num_prompts=36, max_concurrency=6, ready_check_timeout_sec=0))
    assert result.summary.completed == 36 and server.peak == 6
    counts = Counter(request.headers["x-request-id"] for request in server.seen)
    assert set(counts.values()) == {1} and len(counts) == 36


def test_a_file_limit_that_is_too_low_is_said_before_the_load() -> None:
    with pytest.raises(UsageError, match=r"connections at once.*--max-concurrency"):
        run(RunConfig(model="m", num_prompts=10**8, max_concurrency=10**8, ready_check_timeout_sec=0))


def test_a_refused_key_is_said_when_the_model_is_asked_for() -> None:
    with Scripted(document("401 Unauthorized", b"{}")) as server, pytest.raises(NotReadyError, match="--api-key"):
        run(config(server, model=None))


def test_a_header_of_the_persons_wins_over_ours_everywhere() -> None:
    with Scripted(stream(WORDS)) as server:
        run(config(server, header={"Host": "gateway.example", "User-Agent": "me"}, num_warmups=1))
    assert {request.headers["host"] for request in server.seen} == {"gateway.example"}
    assert {request.headers["user-agent"] for request in server.seen} == {"me"}


def test_more_workers_than_slots_end_all_the_same() -> None:
    with Scripted(stream(WORDS)) as server:
        result = run(config(server, workers=4, max_concurrency=3, num_prompts=20, num_warmups=1))
    assert result.summary.completed == 20


def test_bytes_that_came_before_the_request_are_no_answer_to_it() -> None:
    """A server that says everything twice: the second saying must never pass as the next request's reply."""

    def play(connection: socket.socket, request: Request) -> bool:
        stream(WORDS)(connection, request)
        time.sleep(0.0002)
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        result = run(config(server, num_prompts=300, max_concurrency=4, ready_check_timeout_sec=0))
    known = result.records.first_token_ns > 0
    assert (
        (result.records.first_token_ns - result.records.sent_ns)[known & result.records.completed] > -2_000
    ).all()  # as near as two clocks can be compared
    assert result.summary.completed + result.summary.failed == 300
    assert set(result.summary.failures) <= {"stray bytes"}
