"""The server as clients see it: every path, every refusal, every form of reply."""

import contextlib
import gc
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from loadstone.simulator import Simulated, running
from loadstone.simulator.batching import Sequence
from loadstone.simulator.connection import Connection
from loadstone.simulator.options import SimulatorOptions
from loadstone.simulator.reply import Reply
from loadstone.simulator.server import Server

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


@pytest.fixture(scope="module")
def server() -> Iterator[Simulated]:
    with running(step_us=1000, max_model_len=500) as simulated:
        yield simulated


def ask(server: Simulated, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    connection.request(method, path, sent, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content


def events(content: bytes) -> list[dict[str, Any]]:
    """The JSON events of a stream that ends properly."""
    *parts, done, rest = content.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    return [json.loads(part.removeprefix(b"data: ")) for part in parts]


def stream(server: Simulated, path: str = CHAT, **fields: Any) -> list[dict[str, Any]]:
    prompt: dict[str, Any] = {"messages": [{"role": "user", "content": "one two three"}]} if path == CHAT else {"prompt": "one two three"}
    status, headers, content = ask(server, "POST", path, {"model": "simulated", **prompt, "stream": True, **fields})
    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    assert headers["content-type"].startswith("text/event-stream")
    return events(content)


def test_chat_stream(server: Simulated) -> None:
    role, *tokens, usage = stream(server, max_tokens=5, stream_options={"include_usage": True})
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [list(event["choices"][0]["delta"]) for event in tokens] == [["content"]] * 5
    assert [event["choices"][0]["finish_reason"] for event in tokens] == [None] * 4 + ["length"]
    assert all(event["object"] == "chat.completion.chunk" and event["model"] == "simulated" for event in tokens)
    assert usage["choices"] == []
    expected = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8, "prompt_tokens_details": {"cached_tokens": 0}}
    assert usage["usage"] == expected
    assert len("".join(event["choices"][0]["delta"]["content"] for event in tokens).split()) == 5


def test_completions_stream(server: Simulated) -> None:
    tokens = stream(server, TEXT, max_tokens=3)
    assert len(tokens) == 3
    assert [event["choices"][0]["finish_reason"] for event in tokens] == [None, None, "length"]
    assert all(event["choices"][0]["text"].strip() and event["object"] == "text_completion" and "usage" not in event for event in tokens)


def test_running_usage(server: Simulated) -> None:
    said = stream(server, max_tokens=3, stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert [event["usage"]["completion_tokens"] for event in said] == [0, 1, 2, 3, 3]


def test_a_reply_without_a_limit_stops_by_itself_on_an_event_of_its_own(server: Simulated) -> None:
    for path, tokens in ((CHAT, 128 + 1), (TEXT, 128)):
        *said, stop = stream(server, path)
        assert len(said) == tokens
        assert {event["choices"][0]["finish_reason"] for event in said} == {None}
        assert stop["choices"][0]["finish_reason"] == "stop"
        assert not stop["choices"][0].get("delta") and not stop["choices"][0].get("text")


def test_max_completion_tokens_goes_before_max_tokens(server: Simulated) -> None:
    assert len(stream(server, max_tokens=9, max_completion_tokens=2)) == 1 + 2


@pytest.mark.parametrize(
    ("path", "content"), [(CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a b"}]}]}), (TEXT, {"prompt": [7, 8]})]
)
def test_whole_replies(server: Simulated, path: str, content: dict[str, Any]) -> None:
    status, headers, body = ask(server, "POST", path, {**content, "max_tokens": 4, "logprobs": 1, "temperature": 0})
    document = json.loads(body)
    choice = document["choices"][0]
    text = choice["message"]["content"] if path == CHAT else choice["text"]
    assert (status, headers["content-type"], choice["finish_reason"], len(text.split())) == (200, "application/json", "length", 4)
    assert (document["usage"]["prompt_tokens"], document["usage"]["completion_tokens"], document["usage"]["total_tokens"]) == (2, 4, 6)


def test_other_paths(server: Simulated) -> None:
    assert ask(server, "GET", "/health")[0] == 200
    models = json.loads(ask(server, "GET", "/v1/models")[2])
    assert [(card["id"], card["max_model_len"]) for card in models["data"]] == [("simulated", 500)]
    tokens = json.loads(ask(server, "POST", "/tokenize", {"prompt": "to be or not to be"})[2])
    assert (tokens["count"], tokens["max_model_len"]) == (6, 500)
    assert tokens["tokens"][:2] == tokens["tokens"][4:]
    assert (
        json.loads(ask(server, "POST", "/tokenize", {"messages": [{"role": "user", "content": "a b"}, {"role": "user", "content": "c"}]})[2])["count"]
        == 3
    )
    server.reset()
    assert [ask(server, "POST", path)[0] for path in ("/start_profile", "/stop_profile", "/stop_profile")] == [200, 200, 200]
    truth = server.truth()
    assert (truth["profile_starts"], truth["profile_stops"]) == (1, 2)


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "a"}], **fields}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "/v2/models", None, 404, "There is no /v2/models here"),
        ("GET", CHAT, None, 405, "does not take GET"),
        ("POST", CHAT, chat(model="x"), 404, "The model `x` does not exist."),
        ("POST", "/tokenize", {"prompt": "a", "model": "x"}, 404, "The model `x` does not exist."),
        ("POST", "/tokenize", {}, 400, "either `prompt` or `messages`"),
        ("POST", CHAT, b'{"messages": [', 400, "cannot be read"),
        ("POST", CHAT, b"\xff\xfe", 400, "cannot be read"),
        ("POST", CHAT, b"[" * 100_000, 400, "cannot be read"),
        ("POST", CHAT, {"model": "simulated"}, 400, "messages"),
        ("POST", TEXT, {"prompt": ["a", "b"]}, 400, "one prompt a request"),
        ("POST", TEXT, {"prompt": "a", "echo": True}, 400, "echo"),
        ("POST", CHAT, chat(n=2), 400, "n and best_of must be 1"),
        ("POST", CHAT, chat(max_tokens=0), 400, "max_tokens must be at least 1, got 0."),
        ("POST", CHAT, chat(max_tokens=2, min_tokens=3), 400, "min_tokens must be less than or equal to max_tokens=2, got 3."),
        ("POST", CHAT, chat(stream_options={}), 400, "Stream options can only be defined when `stream=True`."),
        ("POST", CHAT, chat(max_tokens=500), 400, "maximum context length is 500 tokens. However, you requested 501 tokens (1 in the messages"),
        ("POST", TEXT, {"prompt": "a " * 500}, 400, "you requested 501 tokens (500 in the prompt, 1 in the completion)"),
    ],
)
def test_refusals(server: Simulated, method: str, path: str, body: Any, status: int, words: str) -> None:
    got, headers, content = ask(server, method, path, body)
    error = json.loads(content)["error"]
    assert (got, error["code"], headers["content-type"]) == (status, status, "application/json")
    assert words in error["message"]


