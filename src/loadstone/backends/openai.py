"""What the events of an OpenAI-compatible server mean: chat completions and completions, as vLLM, SGLang, LMDeploy, FastDeploy, llama.cpp and others
send them.

A token event carries non-empty text on any channel, or a tool call's name or arguments, or is an event with choices whose running usage grew. Text is
`content`, `text` or `refusal`; reasoning is `reasoning_content` or `reasoning` (a server that sends both sends the same twice: one is taken).
Usage may ride on any event; the last value of each count stands. Several choices in one event are read together, their text joined in order.
`error`, `object: error` and `event: error` are the server's failure at any time. A payload equal to [DONE] ends the stream.
FastDeploy's `arrival_time` is the server's own time of a token, in seconds from its start of inference.
"""

from typing import Any

import msgspec

from loadstone.backends.base import Backend, Batch, Emission, Event, Reply, Usage, excerpt, json_object
from loadstone.backends.frames import Frames
from loadstone.backends.openai_batch import LONGEST_SPAN_S, read_many, running_usage_grew

DONE = b"[DONE]"


class OpenAI(Backend):
    """What the OpenAI APIs share: the meaning of their replies, and the sampling fields of the servers that speak them."""

    sampling = frozenset({"temperature", "top_p", "top_k", "min_p"})
    has_ignore_eos = True
    has_beam_search = True
    has_logprobs = True
    has_continuous_usage = True

    def read(self, event: Event, reply: Reply) -> Emission | None:
        payload = event.data.strip()
        if payload == DONE:
            reply.done = True
            return None
        if event.name == "error":
            reply.fail(_lenient(payload))
            return None
        if not payload:
            return None
        try:
            message = json_object(payload)
        except ValueError:
            if event.name == "message":
                raise
            return None  # a ping by its own name may say what it likes
        if failed(message, reply):
            return None
        return _emission(message, "delta", reply)

    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        if failed(document, reply):
            return None
        if not isinstance(document.get("choices"), list):
            reply.fail("the reply is JSON without choices")
            return None
        reply.finished = True
        return _emission(document, "message", reply)

    def read_many(self, frames: Frames, reply: Reply) -> Batch | None:
        return read_many(frames, reply)


def failed(message: dict[str, Any], reply: Reply) -> bool:
    """Whether the message is an error; if so, `reply` has it."""
    error = message.get("error")
    if error is not None and error is not False and error != "":
        reply.fail(error)
        return True
    if message.get("object") == "error":
        reply.fail(message)
        return True
    return False


def _emission(message: dict[str, Any], part_name: str, reply: Reply) -> Emission | None:
    counted = _usage(message.get("usage"))
    if counted is not None:
        reply.usage = reply.usage.then(counted)
    now = counted.output_tokens if counted is not None else None
    choices = message.get("choices")
    if choices is not None and not isinstance(choices, list):
        raise ValueError(f"choices is no list: {excerpt(msgspec.json.encode(message))}")
    choices = [choice for choice in choices or [] if isinstance(choice, dict)]
    if not choices:
        reply.running = reply.running if now is None else now
        return None
    text = reasoning = tool_call = ""
    opening = False  # it names the speaker, or ends the reply
    for choice in choices:
        part = choice.get(part_name)
        part = part if isinstance(part, dict) else choice
        said, thought = _content(part.get("content"))
        text += said or _text(part.get("text")) or _text(part.get("refusal"))
        reasoning += thought or _text(part.get("reasoning_content")) or _text(part.get("reasoning"))
        tool_call += _tool_calls(part)
        reason = _text(choice.get("finish_reason"))
        if reason:
            reply.finish(reason)
        opening = opening or bool(reason or _text(part.get("role")))
    grew = running_usage_grew(reply, now, opening)
    reply.running = now
    if not (text or reasoning or tool_call or grew):
        return None
    reply.begun = True
    return Emission(text, reasoning, tool_call, now, _arrival_ns(choices[-1].get("arrival_time")))


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    prompt, output = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_count(prompt.get("cached_tokens")) if isinstance(prompt, dict) else None,
        reasoning_tokens=_count(output.get("reasoning_tokens")) if isinstance(output, dict) else None,
        total_tokens=_count(usage.get("total_tokens")),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _content(value: Any) -> tuple[str, str]:
    """Text and reasoning of a `content`: a string, or parts as in {"type": "text", "text"} and {"type": "thinking", "thinking"}."""
    if isinstance(value, str):
        return value, ""
    text = reasoning = ""
    for part in value if isinstance(value, list) else []:
        if isinstance(part, dict):
            text += _text(part.get("text"))
            thinking = part.get("thinking")
            for thought in thinking if isinstance(thinking, list) else [{"text": thinking}]:
                reasoning += _text(thought.get("text")) if isinstance(thought, dict) else ""
    return text, reasoning


def _tool_calls(part: dict[str, Any]) -> str:
    """Names and arguments of a tool-call delta (or of the older function_call), as they came."""
    calls = part.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    functions.append(part.get("function_call"))
    return "".join(_text(f.get("name")) + _text(f.get("arguments")) for f in functions if isinstance(f, dict))


def _arrival_ns(value: Any) -> int | None:
    if type(value) not in (int, float) or not 0 <= value < LONGEST_SPAN_S:
        return None
    return round(float(value) * 1e9)


def _lenient(payload: bytes) -> Any:
    try:
        return json_object(payload)
    except ValueError:
        return payload.decode("utf-8", "replace")
