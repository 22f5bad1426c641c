"""OpenAI's Responses API: what is sent, what its events mean, and a run against a server that speaks it."""

import json
from typing import Any

import pytest

from loadstone import RunConfig, run
from loadstone.backends import get
from loadstone.backends.base import Options, Prompt, encode
from loadstone.engine.exchange import End
from loadstone.errors import UsageError
from loadstone.records import COMPLETED, FAILED
from support.replies import plays, record, typed
from support.scripted import Scripted

Message = dict[str, Any]
USAGE = {
    "input_tokens": 40, "input_tokens_details": {"cached_tokens": 32}, "output_tokens": 21, "output_tokens_details": {"reasoning_tokens": 8},
    "total_tokens": 61,
}  # fmt: skip


def response(status: str = "completed", **fields: Any) -> Message:
    return {"id": "resp_1", "object": "response", "status": status, "error": None, "incomplete_details": None, "output": [], "usage": None} | fields


def event(kind: str, **fields: Any) -> Message:
    return {"type": f"response.{kind}", "sequence_number": 0, **fields}


def says(text: str) -> Message:
    return event("output_text.delta", item_id="msg_1", output_index=1, content_index=0, delta=text, logprobs=[], obfuscation="xxxx")


CREATED = event("created", response=response("in_progress"))
ALL = [{"type": "message", "content": [{"type": "output_text", "text": "all of it once more"}]}]
COMPLETED_RESPONSE = event("completed", response=response(usage=USAGE, output=ALL))
HELLO: list[Message] = [CREATED, says("Hel"), says("lo"), COMPLETED_RESPONSE]
THINKS_SPEAKS_AND_CALLS: list[Message] = [
    CREATED,
    event("in_progress", response=response("in_progress")),
    event("output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1", "summary": []}),
    event("reasoning_summary_part.added", part={"type": "summary_text", "text": ""}),
    event("reasoning_summary_text.delta", delta="Consider"),  # event 4, at 15
    event("reasoning_summary_text.done", text="Consider"),
    event("output_item.added", output_index=1, item={"type": "message", "id": "msg_1", "content": [], "role": "assistant"}),
    event("content_part.added", part={"type": "output_text", "text": "", "annotations": []}),
    says("Let me"),  # at 19
    says(""),
    says(" look."),  # at 21
    event("output_text.annotation.added", annotation={"type": "url_citation", "title": "x"}),
    event("output_text.done", text="Let me look."),
    event("content_part.done", part={"type": "output_text", "text": "Let me look."}),
    event("output_item.done", item={"type": "message", "content": [{"type": "output_text", "text": "Let me look."}]}),
    event("output_item.added", output_index=2, item={"type": "function_call", "call_id": "c", "name": "weather", "arguments": '{"city":'}),  # at 26
    event("function_call_arguments.delta", delta='{"city":'),  # at 27
    event("function_call_arguments.delta", delta='"Oslo"}'),  # at 28
    event("function_call_arguments.done", arguments='{"city":"Oslo"}'),
    COMPLETED_RESPONSE,
]


@pytest.mark.parametrize("names", [True, False])
def test_a_stream_that_thinks_speaks_and_calls_a_tool(names: bool) -> None:
    reply = record("openai-responses", *typed(*THINKS_SPEAKS_AND_CALLS, names=names))
    assert (reply.status, reply.finish_reason, reply.error) == (COMPLETED, "completed", "")
    assert reply.token_ns == [15, 19, 21, 26, 27, 28]
    assert (reply.first_token_ns, reply.first_output_ns, reply.last_token_ns) == (15, 19, 28)
    assert (reply.text, reply.reasoning) == ("Let me look.", "Consider")
    assert (reply.prompt_tokens, reply.cached_tokens, reply.output_tokens, reply.reasoning_tokens) == (40, 32, 21, 8)


def test_a_tool_call_s_arguments_are_counted_once() -> None:
    events = [*THINKS_SPEAKS_AND_CALLS[:-1], event("completed", response=response())]
    reply = record("openai-responses", *typed(*events), count_tokens=len)
    assert reply.output_tokens == len("Consider") + len("Let me look.") + len('weather{"city":"Oslo"}')


def test_types_by_the_event_line_alone() -> None:
    events = [f"event: {message.pop('type')}\ndata: {json.dumps(message)}\n\n".encode() for message in json.loads(json.dumps(HELLO))]
    reply = record("openai-responses", *events)
    assert (reply.status, reply.text, reply.output_tokens) == (COMPLETED, "Hello", 21)


