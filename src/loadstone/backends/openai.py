"""What the events of an OpenAI-compatible server mean: chat completions and completions, as vLLM, SGLang, LMDeploy, FastDeploy, llama.cpp and others
send them.

A token event carries non-empty text on any channel, or a tool call's name or arguments, or is an event with choices whose running usage grew. Text is
`content`, `text` or `refusal`; reasoning is `reasoning_content` or `reasoning` (a server that sends both sends the same twice: one is taken).
Usage may ride on any event; the last value of each count stands. `error` (of the reply or of a choice), `object: error` and `event: error` are the
server's failure at any time. A payload equal to [DONE] ends the stream.

Several choices (n above 1, several prompts) come in any order, one or more in an event: an event is a token event if any of them brought something.
Their texts are put together by their index, and all that were asked for must have come and finished. A running usage is then of one choice or of
all, as the server likes, and says of no event what it brought.
FastDeploy's `arrival_time` is the server's own time of a token, in seconds from its start of inference.
"""

from typing import Any

import msgspec

from loadstone.backends.base import Backend, Batch, Emission, Event, Options, Reply, Usage, Voice, excerpt, json_object
from loadstone.backends.frames import Frames
from loadstone.backends.openai_batch import LONGEST_SPAN_S, read_many, running_usage_grew
from loadstone.backends.wire import compact, count, mapping, mappings, text

DONE = b"[DONE]"
TELLING = (b'"n":', b'"echo":true', b'"prompt":["', b'"prompt":[[')  # of a request that is answered by more than one text, or with its prompt


class OpenAI(Backend):
    """What the OpenAI APIs share: the meaning of their replies, and the sampling fields of the servers that speak them."""

    sampling = frozenset({"temperature", "top_p", "top_k", "min_p"})
    has_ignore_eos = True
    has_beam_search = True
    has_logprobs = True
    has_continuous_usage = True
    held_to_request = True

    def read(self, event: Event, reply: Reply) -> Emission | None:
        payload = event.data.strip()
        if payload == DONE:
            ended = sum(voice.finished for voice in reply.voices.values())
            if 0 < ended < len(reply.voices):
                reply.fail(f"{ended} of {len(reply.voices)} choices were finished when the stream ended")
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
        if failed(message, reply) or _refused(message, reply):
            return None
        return _emission(message, "delta", reply)

    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        if failed(document, reply):
            return None
        if not isinstance(document.get("choices"), list):
            reply.fail(f"the reply is JSON without choices: {excerpt(msgspec.json.encode(document))}")
            return None
        emission = _emission(document, "message", reply)
        reply.finished = reply.error is None
        return emission

    def answers(self, request: bytes, reply: Reply) -> None:
        if not any(mark in request for mark in TELLING):
            return
        try:
            asked = mapping(msgspec.json.decode(request))
        except (ValueError, RecursionError):
            return
        prompt = asked.get("prompt")
        prompts = prompt if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else [prompt]
        wanted = (count(asked.get("n")) or 1) * len(prompts)
        if (came := max(len(reply.voices), 1)) < wanted:
            reply.fail(f"{came} of {wanted} choices came")
        if asked.get("echo") is True and len(prompts) == 1:
            last = (mappings(asked.get("messages")) or [{}])[-1]
            reply.echo = len(prompt) if isinstance(prompt, list) else text(prompt) or text(last.get("content"))

    def notes(self, options: Options) -> list[str]:
        notes = []
        if options.overrides.get("echo") is True:
            notes.append(
                "echo: each reply begins with its prompt, and so TTFT is the time of the prompt's text where the server sends that by itself"
            )
        if (several := count(options.overrides.get("n")) or 1) > 1:
            notes.append(
                f"n {several}: output tokens are those of all choices as the server's usage has them, and llama.cpp's has those of one choice"
            )
        return notes

    def read_many(self, frames: Frames, reply: Reply) -> Batch | None:
        return read_many(frames, reply)


