"""Whole runs over several servers: who is asked what, whose the numbers are, and what is said when one of them is not as the others."""

import json
import socket
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadstone import RunConfig, run
from loadstone.bench.redecode import redecode
from loadstone.bench.run import with_model
from loadstone.errors import NotReadyError, UsageError
from loadstone.records import read_records
from loadstone.report.result_file import result_document
from support.replay import Replay, cases
from support.scripted import Request, Scripted, document, reset, stream

WORDS = ["one", " two", " three"]


def config(servers: list[Scripted], **fields: Any) -> RunConfig:
    chosen: dict[str, Any] = {"model": "m", "num_prompts": 9, "random_input_len": 8, "random_output_len": 3, "ready_check_timeout_sec": 0}
    return RunConfig(base_url=[server.url for server in servers], **(chosen | fields))


def two(stack: ExitStack, *scripts: Any) -> list[Scripted]:
    return [stack.enter_context(Scripted(script)) for script in scripts or (stream(WORDS), stream(WORDS))]


def numbers(server: Scripted) -> list[int]:
    return sorted(int(request.headers["x-request-id"].removeprefix("benchmark-serving")) for request in server.seen)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("load", [{"max_concurrency": 4}, {"request_rate": 500.0}])
def test_round_robin_is_exact_for_any_number_of_workers(workers: int, load: dict[str, Any]) -> None:
    with ExitStack() as stack:
        servers = two(stack)
        result = run(config(servers, workers=workers, **load))
    assert [numbers(server) for server in servers] == [[0, 2, 4, 6, 8], [1, 3, 5, 7]]
    assert [url.rstrip("/") for url in result.records.target] == [servers[index % 2].url for index in range(9)]
    assert [each.completed for each in result.summary.servers] == [5, 4]


def test_all_are_asked_before_and_after() -> None:
    """Ready check, warm-ups and profiler go to each."""
    with ExitStack() as stack:
        servers = two(stack)
        run(config(servers, ready_check_timeout_sec=5, num_warmups=2, profile=True, num_prompts=2))
    for number, server in enumerate(servers):
        ids = [request.headers.get("x-request-id") for request in server.seen]
        assert ids[0] == "benchmark-serving-ready"
        assert sorted(map(str, ids[1:3])) == [f"benchmark-serving-warm-up-{number}", f"benchmark-serving-warm-up-{number + 2}"]
        assert [request.target for request in server.seen[3:]] == ["/start_profile", "/v1/chat/completions", "/stop_profile"]


def test_one_that_is_not_ready_is_named() -> None:
    with Scripted(stream(WORDS)) as server, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.close()
        with pytest.raises(NotReadyError, match=f"127.0.0.1:{port}/v1/chat/completions was not ready within 0.1 s"):
            run(RunConfig(model="m", ip_list=(f"127.0.0.1:{server.port}", f"127.0.0.1:{port}"), ready_check_timeout_sec=0.1))


def test_a_profiler_that_does_not_start_is_stopped_on_the_others() -> None:
    def refuses(connection: socket.socket, request: Request) -> bool:
        return (document("404 No", b"") if "profile" in request.target else stream(WORDS))(connection, request)

    with ExitStack() as stack:
        servers = two(stack, stream(WORDS), refuses)
        with pytest.raises(NotReadyError, match=f"the server {servers[1].url}.* did not start its profiler"):
            run(config(servers, profile=True))
    assert [request.target for request in servers[0].seen] == ["/start_profile", "/stop_profile"]


def models(*names: str) -> Any:
    return document("200 OK", json.dumps({"data": [{"id": name} for name in names]}).encode())


def test_the_model_is_the_one_that_all_list() -> None:
    with ExitStack() as stack:
        same, other = two(stack, models("a"), models("a")), two(stack, models("a"), models("b"))
        assert with_model(config(same, model=None), print).model == "a"
        with pytest.raises(UsageError, match=rf"different models: {other[0].url}.* lists 'a' and {other[1].url}.* lists 'b'"):
            with_model(config(other, model=None), print)


def test_each_server_gets_the_credentials_of_its_own_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ExitStack() as stack:
        servers = two(stack)
        urls = [f"http://{name}:pw@127.0.0.1:{server.port}" for name, server in zip("ab", servers, strict=True)]
        result = run(msgspec.structs.replace(config(servers), base_url=urls))
    assert [{request.headers["authorization"] for request in server.seen} for server in servers] == [{"Basic YTpwdw=="}, {"Basic Yjpwdw=="}]
    assert "pw@" not in json.dumps(result_document(result.summary, result.records, result.config, date=result.started), default=str)


