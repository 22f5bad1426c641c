"""Embeddings: POST /v1/embeddings, as OpenAI, vLLM, SGLang, Infinity, TEI and others serve it.

`openai-embeddings` (also called `embeddings`) sends `input`: a text, several texts, or token ids. `infinity-embeddings` is the same at /embeddings.
`openai-embeddings-chat` sends `messages` in place of it, which vLLM turns into one input; `openai-embeddings-clip` sends of a message with images the
images alone. A reply is one JSON document with an embedding for each input: a list of numbers, or such a list in base64. No tokens come out.
"""

from typing import Any

import msgspec

from loadstone.backends.base import Backend, Emission, Options, Prompt, Reply, Usage
from loadstone.backends.openai import failed
from loadstone.backends.wire import count, mapping, mappings
from loadstone.errors import UsageError

Vector = list[float]
BYTES = ("bytes", "bytes_only")  # forms of vLLM's that are no JSON


class Pooling(Backend):
    """What the APIs without tokens out have in common: a whole reply with one result for each input."""

    generates = False
    held_to_request = True
    has_stream = False
    result = "result"  # what it is called in an error
    field = "data"  # where the results stand

    def check(self, options: Options) -> None:
        super().check(options)
        if (form := options.overrides.get("encoding_format")) in BYTES:
            raise UsageError(f"backend {self.name} reads JSON, and encoding_format {form} is none: ask for float or base64")
        if options.overrides.get("stream"):
            raise UsageError(f"backend {self.name} has no streams: leave stream out of --extra-body and --hyperparameter-path")

    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        if failed(document, reply):
            return None
        results = document.get(self.field)
        if not isinstance(results, list):
            reply.fail(f"the reply is JSON without {self.field}")
            return None
        if not results:
            reply.fail(f"the reply has no {self.result}: {self.field} is empty")
            return None
        for number, item in enumerate(results):
            if not (isinstance(item, dict) and self.is_result(item)):
                reply.fail(f"{self.field}[{number}] holds no {self.result}")
                return None
        reply.counts["results"] = len(results)
        reply.usage = self.usage(document)
        reply.finish()
        return None

    def answers(self, request: bytes, reply: Reply) -> None:
        try:
            wanted = self.inputs(mapping(msgspec.json.decode(request)))
        except (ValueError, RecursionError):
            return
        if (got := reply.counts.get("results", 0)) < wanted:
            reply.fail(f"{got} of {wanted} inputs were answered: {self.field} holds {got} of the kind {self.result}")

    def is_result(self, item: dict[str, Any]) -> bool:
        """Whether an entry of the results is one."""
        return is_vector(item.get("embedding"))

    def usage(self, document: dict[str, Any]) -> Usage:
        """The tokens of the inputs. Some servers state their total alone, or 0 beside it."""
        usage = mapping(document.get("usage"))
        total, cached = count(usage.get("total_tokens")), count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
        return Usage(prompt_tokens=count(usage.get("prompt_tokens")) or total, total_tokens=total, cached_tokens=cached)

    def inputs(self, body: dict[str, Any]) -> int:
        """How many results a request asks for."""
        given = body.get("input")
        return len(given) if isinstance(given, list) and given and isinstance(given[0], str | list) else 1


class OpenAIEmbeddings(Pooling):
    result = "embedding"
    takes_texts = True
    takes_token_ids = True

    def __init__(self, name: str, path: str = "/v1/embeddings") -> None:
        self.name, self.path = name, path

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        if prompt.messages is not None and not prompt.text:
            raise UsageError(
                f"backend {self.name} sends texts, and a prompt of this data set has only messages: use --backend openai-embeddings-chat"
            )
        return {"model": prompt.model or options.model, "input": input_of(prompt), **prompt.extra}


class OpenAIEmbeddingsChat(Pooling):
    path = "/v1/embeddings"
    result = "embedding"
    takes_chats = True

    def __init__(self, name: str) -> None:
        self.name = name

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        messages = prompt.messages if prompt.messages is not None else [{"role": "user", "content": prompt.text}]
        if self.name == "openai-embeddings-clip":
            messages = [_images_alone(message) for message in messages]
        return {"model": prompt.model or options.model, "messages": messages, **prompt.extra}


def is_vector(value: Any) -> bool:
    """Whether a value is an embedding: numbers, several lists of them (one a token), or base64."""
    if isinstance(value, str):
        return bool(value)
    if not isinstance(value, list) or not value:
        return False
    try:
        msgspec.convert(value, list[Vector] if isinstance(value[0], list) else Vector)
    except (msgspec.ValidationError, RecursionError, OverflowError):
        return False
    return bool(value[0] != [])


def input_of(prompt: Prompt) -> Any:
    """A prompt as the `input` of a request."""
    if prompt.token_ids is not None:
        return prompt.token_ids
    return prompt.text if prompt.texts is None else prompt.texts


def _images_alone(message: dict[str, Any]) -> dict[str, Any]:
    """Of a message with images those; any other as it is."""
    images = [part for part in mappings(message.get("content")) if part.get("type") in ("image_url", "input_image")]
    return {**message, "content": images} if images else message


def backend(name: str) -> Pooling:
    if name in ("openai-embeddings-chat", "openai-embeddings-clip"):
        return OpenAIEmbeddingsChat(name)
    return OpenAIEmbeddings(name, "/embeddings" if name == "infinity-embeddings" else "/v1/embeddings")
