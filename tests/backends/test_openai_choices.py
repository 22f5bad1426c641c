"""Several choices in one reply, echoed prompts, tool calls at once: what is put together how, what counts, and what is a failure."""

import json
from typing import Any

import pytest

from loadstone import RunConfig, run
from loadstone.backends import get
from loadstone.backends.base import Options, Prompt, encode
from loadstone.errors import UsageError
from loadstone.records import COMPLETED, FAILED
from support.replies import plays, record
from support.scripted import Scripted

DONE = b"data: [DONE]\n\n"


def event(message: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def said(index: int, text: str, finish: str | None = None, **more: Any) -> bytes:
    return event({"choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}], **more})


def usage(output: int) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": output, "total_tokens": 3 + output}})


def asks(**fields: Any) -> bytes:
    return encode(get("openai"), Prompt(text="Hi"), Options(model="m", overrides=fields))


TWO = [said(1, "re"), said(0, "gr"), said(1, "d", "stop"), said(0, "ey", "length")]


def test_choices_are_put_together_by_their_index() -> None:
    reply = record("openai-chat", *TWO, usage(4), DONE, request=asks(n=2))
    assert (reply.status, reply.text, reply.output_tokens, reply.token_source) == (COMPLETED, "greyred", 4, "usage")
    assert reply.token_ns == [11, 12, 13, 14]  # the first token is that of any choice
    assert (reply.first_token_ns, reply.first_output_ns, reply.last_token_ns) == (11, 11, 14)


def test_without_usage_each_choice_is_counted_by_itself() -> None:
    counted: list[str] = []
    reply = record("openai-chat", *TWO, DONE, count_tokens=lambda text: counted.append(text) or 1)
    assert (counted, reply.output_tokens) == (["grey", "red"], 2)


def test_several_choices_in_one_event_are_one_token_event() -> None:
    both = {"choices": [{"index": 1, "text": "b", "finish_reason": "stop"}, {"index": 0, "text": "a", "finish_reason": "stop"}]}
    reply = record("openai", event(both), DONE, request=asks(n=2))
    assert (reply.status, reply.text, reply.token_ns) == (COMPLETED, "ab", [11])


def test_a_running_usage_of_several_choices_says_nothing_of_an_event() -> None:
    """vLLM counts each choice by itself, so 1, 1, 2, 2 are four tokens and the usage of the finish event of choice 0 is no growth."""
    running = [
        said(0, "a", usage={"completion_tokens": 1}), said(1, "b", usage={"completion_tokens": 1}),
        said(0, "a", usage={"completion_tokens": 2}), said(0, "", "stop", usage={"completion_tokens": 2}),
        said(1, "b", "stop", usage={"completion_tokens": 2}),
    ]  # fmt: skip
    reply = record("openai-chat", *running, usage(4), DONE)
    assert (reply.output_tokens, reply.token_counts, reply.token_ns) == (4, [], [11, 12, 13, 15])


@pytest.mark.parametrize("ending", [[DONE], []])
def test_a_choice_that_began_must_finish(ending: list[bytes]) -> None:
    reply = record("openai-chat", *TWO[:-1], *ending, request=asks(n=2))
    assert reply.status == FAILED and reply.reason == ("server error" if ending else "incomplete")
    assert not ending or "1 of 2 choices were finished" in reply.error


@pytest.mark.parametrize(
    ("fields", "wanted"), [({"n": 2}, 2), ({"prompt": ["a", "b"]}, 2), ({"prompt": ["a", "b"], "n": 2}, 4), ({"prompt": [[1], [2]]}, 2)]
)
def test_all_choices_that_were_asked_for_must_come(fields: dict[str, Any], wanted: int) -> None:
    reply = record("openai", said(0, "a", "stop"), DONE, request=asks(**fields))
    assert (reply.status, reply.error) == (FAILED, f"1 of {wanted} choices came")
    whole = json.dumps({"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}).encode()
    assert record("openai", whole, request=asks(**fields)).error == f"1 of {wanted} choices came"


@pytest.mark.parametrize("fields", [{"n": 1}, {"n": None}, {"prompt": [1, 2, 3]}, {"prompt": []}, {"stop": ['"n":2']}])
def test_one_choice_is_enough_where_one_was_asked_for(fields: dict[str, Any]) -> None:
    assert record("openai", said(0, "a", "stop"), DONE, request=asks(**fields)).status == COMPLETED


def test_one_bad_end_fails_the_reply_whatever_the_other_choices_say() -> None:
    assert record("openai-chat", said(0, "a", "abort"), said(1, "b", "stop"), DONE).reason == "finish abort"


def test_a_document_with_several_choices() -> None:
    choices = [{"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"} for i, text in ((1, "b"), (0, "a"))]
    body = json.dumps({"choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 2}}).encode()
    reply = record("openai-chat", body, request=asks(n=2))
    assert (reply.status, reply.text, reply.output_tokens) == (COMPLETED, "ab", 2)


def call(index: int, **function: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "function": function}]}, "finish_reason": None}]})


def test_tool_calls_at_once_are_put_together_by_their_number() -> None:
    counted: list[str] = []
    pieces = [call(0, name="f", arguments=""), call(1, name="g"), call(0, arguments='{"a'), call(1, arguments="{}"), call(0, arguments='":1}')]
    last = event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    reply = record("openai-chat", *pieces, last, DONE, count_tokens=lambda text: counted.append(text) or 2)
    assert (reply.status, reply.token_ns, counted, reply.output_tokens) == (COMPLETED, [11, 12, 13, 14, 15], ['f{"a":1}', "g{}"], 4)


def test_tool_calls_of_a_document_with_arguments_of_any_form() -> None:
    calls = [{"function": {"name": "f", "arguments": {"a": 1}}}, {"type": "custom", "custom": {"name": "g", "input": "x"}}]
    body = json.dumps({"choices": [{"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}]}).encode()
    assert record("openai-chat", body, count_tokens=len).output_tokens == len('f{"a":1}') + len("gx")


def test_an_echoed_prompt_is_no_output() -> None:
    stream = [event({"choices": [{"index": 0, "text": text, "finish_reason": finish}]}) for text, finish in (("Hi there", None), (" you", "stop"))]
    reply = record("openai", *stream, DONE, count_tokens=len, request=asks(echo=True))
    assert (reply.text, reply.output_tokens) == ("Hi there you", len(" there you"))  # the prompt is "Hi"
    assert record("openai", *stream, DONE, count_tokens=len, request=asks()).output_tokens == len("Hi there you")
    assert record("openai", *stream, DONE, count_tokens=len, request=asks(echo=True, prompt=[5, 6, 7])).output_tokens == len("Hi there you") - 3
    assert record("openai", *stream, usage(9), DONE, count_tokens=len, request=asks(echo=True)).output_tokens == 9
    assert "echo" in get("openai").notes(Options(model="m", overrides={"echo": True}))[0]
    assert "llama.cpp" in get("openai-chat").notes(Options(model="m", overrides={"n": 2}))[0]
    assert get("openai-chat").notes(Options(model="m", overrides={"n": 1, "echo": False})) == []


def test_an_echoed_last_message_of_a_chat_is_no_output() -> None:
    chat = {"echo": True, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Once"}]}
    reply = record("openai-chat", said(0, "Once"), said(0, " upon", "stop"), DONE, count_tokens=len, request=asks(prompt=None, **chat))
    assert reply.output_tokens == len(" upon")


def test_prompts_as_token_ids() -> None:
    prompt = Prompt(token_ids=[1, 2, 3])
    for name in ("openai", "vllm", "fastdeploy-completions"):
        assert json.loads(encode(get(name), prompt, Options(model="m")))["prompt"] == [1, 2, 3]
    for name in ("openai-chat", "fastdeploy"):
        with pytest.raises(UsageError, match=f"backend {name} sends messages.*token ids.*--backend openai"):
            encode(get(name), prompt, Options(model="m"))


def test_the_spelling_of_the_wanted_length_can_be_chosen() -> None:
    prompt = Prompt(text="x", output_tokens=9)
    body = json.loads(encode(get("openai-chat"), prompt, Options(model="m", max_tokens_field="max_tokens")))
    assert body["max_tokens"] == 9 and "max_completion_tokens" not in body
    assert json.loads(encode(get("openai-chat"), prompt, Options(model="m", max_tokens_field="max_completion_tokens")))["max_completion_tokens"] == 9
    get("openai").check(Options(model="m", max_tokens_field="max_tokens"))
    with pytest.raises(UsageError, match="backend openai has no --max-tokens-field max_completion_tokens"):
        get("openai").check(Options(model="m", max_tokens_field="max_completion_tokens"))


@pytest.mark.parametrize("n", [2, 3])
def test_a_run_with_two_choices(n: int) -> None:
    with Scripted(plays([*TWO, usage(4), DONE], {})) as server:
        result = run(RunConfig(base_url=server.url, backend="openai-chat", model="m", num_prompts=3, ready_check_timeout_sec=0, extra_body={"n": n}))
    assert (result.summary.completed, result.summary.total_output_tokens) == ((3, 12) if n == 2 else (0, 0))
    assert n == 2 or "2 of 3 choices came" in result.records.error[0]
