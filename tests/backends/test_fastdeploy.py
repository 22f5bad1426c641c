"""FastDeploy: what it is sent beyond the OpenAI APIs, its own times, and runs against a server that speaks it."""

import json
from typing import Any

import numpy as np
import pytest

from loadstone import RunConfig, run
from loadstone.backends import get
from loadstone.backends.base import Options, Prompt, encode
from loadstone.errors import UsageError
from loadstone.records import COMPLETED
from support.replies import plays, record
from support.scripted import Scripted

Message = dict[str, Any]
DONE = b"data: [DONE]\n\n"
MS = 1_000_000
ZERO = 1_765_000_000.0
POINTS = {
    "arrival_time": ZERO, "scheduler_recv_req_time": ZERO + 0.125, "engine_get_req_time": ZERO + 0.25, "ask_decode_resource_start_time": ZERO + 0.25,
    "ask_decode_resource_finish_time": ZERO + 0.5, "inference_start_time": ZERO + 0.75, "engine_recv_first_token_time": ZERO + 1.0,
    "wait_for_sending_cache_time": ZERO + 1.0, "send_request_output_to_decode_time": ZERO + 1.5,
}  # fmt: skip
DECODE = {
    "decode_recv_req_time": ZERO + 5, "decode_preallocate_req_time": ZERO + 5.25, "decode_recv_first_token_time": ZERO + 6,
    "decode_inference_start_time": ZERO + 6.5, "decode_recv_second_token_time": ZERO + 7.5,
}  # fmt: skip

EARLY = {"decode_recv_req_time": ZERO + 5, "decode_preallocate_req_time": ZERO + 5.125}


def event(text: str, tokens: int, arrival: float | None, finish: str | None = None, **more: Any) -> bytes:
    delta = {
        "role": "assistant",
        "content": text,
        "reasoning_content": "",
        "tool_calls": None,
        "prompt_token_ids": None,
        "completion_token_ids": None,
    }
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "arrival_time": arrival}
    usage = {"prompt_tokens": 11, "completion_tokens": tokens, "total_tokens": 11 + tokens, "prompt_tokens_details": {"cached_tokens": 8}}
    return (
        b"data: "
        + json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], "usage": usage, **more}).encode()
        + b"\n\n"
    )


def text_event(text: str, tokens: int, arrival: float, finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "prompt_token_ids": None, "reasoning_content": "", "finish_reason": finish, "arrival_time": arrival}
    usage = {"prompt_tokens": 11, "completion_tokens": tokens, "total_tokens": 11 + tokens}
    return b"data: " + json.dumps({"id": "cmpl-1", "object": "text_completion", "choices": [choice], "usage": usage}).encode() + b"\n\n"


ROLE = event("", 0, None)
USAGE = b'data: {"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":5,"total_tokens":16}}\n\n'
CHAT = [ROLE, event("Hel", 1, 0.25), event("lo", 3, 0.5), event("!", 5, 1.0, "stop"), USAGE, DONE]
TEXT = [text_event("Hel", 1, 0.25), text_event("lo", 3, 0.5), text_event("!", 5, 1.0, "stop"), DONE]


def test_a_chat_with_running_usage_and_the_server_s_times() -> None:
    reply = record("fastdeploy", *CHAT)
    assert (reply.status, reply.text, reply.token_ns, reply.finish_reason) == (COMPLETED, "Hello!", [12, 13, 14], "stop")
    assert (reply.token_counts, reply.output_tokens, reply.prompt_tokens, reply.cached_tokens) == ([1, 2, 2], 5, 11, 8)
    assert reply.server_ns == [250 * MS, 500 * MS, 1000 * MS] and reply.server_spans == {}


def test_completions() -> None:
    reply = record("fastdeploy-completions", *TEXT)
    assert (reply.status, reply.text, reply.token_counts, reply.server_ns) == (COMPLETED, "Hello!", [1, 2, 2], [250 * MS, 500 * MS, 1000 * MS])


def test_a_preempted_request_is_a_failure() -> None:
    assert record("fastdeploy", *CHAT[:3], event("", 3, None, "recover_stop"), DONE).reason == "finish recover_stop"
    assert record("fastdeploy", *CHAT[:3], b'data: {"error": {"message": "stream terminated: no slot", "code": 500}}\n\n', DONE).error.endswith(
        "no slot"
    )


