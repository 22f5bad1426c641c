"""FastDeploy's OpenAI-like API: `fastdeploy` (chat) and `fastdeploy-completions`.

As `openai-chat` and `openai`, and beyond them: running usage is always asked for; --ignore-eos becomes `min_tokens`, the only field by which
FastDeploy generates to a length (in `metadata` too for chat, where older servers look for it); --pd-metrics sends `collect_metrics`, and the points
in time of the events' `metrics` objects become spans. FastDeploy's own benchmark calls these spans by the same names. Where prefill and decoding are
apart, the first `metrics` are the prefill instance's and the later ones the decoding instance's; a span lies within the clock of one instance.
"""

import re
from typing import Any

import msgspec

from loadstone.backends.base import Batch, Emission, Event, Frames, Options, Prompt, Reply, json_object
from loadstone.backends.openai import OpenAI
from loadstone.backends.openai_chat import OpenAIChat
from loadstone.backends.openai_completions import OpenAICompletions
from loadstone.backends.server_times import number, span_ns
from loadstone.errors import UsageError

# span -> the points in time (seconds since 1970) from which and to which it goes
PREFILL = {
    "preprocess_cost_time": ("arrival_time", "scheduler_recv_req_time"),
    "cache_in_scheduler_cost_time": ("scheduler_recv_req_time", "engine_get_req_time"),
    "ask_decode_resource_cost_time": ("ask_decode_resource_start_time", "ask_decode_resource_finish_time"),
    "schedule_cost_time": ("ask_decode_resource_finish_time", "inference_start_time"),
    "mixed_schedule_cost_time": ("engine_get_req_time", "inference_start_time"),
    "prefill_prepare_cost_time": ("arrival_time", "inference_start_time"),
    "prefill_first_token_infer_cost_time": ("inference_start_time", "engine_recv_first_token_time"),
    "wait_sending_cache_cost_time": ("wait_for_sending_cache_time", "send_request_output_to_decode_time"),
    "prefill_cost_time": ("arrival_time", "send_request_output_to_decode_time"),
}
DECODE = {
    "decode_preallocate_cost_time": ("decode_recv_req_time", "decode_preallocate_req_time"),
    "decode_prepare_cost_time": ("decode_recv_first_token_time", "decode_inference_start_time"),
    "decode_second_token_infer_cost_time": ("decode_inference_start_time", "decode_recv_second_token_time"),
}
_METRICS = re.compile(rb'"metrics"\s*:\s*\{')


class FastDeploy(OpenAI):
    """What both have in common beyond the OpenAI APIs."""

    has_beam_search = False
    has_pd_metrics = True

    def check(self, options: Options) -> None:
        super().check(options)
        if options.pd_metrics and not options.stream:
            raise UsageError(f"backend {self.name} has --pd-metrics in streams only: leave --no-stream-request out")

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        body = super().body(prompt, msgspec.structs.replace(options, continuous_usage=True))
        own: dict[str, Any] = {"collect_metrics": True} if options.pd_metrics else {}
        if options.ignore_eos:
            if prompt.output_tokens is None:
                raise UsageError(f"backend {self.name} has --ignore-eos for a wanted length only (min_tokens), and a row of this data set has none")
            own["min_tokens"] = prompt.output_tokens
            if self.takes_chats:
                metadata = body.pop("metadata", None)
                own["metadata"] = {"min_tokens": prompt.output_tokens, **(metadata if isinstance(metadata, dict) else {})}
        return own | body

    def read(self, event: Event, reply: Reply) -> Emission | None:
        emission = super().read(event, reply)
        if _METRICS.search(event.data) and reply.error is None:
            metrics = json_object(event.data).get("metrics")
            if isinstance(metrics, dict):
                _note(metrics, reply.server_spans)
        return emission

    def read_many(self, frames: Frames, reply: Reply) -> Batch | None:
        return None if _METRICS.search(frames.body) else super().read_many(frames, reply)


class FastDeployChat(FastDeploy, OpenAIChat):
    name = "fastdeploy"
    max_tokens_fields = ("max_tokens", "max_completion_tokens")  # it takes both, and its own benchmark sends the first


class FastDeployCompletions(FastDeploy, OpenAICompletions):
    def __init__(self) -> None:
        super().__init__("fastdeploy-completions", beam_search=False)


def backend(name: str) -> FastDeploy:
    return FastDeployChat() if name == "fastdeploy" else FastDeployCompletions()


def _note(metrics: dict[str, Any], spans: dict[str, int]) -> None:
    """Of prefill the first value of each span stands, of decoding the last."""
    for name, (start, stop) in PREFILL.items():
        if name not in spans and (span := _span(metrics, start, stop)) is not None:
            spans[name] = span
    for name, (start, stop) in DECODE.items():
        if (span := _span(metrics, start, stop)) is not None:
            spans[name] = span


def _span(metrics: dict[str, Any], start: str, stop: str) -> int | None:
    since, until = number(metrics.get(start)), number(metrics.get(stop))
    return None if not since or not until else span_ns(until - since, 1e9)
