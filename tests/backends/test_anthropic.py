"""Anthropic's Messages API: what is sent, what its events mean, and a run against a server that speaks it."""

import json
from typing import Any

import pytest

from loadstone import RunConfig, run
from loadstone.backends import get
from loadstone.backends.base import Options, Prompt, encode
from loadstone.engine.exchange import End
from loadstone.errors import NotReadyError, UsageError
from loadstone.records import COMPLETED, FAILED
from support.replies import plays, record, typed
from support.scripted import Scripted, document

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 12, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 400, "output_tokens": 1},
    },
}  # fmt: skip
STOP = {"type": "message_stop"}


def delta(index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def says(text: str, index: int = 0) -> dict[str, Any]:
    return delta(index, type="text_delta", text=text)


def ends(reason: str | None, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def block(index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": fields}


THINKS_AND_CALLS = [
    START,
    {"type": "ping"},
    block(0, type="thinking", thinking="", signature=""),
    delta(0, type="thinking_delta", thinking="The sky"),  # read 4, at 14
    delta(0, type="signature_delta", signature="c2ln"),
    {"type": "content_block_stop", "index": 0},
    block(1, type="text", text=""),
    says("Let me", 1),  # at 18
    says(" look.", 1),  # at 19
    delta(1, type="citations_delta", citation={"type": "char_location", "cited_text": "x"}),
    {"type": "content_block_stop", "index": 1},
    block(2, type="tool_use", id="toolu_1", name="weather", input={}),  # at 22
    delta(2, type="input_json_delta", partial_json=""),
    delta(2, type="input_json_delta", partial_json='{"city":'),  # at 24
    delta(2, type="input_json_delta", partial_json='"Oslo"}'),  # at 25
    {"type": "content_block_stop", "index": 2},
    ends("tool_use", output_tokens=57, output_tokens_details={"thinking_tokens": 20}),
    STOP,
]
HELLO = [START, block(0, type="text", text=""), says("Hel"), says("lo"), ends("end_turn", output_tokens=9), STOP]


@pytest.mark.parametrize("names", [True, False])
def test_a_stream_that_thinks_speaks_and_calls_a_tool(names: bool) -> None:
    reply = record("anthropic", *typed(*THINKS_AND_CALLS, names=names))
    assert (reply.status, reply.finish_reason, reply.error) == (COMPLETED, "tool_use", "")
    assert reply.token_ns == [14, 18, 19, 22, 24, 25]
    assert (reply.first_token_ns, reply.first_output_ns, reply.last_token_ns) == (14, 18, 25)
    assert (reply.text, reply.reasoning) == ("Let me look.", "The sky")
    assert (reply.prompt_tokens, reply.cached_tokens, reply.output_tokens, reply.reasoning_tokens) == (442, 400, 57, 20)
    assert (reply.token_source, reply.prompt_token_source, reply.token_counts) == ("usage", "usage", [])


def test_types_by_the_event_line_alone() -> None:
    events = [f"event: {message.pop('type')}\ndata: {json.dumps(message)}\n\n".encode() for message in json.loads(json.dumps(HELLO))]
    reply = record("anthropic", *events)
    assert (reply.status, reply.text, reply.finish_reason, reply.output_tokens) == (COMPLETED, "Hello", "end_turn", 9)


def test_tool_calls_are_counted_by_the_tokenizer_where_no_usage_says() -> None:
    events = [message for message in THINKS_AND_CALLS if message["type"] not in ("message_start", "message_delta")]
    reply = record("anthropic", *typed(*events), count_tokens=lambda text: len(text.split()))
    # "Let me look.", "The sky" and 'weather{"city":"Oslo"}'
    assert (reply.output_tokens, reply.token_source) == (3 + 2 + 1, "tokenizer")


def test_the_last_stated_value_of_each_count_stands() -> None:
    """vLLM: the cache is not known at the beginning, where the whole prompt is input."""
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 100, "output_tokens": 0}}}
    reply = record("anthropic", *typed(start, says("x"), ends("end_turn", input_tokens=36, cache_read_input_tokens=64, output_tokens=5), STOP))
    assert (reply.prompt_tokens, reply.cached_tokens, reply.output_tokens) == (100, 64, 5)


