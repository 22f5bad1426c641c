"""Ollama: POST /api/chat (`ollama`) and POST /api/generate (`ollama-generate`).

A stream is a JSON object a line. Text is `message.content` or `response`, reasoning `thinking`, a tool call comes whole. The line with `done` ends
the reply; it alone has the counts (`prompt_eval_count`, `eval_count`) and the server's own durations, in nanoseconds. `error` in any line: a failure.

The server's spans: s_e2el = `total_duration`, from the request's coming to its last token; s_ttft = total_duration - eval_duration, from its coming
to its first token, since `eval_duration` begins with that. load_duration + prompt_eval_duration is less: the wait for a free slot is in neither.
"""

from typing import Any

import msgspec

from loadstone.backends.base import Backend, Emission, Event, Options, Prompt, Reply, Usage, json_object
from loadstone.backends.openai import failed
from loadstone.backends.server_times import span_ns
from loadstone.backends.wire import compact, count, mapping, mappings, text
from loadstone.errors import UsageError

DURATIONS = ("load_duration", "prompt_eval_duration", "eval_duration")
# fields of a data set's row or of --extra-body that are options here, by their names here
OPTIONS = {name: name for name in ("temperature", "top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty", "num_predict")}
OPTIONS |= {"max_tokens": "num_predict", "max_completion_tokens": "num_predict"}


class Ollama(Backend):
    name = "ollama"
    path = "/api/chat"
    key_variable = "OLLAMA_API_KEY"
    takes_chats = True
    lines = True
    sampling = frozenset({"temperature", "top_p", "top_k", "min_p"})
    has_logprobs = True

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": prompt.model or options.model,
            **self._asked(prompt),
            "stream": options.stream,
            "options": {"temperature": 0},
        }
        if prompt.output_tokens is not None:
            body["options"]["num_predict"] = prompt.output_tokens
        body["options"] |= options.sampling
        if options.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": options.logprobs}
        return _over(body, prompt.extra)

    def payload(self, prompt: Prompt, options: Options) -> bytes:
        """With the overrides' `options` over those of the body, one by one: a num_ctx must not throw away the wanted length."""
        return msgspec.json.encode(_over(self.body(prompt, options), options.overrides))

    def read(self, event: Event, reply: Reply) -> Emission | None:
        message = json_object(event.data)
        if failed(message, reply):
            return None
        emission = self._emission(message)
        if message.get("done") is True:
            _end(message, reply)
        return emission

    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        if not failed(document, reply) and document.get("done") is not True:
            reply.fail("the reply is JSON that does not say that it is done")
        if reply.error is not None:
            return None
        _end(document, reply)
        return self._emission(document)

    def is_whole(self, line: bytes) -> bool:
        try:
            return json_object(line).get("done") is True
        except ValueError:
            return False

    def _asked(self, prompt: Prompt) -> dict[str, Any]:
        messages = prompt.messages if prompt.messages is not None else [{"role": "user", "content": prompt.text}]
        return {"messages": [_message(message) for message in messages]}

    def _emission(self, message: dict[str, Any]) -> Emission | None:
        part = message.get("message")
        if part is not None and not isinstance(part, dict):
            raise ValueError(f"message is no object: {compact(message)[:200]}")
        return _said(part or {}, "content")


class OllamaGenerate(Ollama):
    name = "ollama-generate"
    path = "/api/generate"
    takes_chats = False

    def _asked(self, prompt: Prompt) -> dict[str, Any]:
        if prompt.messages is not None and not prompt.text:
            raise UsageError(f"backend {self.name} sends text, and a prompt of this data set has only messages: use --backend ollama")
        return {"prompt": prompt.text, "raw": True}

    def _emission(self, message: dict[str, Any]) -> Emission | None:
        return _said(message, "response")


def backend(name: str) -> Ollama:
    return OllamaGenerate() if name == "ollama-generate" else Ollama()


def _said(part: dict[str, Any], field: str) -> Emission | None:
    emission = Emission(text(part.get(field)), text(part.get("thinking")), _tool_calls(part.get("tool_calls")))
    return emission if emission.visible or emission.reasoning else None


def _tool_calls(calls: Any) -> str:
    """Names and arguments; arguments are an object here, not a text."""
    said = ""
    for call in mappings(calls):
        function = mapping(call.get("function"))
        arguments = function.get("arguments")
        said += text(function.get("name")) + (arguments if isinstance(arguments, str) else compact(arguments))
    return said


def _end(message: dict[str, Any], reply: Reply) -> None:
    reason = text(message.get("done_reason")) or None
    if reason in ("load", "unload"):
        reply.fail(f"done_reason {reason}: nothing was generated, as the prompt was empty")
        return
    reply.done = True
    output = count(message.get("eval_count"))
    reply.usage = Usage(prompt_tokens=count(message.get("prompt_eval_count")), output_tokens=output)
    reply.finish(reason)
    spans = {name: span for name in DURATIONS if (span := span_ns(message.get(name), 1)) is not None}
    total, decoding = span_ns(message.get("total_duration"), 1), spans.get("eval_duration")
    if total is not None and output:
        spans["s_e2el"] = total
        if decoding is not None and decoding <= total:
            spans["s_ttft"] = total - decoding
    reply.server_spans |= spans


def _over(body: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """`fields` over `body`; those that are options here go to the options."""
    options, rest = dict(body["options"]), {}
    for name, value in fields.items():
        if name == "options" and isinstance(value, dict):
            options |= value
        elif name in OPTIONS:
            options[OPTIONS[name]] = [value] if name == "stop" and isinstance(value, str) else value
        else:
            rest[name] = value
    return {**body, "options": options, **rest}


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose content is parts, as this API has it: a text, and images in base64."""
    parts = message.get("content")
    if not isinstance(parts, list):
        return message
    texts, images = [], []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        address = text(mapping(part.get("image_url")).get("url")) if kind == "image_url" else ""
        if kind == "text":
            texts.append(text(part.get("text")))
        elif address.startswith("data:") and ";base64," in address:
            images.append(address.partition(";base64,")[2])
        else:
            raise UsageError(f"backend ollama takes texts, and images as data: URLs in base64; a message has a part {kind or 'of no type'!r}")
    return {**message, "content": "\n".join(texts), **({"images": images} if images else {})}