def test_refusals_are_counted_and_no_generation_is(server: Simulated) -> None:
    server.reset()
    ask(server, "GET", "/nothing")
    ask(server, "POST", CHAT, b"")
    truth = server.truth()
    assert (truth["received"], truth["refused"]) == (0, {"404": 1, "400": 1})


def raw(server: Simulated, sent: bytes) -> bytes:
    """Send bytes, read until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(sent)
        return b"".join(iter(lambda: sock.recv(65536), b""))


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n", b"413"),
        (b"GET /health HTTP/1.0\r\n\r\n", b"505"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /health HTTP/1.1\r\nx: " + b"y" * 600_000, b"431"),
        (b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", b"200"),
    ],
)
def test_http_that_ends_the_connection(server: Simulated, sent: bytes, status: bytes) -> None:
    answer = raw(server, sent)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"connection: close\r\n" in answer


def test_requests_sent_ahead_are_answered_in_order_on_one_connection(server: Simulated) -> None:
    body = json.dumps({"prompt": "a", "max_tokens": 2, "stream": True}).encode()
    post = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    answer = raw(server, post + b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n" + post.replace(b"host: x", b"host: x\r\nconnection: close"))
    heads = [part.split(b"\r\n\r\n")[0] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert [b"event-stream" in head for head in heads] == [True, False, True]
    assert answer.count(b"[DONE]") == 2


def test_a_chunked_body_in_pieces_and_100_continue(server: Simulated) -> None:
    body = json.dumps({"prompt": "a b c", "max_tokens": 1}).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n")
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for start in range(0, len(body), 10):
            piece = body[start : start + 10]
            sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        sock.sendall(b"0\r\n\r\n")
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["usage"]["prompt_tokens"] == 3


def test_head_has_no_body(server: Simulated) -> None:
    answer = raw(server, b"HEAD /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert answer.split(b"\r\n\r\n", 1)[1] == b""


def test_variants_of_a_reply() -> None:
    options = {
        "api_key": "k-1",
        "model": "m/1",
        "reasoning_tokens": 3,
        "tokens_per_event": 2,
        "server_times": True,
        "step_us": 1000,
        "prefix_cache": True,
    }
    with running(**options) as server:
        key = {"authorization": "Bearer k-1"}
        body = {"model": "m/1", "messages": [{"role": "user", "content": "w " * 40}], "max_tokens": 7}
        assert ask(server, "POST", CHAT, body)[0] == 401
        assert ask(server, "POST", CHAT, body, {"authorization": "Bearer k-2"})[0] == 401
        assert ask(server, "GET", "/health")[0] == 200
        asked = {**body, "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        _, _, content = ask(server, "POST", CHAT, asked, key)
        role, *tokens, usage = events(content)
        deltas = [event["choices"][0]["delta"] for event in tokens]
        assert [list(delta) for delta in deltas] == [["reasoning_content"], ["reasoning_content", "content"], ["content"], ["content"]]
        assert [event["usage"]["completion_tokens"] for event in tokens] == [2, 4, 6, 7]
        assert [event["usage"]["completion_tokens_details"]["reasoning_tokens"] for event in tokens] == [2, 3, 3, 3]
        times = [event["choices"][0]["arrival_time"] for event in (role, *tokens)]
        assert times[0] == 0
        assert times == sorted(set(times))
        assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
        whole = json.loads(ask(server, "POST", CHAT, body, key)[2])
        assert whole["usage"]["prompt_tokens_details"] == {"cached_tokens": 32}
        message = whole["choices"][0]["message"]
        assert (len(message["reasoning_content"].split()), len(message["content"].split())) == (3, 4)
        truth = server.truth()
        assert (truth["refused"], truth["itl_ms"]["count"], truth["icl_ms"]["count"]) == ({"401": 2}, 5, 3)


def test_a_served_connection_is_freed_without_the_garbage_collector() -> None:
    """The server turns the collector off, so nothing it makes for a request may be part of a cycle."""
    server = Server(SimulatorOptions(port=0, step_us=1000, error_event_rate=0.3, reset_rate=0.3, truncate_rate=0.3))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        body = json.dumps({"prompt": "a", "max_tokens": 3, "stream": True}).encode()
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock, contextlib.suppress(ConnectionResetError):
                sock.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
                while sock.recv(65536):
                    pass
    finally:
        server.stop()
        thread.join(20)
    assert server.final_truth()["received"] == 20
    gc.disable()
    try:
        alive = [thing for thing in gc.get_objects() if isinstance(thing, (Connection, Reply, Sequence))]
    finally:
        gc.enable()
    assert alive == []