def test_the_placeholder_at_the_beginning_is_no_count_of_tokens() -> None:
    reply = record("anthropic", *typed(START, says("a"), says("b"), {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, STOP))
    assert (reply.output_tokens, reply.token_source, reply.prompt_tokens) == (2, "events", 442)


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal", "pause_turn", "model_context_window_exceeded"])
def test_every_stop_reason_is_a_success(reason: str) -> None:
    reply = record("anthropic", *typed(START, says("x"), ends(reason, output_tokens=1), STOP))
    assert (reply.status, reply.finish_reason) == (COMPLETED, reason)


@pytest.mark.parametrize("kept", [5, 6])
def test_a_proper_end_is_a_stop_reason_or_message_stop(kept: int) -> None:
    assert record("anthropic", *typed(*HELLO[:kept])).status == COMPLETED
    assert record("anthropic", *typed(*HELLO[:4], STOP)).status == COMPLETED


def test_nothing_matters_after_message_stop() -> None:
    assert record("anthropic", *typed(*HELLO), b'data: {"type":"err', end=End.RESET).status == COMPLETED


@pytest.mark.parametrize("end", [End.COMPLETE, End.RESET, End.CLOSED])
def test_a_cut_stream_is_a_failure(end: End) -> None:
    reply = record("anthropic", *typed(*HELLO[:4]), end=end)
    assert reply.status == FAILED and reply.text == "Hello" and reply.reason in ("incomplete", "reset", "closed")


@pytest.mark.parametrize("names", [True, False])
def test_an_error_in_mid_stream(names: bool) -> None:
    error = {"type": "error", "error": {"details": None, "type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"}
    reply = record("anthropic", *typed(*HELLO[:4], error, *HELLO[4:], names=names))
    assert (reply.status, reply.reason, reply.error) == (FAILED, "server error", "overloaded_error: Overloaded")


@pytest.mark.parametrize(
    ("piece", "reason", "said"),
    [
        (b"event: error\ndata: upstream gone\n\n", "server error", "upstream gone"),
        (b'event: error\ndata: {"message": "no slot"}\n\n', "server error", "no slot"),
        (b'data: {"error": {"message": "no slot"}}\n\n', "server error", "no slot"),
        (b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n', "json", "without a type"),
        (b"data: {]\n\n", "json", "malformed"),
        (b"data: [1]\n\n", "json", "no JSON object"),
    ],
)
def test_what_is_no_message_is_no_success(piece: bytes, reason: str, said: str) -> None:
    reply = record("anthropic", *typed(*HELLO[:3]), piece, *typed(STOP))
    assert (reply.status, reply.reason) == (FAILED, reason) and said in reply.error


def test_odd_values_are_passed_over() -> None:
    odd = [
        {"type": "message_start", "message": None}, {"type": "message_start", "message": {"usage": [1]}},
        {"type": "content_block_delta", "delta": "x"}, delta(0, type="text_delta", text=None), delta(0, type="text_delta", text=7),
        block(0, type="text", text=["x"]), {"type": "content_block_start"}, {"type": "message_delta", "delta": [], "usage": None},
        ends(None, output_tokens="9", input_tokens=-1), {"type": "something_new", "delta": {"text": "x"}}, {"type": "vendor_event"},
    ]  # fmt: skip
    reply = record("anthropic", *typed(*odd, says("a")), b"event: ping\ndata: hm\n\n", *typed(STOP))
    assert (reply.status, reply.text, reply.output_tokens, reply.prompt_tokens) == (COMPLETED, "a", 1, None)


WHOLE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "max_tokens", "stop_sequence": None,
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "c2ln"},
        {"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"},
        {"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Oslo"}},
        {"type": "web_search_tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "not the model's"}]},
    ],
    "usage": {"input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 8},
}  # fmt: skip


def test_a_document() -> None:
    reply = record("anthropic", json.dumps(WHOLE).encode())
    assert (reply.status, reply.streamed, reply.finish_reason, reply.token_ns) == (COMPLETED, False, "max_tokens", [])
    assert (reply.text, reply.reasoning) == ("Hello", "Hm.")
    assert (reply.prompt_tokens, reply.cached_tokens, reply.output_tokens) == (16, 4, 8)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded_error: Overloaded"),
        ({"choices": [{"message": {"content": "x"}}]}, "without content"),
        ({"content": "x"}, "without content"),
        ({}, "without content"),
    ],
)
def test_a_document_that_is_no_message(document: dict[str, Any], said: str) -> None:
    reply = record("anthropic", json.dumps(document).encode())
    assert reply.status == FAILED and said in reply.error