@pytest.mark.parametrize(
    ("kind", "text", "reasoning"),
    [
        ("refusal.delta", "x", ""),
        ("reasoning_text.delta", "", "x"),
        ("custom_tool_call_input.delta", "", ""),
        ("mcp_call_arguments.delta", "", ""),
        ("code_interpreter_call_code.delta", "", ""),
    ],
)
def test_every_delta_is_a_token_event(kind: str, text: str, reasoning: str) -> None:
    reply = record("openai-responses", *typed(event(kind, delta="x"), COMPLETED_RESPONSE))
    assert (reply.token_ns, reply.text, reply.reasoning) == ([11], text, reasoning)


def incomplete(kind: str, reason: str | None) -> Message:
    return event(kind, response=response("incomplete", usage=USAGE, incomplete_details={"reason": reason} if reason else None))


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (incomplete("incomplete", "max_output_tokens"), "max_output_tokens"),
        (incomplete("completed", "max_output_tokens"), "max_output_tokens"),  # as vLLM says it
        (incomplete("incomplete", "content_filter"), "content_filter"),
        (incomplete("incomplete", None), "incomplete"),
        (event("incomplete", response=response("completed", usage=USAGE)), "incomplete"),
        (event("incomplete", response=None), "incomplete"),
    ],
)
def test_an_incomplete_response_is_a_success(last: Message, reason: str) -> None:
    reply = record("openai-responses", *typed(*HELLO[:-1], last))
    assert (reply.status, reply.finish_reason) == (COMPLETED, reason)
    assert (reply.output_tokens, reply.token_source) == ((2, "events") if last["response"] is None else (21, "usage"))


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (event("failed", response=response("failed", error={"code": "server_error", "message": "The model failed."})), "The model failed."),
        (event("failed", response=response("failed")), "the response failed"),
        (event("failed", response="x"), "the response failed"),
        (event("completed", response=response("failed", error={"message": "out of memory"})), "out of memory"),
        (event("completed", response=response("cancelled")), "status cancelled"),
        (event("cancelled", response={}), "status cancelled"),
        ({"type": "error", "code": "ERR", "message": "Something broke.", "param": None, "sequence_number": 3}, "Something broke."),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}}, "too long"),
        ({"type": "ignored", "error": {"message": "no slot"}}, "no slot"),
    ],
)
def test_failures(last: Message, said: str) -> None:
    reply = record("openai-responses", *typed(*HELLO[:-1], last, COMPLETED_RESPONSE))
    assert (reply.status, reply.reason) == (FAILED, "server error") and said in reply.error


@pytest.mark.parametrize(
    ("piece", "reason", "said"),
    [
        (b"event: error\ndata: upstream gone\n\n", "server error", "upstream gone"),
        (b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n', "json", "without a type"),
        (b"data: {]\n\n", "json", "malformed"),
        (b"data: null\n\n", "json", "no JSON object"),
    ],
)
def test_what_is_no_response_is_no_success(piece: bytes, reason: str, said: str) -> None:
    reply = record("openai-responses", *typed(*HELLO[:-1]), piece, *typed(COMPLETED_RESPONSE))
    assert (reply.status, reply.reason) == (FAILED, reason) and said in reply.error


@pytest.mark.parametrize("end", [End.COMPLETE, End.RESET])
def test_a_stream_without_its_last_event_is_a_failure(end: End) -> None:
    reply = record("openai-responses", *typed(*HELLO[:-1]), end=end)
    assert reply.status == FAILED and reply.text == "Hello" and reply.reason in ("incomplete", "reset")


def test_nothing_matters_after_the_last_event() -> None:
    assert record("openai-responses", *typed(*HELLO), b"data: [DO", end=End.RESET).status == COMPLETED
    assert record("openai-responses", *typed(*HELLO), b"data: [DONE]\n\n").status == COMPLETED


def test_odd_values_are_passed_over() -> None:
    odd = [
        event("output_text.delta", delta=None), event("output_text.delta", delta=["x"]), event("output_item.added", item=None),
        event("output_item.added", item={"type": 3, "name": "x"}), event("brand_new", delta="x"), {"type": "keepalive"},
    ]  # fmt: skip
    usage = {"input_tokens": "4", "output_tokens": -1, "input_tokens_details": [], "output_tokens_details": {"reasoning_tokens": True}}
    reply = record("openai-responses", *typed(*odd, says("a"), event("completed", response=response(usage=usage))))
    assert (reply.status, reply.text, reply.output_tokens, reply.prompt_tokens, reply.reasoning_tokens) == (COMPLETED, "a", 1, None, None)


OUTPUT: list[Message] = [
    {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}], "summary": [{"type": "summary_text", "text": "H"}]},
    {"type": "reasoning", "content": None, "summary": [{"type": "summary_text", "text": " So."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hel"}, {"type": "output_text", "text": "lo"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "!"}]},
    {"type": "function_call", "name": "weather", "arguments": "{}"},
    {"type": "web_search_call", "status": "completed"},
]


def test_what_a_server_without_deltas_says_it_says_at_the_end() -> None:
    reply = record("openai-responses", *typed(CREATED, event("completed", response=response(output=OUTPUT, usage=USAGE))))
    assert (reply.token_ns, reply.text, reply.reasoning, reply.output_tokens) == ([12], "Hello!", "Hm. So.", 21)


def test_a_document() -> None:
    body = json.dumps(response("incomplete", output=OUTPUT, usage=USAGE, incomplete_details={"reason": "max_output_tokens"})).encode()
    reply = record("openai-responses", body, count_tokens=len)
    assert (reply.status, reply.streamed, reply.finish_reason, reply.token_ns) == (COMPLETED, False, "max_output_tokens", [])
    assert (reply.text, reply.reasoning, reply.output_tokens, reply.cached_tokens) == ("Hello!", "Hm. So.", 21, 32)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (response("failed", error={"message": "out of memory"}), "out of memory"),
        (response("queued"), "status queued"),
        ({"error": {"message": "no such model"}}, "no such model"),
        ({"object": "error", "message": "no such model"}, "no such model"),
        ({"choices": []}, "without output"),
    ],
)
def test_a_document_that_is_no_response(document: Message, said: str) -> None:
    reply = record("openai-responses", json.dumps(document).encode())
    assert reply.status == FAILED and said in reply.error


