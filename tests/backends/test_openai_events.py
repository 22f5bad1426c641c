"""What counts as a token event, event by event."""

import json
from typing import Any

import pytest

from loadstone.backends import get
from loadstone.backends.base import Emission, Event, Reply, Usage, json_object

BACKEND = get("openai-chat")


def read(reply: Reply, **message: Any) -> Emission | None:
    return BACKEND.read(Event(json.dumps(message).encode()), reply)


def delta(reply: Reply | None = None, usage: Any = None, finish: str | None = None, **fields: Any) -> Emission | None:
    return read(reply or Reply(), choices=[{"index": 0, "delta": fields, "finish_reason": finish}], usage=usage)


@pytest.mark.parametrize(
    ("fields", "emission"),
    [
        ({"content": " "}, Emission(text=" ")),
        ({"content": "\n"}, Emission(text="\n")),
        ({"refusal": "no"}, Emission(text="no")),
        ({"reasoning_content": "r"}, Emission(reasoning="r")),
        ({"reasoning": "r"}, Emission(reasoning="r")),
        ({"reasoning": "r", "reasoning_content": "r"}, Emission(reasoning="r")),
        ({"content": "a", "reasoning": "r"}, Emission(text="a", reasoning="r")),
        ({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}, Emission(tool_call="f")),
        ({"tool_calls": [{"index": 0, "function": {"arguments": '{"x'}}]}, Emission(tool_call='{"x')),
        ({"function_call": {"name": "f", "arguments": "{}"}}, Emission(tool_call="f{}")),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "r"}]}, {"type": "text", "text": "a"}]}, Emission("a", "r")),
    ],
)
def test_token_events(fields: dict[str, Any], emission: Emission) -> None:
    assert delta(**fields) == emission


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"role": "assistant"},
        {"role": "assistant", "content": ""},
        {"content": None, "reasoning_content": None, "tool_calls": None},
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": None, "arguments": ""}}]},
        {"tool_calls": []},
    ],
)
def test_no_token_events(fields: dict[str, Any]) -> None:
    assert delta(**fields) is None
    assert delta(finish="stop", **fields) is None


def test_completions_text_and_chat_content_are_read_alike() -> None:
    assert read(Reply(), choices=[{"index": 0, "text": "a"}]) == Emission(text="a")


def test_several_choices_in_one_event_are_one_token_event() -> None:
    choices = [{"index": 0, "delta": {"content": text}, "arrival_time": at} for text, at in (("a", 0.1), ("b", 0.2))]
    assert read(Reply(), choices=choices) == Emission(text="ab", server_ns=200_000_000)


def test_growing_usage_is_a_token_event_without_text() -> None:
    reply = Reply()
    assert delta(reply, {"completion_tokens": 0}, role="assistant", content="") is None
    assert delta(reply, {"completion_tokens": 1}, content="") == Emission(output_tokens=1)
    assert delta(reply, {"completion_tokens": 1}, content="") is None
    assert delta(reply, {"completion_tokens": 3}, content="x") == Emission("x", output_tokens=3)
    assert delta(reply, {"completion_tokens": 4}, finish="stop") == Emission(output_tokens=4)
    assert read(reply, choices=[], usage={"completion_tokens": 9}) is None  # usage alone is no token
    assert reply.usage.output_tokens == 9 and reply.finished


def test_a_total_on_the_last_event_or_on_the_first_is_no_growth() -> None:
    reply = Reply()
    assert delta(reply, content="x") is not None
    assert delta(reply, {"completion_tokens": 5}, finish="stop", content="") is None
    assert delta(Reply(), {"completion_tokens": 1}, finish="stop", content="") is None
    assert delta(Reply(), {"completion_tokens": 1}, role="assistant", content="") is None
    assert delta(Reply(), {"completion_tokens": 1}, content="") == Emission(output_tokens=1)  # a hidden first token


def test_the_last_value_of_each_count_stands() -> None:
    reply = Reply()
    delta(reply, {"prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}}, content="a")
    delta(reply, None, content="b")
    read(reply, choices=[], usage={"prompt_tokens": 4, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}})
    assert reply.usage == Usage(prompt_tokens=4, output_tokens=2, cached_tokens=2, reasoning_tokens=1)


@pytest.mark.parametrize("value", [-1, True, "7", 1.5, None, [], 2**70])
def test_a_count_that_is_none_is_absent(value: Any) -> None:
    reply = Reply()
    delta(reply, {"completion_tokens": value, "prompt_tokens": value}, content="a")
    assert reply.usage == Usage()


@pytest.mark.parametrize(
    ("value", "ns"), [(0.25, 250_000_000), (0, 0), (1, 10**9), (1.7e9, None), (-1, None), (True, None), ("1", None), (None, None)]
)
def test_arrival_time_is_a_span_in_seconds(value: Any, ns: int | None) -> None:
    emission = read(Reply(), choices=[{"delta": {"content": "a"}, "arrival_time": value}])
    assert emission is not None and emission.server_ns == ns


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"error": {"message": "no memory", "type": "InternalServerError", "param": None, "code": 500}}, "no memory"),  # vLLM
        ({"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}, "too long"),  # older vLLM, SGLang
        ({"choices": [{"delta": {"content": ""}, "finish_reason": "error", "error": {"code": 502, "message": "no provider"}}]}, "no provider"),
        ({"error": {"code": 429, "message": "busy"}, "choices": [{"delta": {}, "finish_reason": "error"}]}, "busy"),  # OpenRouter
        ({"code": 503, "message": "overloaded"}, "overloaded"),
        ({"error_code": 336100, "error_msg": "try again", "id": "x"}, "try again"),
        ({"detail": "Not authenticated"}, "Not authenticated"),
        ({"error": "just words"}, "just words"),
        ({"error": True, "message": "gone"}, "gone"),
    ],
)
def test_errors_in_every_shape(message: dict[str, Any], said: str) -> None:
    reply = Reply()
    assert read(reply, **message) is None
    assert reply.error == said


@pytest.mark.parametrize(
    "message", [{}, {"type": "ping"}, {"code": 200, "message": "ok"}, {"error": None, "choices": []}, {"code": None, "detail": ""}]
)
def test_what_is_no_error(message: dict[str, Any]) -> None:
    reply = Reply()
    assert read(reply, **message) is None
    assert reply.error is None


def test_only_a_payload_equal_to_the_mark_is_the_end() -> None:
    reply = Reply()
    BACKEND.read(Event(b'{"choices":[{"delta":{"content":"[DONE]"}}]}'), reply)
    assert not reply.done
    BACKEND.read(Event(b" [DONE] "), reply)
    assert reply.done


def test_the_first_error_stands() -> None:
    reply = Reply()
    read(reply, error={"message": "first"})
    read(reply, error={"message": "second"})
    assert reply.error == "first"


def test_what_python_servers_send_is_json_enough() -> None:
    assert json_object(b'{"a": -Infinity}') == {"a": float("-inf")}
    assert json_object(b'{"a": "\\ud83d"}') == {"a": "\ud83d"}
    assert json_object(b'{"a": "\xff"}') == {"a": "\ufffd"}


@pytest.mark.parametrize("data", [b"{", b"[1]", b"3", b"", b"null", b"[" * 100_000, b'{"a":' * 100_000])
def test_what_is_no_json_object_is_named(data: bytes) -> None:
    with pytest.raises(ValueError, match="malformed"):
        json_object(data)
