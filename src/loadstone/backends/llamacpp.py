"""llama.cpp's own API: POST /completion.

Events have `content`, and the tokens so far in `tokens_predicted` (older servers: not before the end); the one with `stop` is the last, and no [DONE]
comes after it. That one has the counts, why it ended (`stop_type`; older servers: stopped_eos, stopped_limit, stopped_word) and `timings`.
`tokens_evaluated` is the whole prompt, and `timings.cache_n` what of it was in the cache; `tokens_cached` is something else: what the slot holds at
the end.

The server's spans: s_ttft = `prompt_ms`, from taking up the prompt to the first token; s_e2el = prompt_ms + `predicted_ms`. The wait for a free slot
is in neither. With `timings_per_token` in the request every event has timings, and with them its own time.
"""

from typing import Any

import msgspec

from loadstone.backends.base import Backend, Emission, Event, Options, Prompt, Reply, Usage, json_object
from loadstone.backends.openai import DONE, failed
from loadstone.backends.openai_batch import running_usage_grew
from loadstone.backends.server_times import span_ns
from loadstone.backends.wire import count, mapping, text
from loadstone.errors import UsageError

STOPPED = {"stopped_eos": "eos", "stopped_limit": "limit", "stopped_word": "word"}
LENGTHS = ("max_tokens", "max_completion_tokens")  # the wanted length in rows of data sets that were made for other APIs


class LlamaCpp(Backend):
    name = "llamacpp"
    path = "/completion"
    sampling = frozenset({"temperature", "top_p", "top_k", "min_p"})
    has_ignore_eos = True
    has_logprobs = True
    takes_token_ids = True

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        if prompt.messages is not None and not prompt.text:
            raise UsageError(f"backend {self.name} sends text, and a prompt of this data set has only messages: use --backend openai-chat")
        body: dict[str, Any] = {"model": prompt.model or options.model, "prompt": prompt.text if prompt.token_ids is None else prompt.token_ids}
        if prompt.output_tokens is not None:
            body["n_predict"] = prompt.output_tokens
        body |= {"stream": options.stream, "temperature": 0, **options.sampling}
        if options.ignore_eos:
            body["ignore_eos"] = True
        if options.logprobs is not None:
            body["n_probs"] = options.logprobs
        return body | _named(prompt.extra)

    def payload(self, prompt: Prompt, options: Options) -> bytes:
        return msgspec.json.encode(self.body(prompt, options) | _named(options.overrides))

    def read(self, event: Event, reply: Reply) -> Emission | None:
        payload = event.data.strip()
        if payload == DONE:
            reply.done = True
            return None
        message = json_object(payload)
        if event.name == "error":
            reply.fail(message)
        if reply.error is not None or failed(message, reply):
            return None
        last = message.get("stop") is True
        said, now = text(message.get("content")), count(message.get("tokens_predicted"))
        grew = running_usage_grew(reply, now, last)
        reply.running = now
        if last:
            _end(message, reply)
            reply.done = True
        if not (said or grew):
            return None
        timed = reply.begun or not last  # the last event always has timings; they are its own time only where the others have theirs
        reply.begun = True
        return Emission(said, output_tokens=now, server_ns=_spans(message).get("s_e2el") if timed else None)

    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        if failed(document, reply):
            return None
        if not isinstance(document.get("content"), str):
            reply.fail("the reply is JSON without content")
            return None
        _end(document, reply)
        return Emission(document["content"])


def backend(_name: str) -> LlamaCpp:
    return LlamaCpp()


def _end(message: dict[str, Any], reply: Reply) -> None:
    stopped = next((reason for field, reason in STOPPED.items() if message.get(field) is True), None)
    reply.finish(text(message.get("stop_type")) or stopped)
    reply.usage = Usage(
        prompt_tokens=count(message.get("tokens_evaluated")),
        output_tokens=count(message.get("tokens_predicted")),
        cached_tokens=count(mapping(message.get("timings")).get("cache_n")),
    )
    reply.server_spans |= _spans(message)


def _spans(message: dict[str, Any]) -> dict[str, int]:
    timings = mapping(message.get("timings"))
    prompt, predicted = span_ns(timings.get("prompt_ms"), 1e6), span_ns(timings.get("predicted_ms"), 1e6)
    if prompt is None or predicted is None:
        return {}
    return {"s_ttft": prompt, "s_e2el": prompt + predicted, "prompt": prompt, "predicted": predicted}


def _named(fields: dict[str, Any]) -> dict[str, Any]:
    """`fields` with the wanted length by its name here."""
    return {"n_predict" if name in LENGTHS else name: value for name, value in fields.items()}