def failed(message: dict[str, Any], reply: Reply) -> bool:
    """Whether the message is an error; if so, `reply` has it."""
    error = message.get("error")
    if error is not None and error is not False and error != "":
        reply.fail(message if error is True else error)
        return True
    if message.get("object") == "error":
        reply.fail(message)
        return True
    return False


def _refused(message: dict[str, Any], reply: Reply) -> bool:
    """Whether an event without choices is an error of a server or gateway that does not call it `error`; if so, `reply` has it."""
    if message.get("choices") is not None:
        return False
    code = count(message.get("code"))
    if not (message.get("error_code") or message.get("error_msg") or message.get("detail") or (code is not None and code >= 400)):
        return False
    reply.fail(message)
    return True


def _emission(message: dict[str, Any], part_name: str, reply: Reply) -> Emission | None:
    counted = _usage(message.get("usage"))
    if counted is not None:
        reply.usage = reply.usage.then(counted)
    now = counted.output_tokens if counted is not None else None
    choices = message.get("choices")
    if choices is not None and not isinstance(choices, list):
        raise ValueError(f"choices is no list: {excerpt(msgspec.json.encode(message))}")
    choices = mappings(choices)
    if not choices:
        reply.running = reply.running if now is None else now
        return None
    said = thought = called = ""
    opening = False  # it names the speaker, or ends the reply
    for choice in choices:
        if failed(choice, reply):
            return None
        part = choice.get(part_name)
        part = part if isinstance(part, dict) else choice
        voice = reply.voices.setdefault(count(choice.get("index")) or 0, Voice())
        words, thoughts = _content(part.get("content"))
        words = words or text(part.get("text")) or text(part.get("refusal"))
        thoughts = thoughts or text(part.get("reasoning_content")) or text(part.get("reasoning"))
        voice.text.append(words)
        voice.reasoning.append(thoughts)
        said += words
        thought += thoughts
        called += _called(part, voice)
        if reason := text(choice.get("finish_reason")):
            voice.finished = True
            reply.finish(reason)
        opening = opening or bool(reason or text(part.get("role")))
    grew = running_usage_grew(reply, now, opening)
    reply.running = now
    if len(reply.voices) > 1:
        grew = False
        reply.finished = all(voice.finished for voice in reply.voices.values())
    if not (said or thought or called or grew):
        return None
    reply.begun = True
    return Emission(said, thought, called, now, _arrival_ns(choices[-1].get("arrival_time")))


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(
        prompt_tokens=count(usage.get("prompt_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
        cached_tokens=count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        reasoning_tokens=count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        total_tokens=count(usage.get("total_tokens")),
    )


def _content(value: Any) -> tuple[str, str]:
    """Text and reasoning of a `content`: a string, or parts as in {"type": "text", "text"} and {"type": "thinking", "thinking"}."""
    if isinstance(value, str):
        return value, ""
    said = thought = ""
    for part in mappings(value):
        said += text(part.get("text"))
        thinking = part.get("thinking")
        thought += text(thinking) or "".join(text(piece.get("text")) for piece in mappings(thinking))
    return said, thought


def _called(part: dict[str, Any], voice: Voice) -> str:
    """Names and arguments of a tool-call delta (or of the older function_call), as they came; `voice` has those of each call together."""
    calls = [(place, call, call.get("function") or call.get("custom")) for place, call in enumerate(mappings(part.get("tool_calls")))]
    came = ""
    for place, call, function in [*calls, (0, {}, part.get("function_call"))]:
        named = mapping(function)
        given = named.get("arguments") or named.get("input")
        if said := text(named.get("name")) + (compact(given) if isinstance(given, dict) else text(given)):
            index = count(call.get("index"))
            voice.tool_calls.setdefault(place if index is None else index, []).append(said)
            came += said
    return came


def _arrival_ns(value: Any) -> int | None:
    if type(value) not in (int, float) or not 0 <= value < LONGEST_SPAN_S:
        return None
    return round(float(value) * 1e9)


def _lenient(payload: bytes) -> Any:
    try:
        return json_object(payload)
    except ValueError:
        return payload.decode("utf-8", "replace")