def sent(prompt: Prompt, **options: Any) -> Message:
    body: Message = json.loads(encode(get("openai-responses"), prompt, Options(model="m", **options)))
    return body


def test_the_body() -> None:
    expected = {"model": "m", "input": "Hi", "max_output_tokens": 16, "stream": True, "store": False, "temperature": 0}
    assert sent(Prompt(text="Hi", output_tokens=16)) == expected
    assert sent(Prompt(text="Hi", output_tokens=16), stream=False) == expected | {"stream": False}


def test_fields_by_flag_row_and_last_word() -> None:
    body = sent(Prompt(text="Hi", model="adapter", extra={"top_p": 0.5}), sampling={"top_p": 1, "top_k": 2}, logprobs=3, ignore_eos=True)
    assert (body["model"], body["top_p"], body["top_k"], body["ignore_eos"]) == ("adapter", 0.5, 2, True)
    assert (body["top_logprobs"], body["include"]) == (3, ["message.output_text.logprobs"])
    assert sent(Prompt(text="Hi"), overrides={"temperature": None})["temperature"] is None


def test_the_system_s_words_at_the_head_are_instructions() -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "In verse."}, {"role": "user", "content": "Hi"}]
    body = sent(Prompt(messages=[*chat, {"role": "system", "content": "Now stop."}]))
    assert body["instructions"] == "Be brief.\n\nIn verse."
    assert body["input"] == [chat[2], {"role": "system", "content": "Now stop."}]


def test_parts_by_the_names_of_this_api() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}}
    chat = [
        {"role": "user", "content": [{"type": "text", "text": "What?"}, image, {"type": "input_file", "file_id": "f"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
    ]
    user, assistant = sent(Prompt(messages=chat))["input"]
    assert user["content"] == [
        {"type": "input_text", "text": "What?"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "low"},
        {"type": "input_file", "file_id": "f"},
    ]
    assert assistant["content"] == [{"type": "output_text", "text": "A cat."}]


def test_what_the_api_has_not_is_refused() -> None:
    with pytest.raises(UsageError, match=r"backend openai-responses has no --use-beam-search, --continuous-usage-stats, --min-p"):
        get("openai-responses").check(Options(model="m", use_beam_search=True, continuous_usage=True, sampling={"min_p": 0.1}))
    with pytest.raises(UsageError, match=r"backend openai-responses.*openai-chat"):
        sent(Prompt(messages=[{"role": "tool", "content": "x", "tool_call_id": "a"}]))


@pytest.mark.parametrize("whole", [False, True])
def test_a_run(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-1")
    with Scripted(plays(typed(*HELLO), response(output=OUTPUT, usage=USAGE))) as server:
        config = RunConfig(base_url=server.url, backend="openai-responses", model="m", num_prompts=4, random_output_len=9, no_stream_request=whole)
        result = run(config)
    request = server.seen[-1]
    body = json.loads(request.body)
    assert (request.target, request.headers["authorization"]) == ("/v1/responses", "Bearer key-1")
    assert (body["max_output_tokens"], body["store"], body["stream"]) == (9, False, not whole)
    summary = result.summary
    assert (summary.completed, summary.failed, summary.total_output_tokens, summary.total_input_tokens) == (4, 0, 84, 160)
    assert (summary.distributions["ttft"].mean is None) == whole