def test_a_server_that_dies_fails_its_own_requests_and_the_others_go_on() -> None:
    def dies(connection: socket.socket, request: Request) -> bool:
        if request.number < 2:
            return stream(WORDS)(connection, request)
        reset(connection)
        return False

    with ExitStack() as stack:
        servers = two(stack, dies, stream(WORDS))
        result = run(config(servers, max_concurrency=1, num_prompts=10))
    first, second = result.summary.servers
    assert (first.sent, first.completed, first.failed) == (5, 2, 3) and (second.sent, second.completed, second.failed) == (5, 5, 0)
    assert first.completed + second.completed == result.summary.completed == 7
    assert first.request_throughput + second.request_throughput == pytest.approx(result.summary.request_throughput)
    assert servers[0].url in result.summary.failure_examples["reset"]


def test_a_kept_run_gives_the_same_again(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = two(stack, document("503 No", b"busy", b"Retry-After: 0\r\n"), stream(WORDS))
        asked = config(servers, keep_wire=str(tmp_path / "kept"), retries=1, max_concurrency=2, num_prompts=6)
        result = run(asked)
    (tmp_path / "scratch").mkdir()
    again = redecode(tmp_path / "kept", tmp_path / "scratch", {})
    assert again.summary.servers == result.summary.servers and again.summary.retries == result.summary.retries
    assert [each.retried for each in result.summary.servers] == [{"http 503": 3}, {}] and result.summary.completed == 6
    shown = result_document(again.summary, again.records, again.config, date=again.started)
    assert [(each["url"], each["completed"]) for each in shown["servers"]] == [(each.url, each.completed) for each in result.summary.servers]
    assert shown["attempts"] == 9 and shown["retried"] == {"http 503": 3}


C03 = next(case for case in cases() if case["id"] == "C03-429-retry-after")


def test_case_c03_with_retries(tmp_path: Path) -> None:
    """A 429 that asks for 2 s: the request is answered at the second try, and its times are from the first. Without retries: test_cases.py."""
    with Replay(C03) as server:
        fields: dict[str, Any] = {"model": "m", "num_prompts": 1, "random_input_len": 8, "ready_check_timeout_sec": 0}
        result = run(RunConfig(port=server.port, retries=1, records=str(tmp_path / "r"), **fields))
    wanted = C03["expect"]["alternatives"]["retry switched on"]
    assert result.summary.completed == 1 and len(server.seen) == wanted["requests_seen"]
    assert server.seen[1].read_ns - server.seen[0].read_ns >= 2_000_000_000
    e2el, ttft = result.summary.distributions["e2el"].minimum, result.summary.distributions["ttft"].minimum
    assert e2el is not None and ttft is not None and e2el >= ttft >= wanted["e2el_ms_min"]
    assert result.summary.retries.attempts == 2 and result.summary.retries.reasons == {"http 429": 1}
    (record,) = read_records(tmp_path / "r")[1]
    assert record.attempts == 2 and [(each.server, each.reason) for each in record.retried] == [(0, "http 429")]
    assert record.retried[0].began_ns == record.sent_ns and record.output_tokens == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_exhausted_retries_report_the_last_error_and_hold_the_cap(workers: int) -> None:
    lock, seen, in_flight, peak = threading.Lock(), Counter[str](), set[str](), [0]

    def refuses(connection: socket.socket, request: Request) -> bool:
        key = request.headers["x-request-id"]
        with lock:
            seen[key] += 1
            in_flight.add(key)  # from its first try on, until its last has been answered: whatever it does in between, it has the slot
            peak[0] = max(peak[0], len(in_flight))
            last = seen[key] == 3
            if last:
                in_flight.remove(key)
        return document("503 No", b"busy" if last else b"early", b"Retry-After: 0.05\r\n")(connection, request)

    with Scripted(refuses) as server:
        result = run(config([server], retries=2, max_concurrency=2, workers=workers, num_prompts=6))
    assert set(seen.values()) == {3} and peak[0] == 2
    assert result.summary.failures == {"http 503": 6} and result.summary.retries.reasons == {"http 503": 12}
    assert "busy (after 3 attempts)" in result.summary.failure_examples["http 503"]
    assert result.records.attempts.tolist() == [3] * 6


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"base_url": ["http://h:80", "http://h/"]}, "--base-url names the server http://h:80 twice"),
        ({"ip_list": ("a:1", "a:1")}, "--ip-list names the server http://a:1 twice"),
        ({"ip_list": ("a:1",), "base_url": "http://b"}, "--ip-list and --base-url both name the servers"),
        ({"ip_list": ("a",)}, "--ip-list 'a' must be host:port"),
        ({"ip_list": ("http://a:1",)}, "must be host:port"),
        ({"ip_list": ("a:1", "b:2"), "uds": "/tmp/s"}, "--uds leads to one server"),
        ({"balance": "random"}, "--balance must be one of round-robin, least-loaded"),
        ({"retries": -1}, "--retries must be at least 0"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        RunConfig(**fields).validated()


def test_an_ip_list_may_hold_ipv6() -> None:
    assert [target.authority for target in RunConfig(ip_list=("[::1]:8000", "h:1")).validated().targets()] == ["[::1]:8000", "h:1"]