def test_a_refusal_by_status() -> None:
    reply = record("anthropic", b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}', status="429 Too Many Requests")
    assert (reply.reason, reply.error) == ("http 429", "HTTP 429: slow down")


def sent(prompt: Prompt, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode(get("anthropic"), prompt, Options(model="m", **options)))
    return body


def test_the_body() -> None:
    assert sent(Prompt(text="Hi", output_tokens=16)) == {
        "model": "m",
        "max_tokens": 16,
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
    }


def test_a_length_is_sent_always_and_sampling_when_asked_for() -> None:
    body = sent(Prompt(text="Hi", model="adapter"), stream=False, sampling={"temperature": 0.5, "top_p": 0.9, "top_k": 3})
    assert (body["model"], body["max_tokens"], body["stream"]) == ("adapter", 4096, False)
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.5, 0.9, 3)
    assert sent(Prompt(text="Hi", extra={"temperature": 1}), overrides={"temperature": 0, "max_tokens": 7})["temperature"] == 0


def test_the_system_s_words_have_a_place_of_their_own() -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "developer", "content": "In verse."}]
    body = sent(Prompt(messages=chat))
    assert body["system"] == "Be brief.\n\nIn verse." and body["messages"] == [chat[1]]
    parts = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    assert sent(Prompt(messages=[{"role": "system", "content": parts}, *chat[1:]]))["system"] == [*parts, {"type": "text", "text": "In verse."}]


def test_images_in_this_api_s_form() -> None:
    urls = ["data:image/png;base64,aGk=", "https://images.example/x.png"]
    content = [{"type": "text", "text": "What?"}, *({"type": "image_url", "image_url": {"url": url}} for url in urls)]
    assert sent(Prompt(messages=[{"role": "user", "content": content}]))["messages"][0]["content"] == [
        {"type": "text", "text": "What?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": urls[1]}},
    ]


@pytest.mark.parametrize("message", [{"role": "tool", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}, {}])
def test_messages_of_another_api_are_refused(message: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"backend anthropic.*openai-chat"):
        sent(Prompt(messages=[message]))


@pytest.mark.parametrize(
    ("asked", "flag"),
    [
        ({"ignore_eos": True}, "--ignore-eos"),
        ({"use_beam_search": True}, "--use-beam-search"),
        ({"logprobs": 1}, "--logprobs"),
        ({"continuous_usage": True}, "--continuous-usage-stats"),
        ({"sampling": {"min_p": 0.1}}, "--min-p"),
        ({"max_tokens_field": "max_completion_tokens"}, "--max-tokens-field"),
    ],
)
def test_what_the_api_has_not_is_refused(asked: dict[str, Any], flag: str) -> None:
    with pytest.raises(UsageError, match=f"backend anthropic has no {flag}"):
        get("anthropic").check(Options(model="m", **asked))


@pytest.mark.parametrize("whole", [False, True])
def test_a_run(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-this")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-1")
    with Scripted(plays(typed(*HELLO), WHOLE)) as server:
        config = RunConfig(base_url=server.url, backend="anthropic", model="m", num_prompts=4, random_output_len=9, no_stream_request=whole)
        result = run(config)
    request = server.seen[-1]
    assert (request.method, request.target) == ("POST", "/v1/messages")
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == ("key-1", "2023-06-01")
    assert "authorization" not in request.headers and request.headers["content-type"] == "application/json"
    assert json.loads(request.body)["max_tokens"] == 9 and json.loads(request.body)["messages"][0]["role"] == "user"
    summary = result.summary
    assert (summary.completed, summary.failed) == (4, 0)
    assert (summary.total_output_tokens, summary.total_input_tokens) == ((32, 64) if whole else (36, 4 * 442))
    assert (summary.distributions["ttft"].mean is None) == whole


def test_a_run_without_a_key_sends_none_and_a_refused_one_is_told_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    refusal = b'{"type":"error","error":{"type":"authentication_error","message":"x-api-key header is required"}}'
    with (
        Scripted(document("401 Unauthorized", refusal)) as server,
        pytest.raises(NotReadyError, match=r"x-api-key header is required.*ANTHROPIC_API_KEY"),
    ):
        run(RunConfig(base_url=server.url, backend="anthropic", model="m", num_prompts=1))
    assert "x-api-key" not in server.seen[0].headers