def test_the_spans_of_prefill_are_its_first_and_those_of_decoding_its_last() -> None:
    later = {name: 2 * at - ZERO for name, at in POINTS.items()} | DECODE  # twice the spans
    reply = record(
        "fastdeploy", event("a", 1, 0.25, metrics=POINTS | EARLY), event("b", 2, 0.5, metrics=later), event("c", 3, 0.75, "stop", metrics=None), DONE
    )
    assert reply.status == COMPLETED and reply.server_ns == [250 * MS, 500 * MS, 750 * MS]
    assert {name: span / 1e9 for name, span in reply.server_spans.items()} == {
        "preprocess_cost_time": 0.125, "cache_in_scheduler_cost_time": 0.125, "ask_decode_resource_cost_time": 0.25, "schedule_cost_time": 0.25,
        "mixed_schedule_cost_time": 0.5, "prefill_prepare_cost_time": 0.75, "prefill_first_token_infer_cost_time": 0.25,
        "wait_sending_cache_cost_time": 0.5, "prefill_cost_time": 1.5, "decode_preallocate_cost_time": 0.25, "decode_prepare_cost_time": 0.5,
        "decode_second_token_infer_cost_time": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize("points", [{}, {"arrival_time": None}, {"arrival_time": 0, "scheduler_recv_req_time": ZERO}, {"arrival_time": "x"}])
def test_points_in_time_that_are_none_make_no_span(points: Message) -> None:
    reply = record("fastdeploy", event("a", 1, 0.25, "stop", metrics=points), DONE)
    assert reply.status == COMPLETED and reply.server_spans == {}
    back = POINTS | {"scheduler_recv_req_time": ZERO - 1}  # clocks of two machines
    assert "preprocess_cost_time" not in record("fastdeploy", event("a", 1, 0.25, "stop", metrics=back), DONE).server_spans


def sent(backend: str, prompt: Prompt, **options: Any) -> Message:
    body: Message = json.loads(encode(get(backend), prompt, Options(model="m", **options)))
    return body


def test_what_is_sent() -> None:
    usage = {"include_usage": True, "continuous_usage_stats": True}
    assert sent("fastdeploy", Prompt(text="Hi", output_tokens=16)) == {
        "model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 16, "stream": True, "stream_options": usage, "temperature": 0,
    }  # fmt: skip
    assert sent("fastdeploy-completions", Prompt(text="Hi", output_tokens=16)) == {
        "model": "m", "prompt": "Hi", "max_tokens": 16, "stream": True, "stream_options": usage, "temperature": 0,
    }  # fmt: skip
    assert (get("fastdeploy").path, get("fastdeploy-completions").path) == ("/v1/chat/completions", "/v1/completions")


def test_a_fixed_length_is_min_tokens() -> None:
    prompt = Prompt(text="Hi", output_tokens=16, extra={"metadata": {"enable_thinking": False}})
    body = sent("fastdeploy", prompt, ignore_eos=True)
    assert (body["min_tokens"], body["metadata"]) == (16, {"min_tokens": 16, "enable_thinking": False})
    body = sent("fastdeploy-completions", Prompt(text="Hi", output_tokens=16), ignore_eos=True)
    assert body["min_tokens"] == 16 and "metadata" not in body
    with pytest.raises(UsageError, match=r"backend fastdeploy has --ignore-eos for a wanted length only"):
        sent("fastdeploy", Prompt(text="Hi"), ignore_eos=True)


def test_the_times_of_prefill_and_decoding_are_asked_for() -> None:
    assert sent("fastdeploy", Prompt(text="Hi"), pd_metrics=True)["collect_metrics"] is True
    with pytest.raises(UsageError, match="backend fastdeploy has --pd-metrics in streams only"):
        get("fastdeploy").check(Options(model="m", pd_metrics=True, stream=False))
    with pytest.raises(UsageError, match="backend openai-chat has no --pd-metrics"):
        get("openai-chat").check(Options(model="m", pd_metrics=True))
    with pytest.raises(UsageError, match="backend fastdeploy-completions has no --use-beam-search"):
        get("fastdeploy-completions").check(Options(model="m", use_beam_search=True))


@pytest.mark.parametrize("backend", ["fastdeploy", "fastdeploy-completions"])
def test_a_run(backend: str) -> None:
    events = CHAT if backend == "fastdeploy" else TEXT
    if backend == "fastdeploy":
        events = [*CHAT[:1], event("Hel", 1, 0.25, metrics=POINTS | DECODE), *CHAT[2:]]
    with Scripted(plays(events, {})) as server:
        config = RunConfig(base_url=server.url, backend=backend, model="m", num_prompts=3, random_output_len=5, ignore_eos=True, pd_metrics=True)
        result = run(config)
    body = json.loads(server.seen[-1].body)
    assert body["min_tokens"] == 5 and body["collect_metrics"] is True
    summary = result.summary
    assert (summary.completed, summary.total_input_tokens, summary.total_output_tokens) == (3, 33, 15)
    spread = {name: summary.distributions[name].mean for name in ("s_ttft", "s_e2el", "s_decode")}
    assert spread == {"s_ttft": pytest.approx(250), "s_e2el": pytest.approx(1000), "s_decode": pytest.approx(4 / 0.75)}
    prefill = result.records.server_span("prefill_cost_time")
    assert prefill.tolist() == [1.5e9] * 3 if backend == "fastdeploy" else np.isnan(prefill).all()
