"""Anthropic's Messages API: POST /v1/messages, as Anthropic, vLLM, SGLang and llama.cpp serve it.

Sent: `messages` without the system's, which go into `system`; `max_tokens`, which the API requires. Read: typed events. A token event is a delta with
text, thinking or a piece of a tool's input, or the start of a block that already has any of them or a tool's name. `message_delta` says why it
stopped and what was used, `message_stop` is the end mark, `error` may come at any time.
Usage states the prompt in parts: what was read from the cache, what was written to it, and the rest; their sum is the prompt.
"""

from typing import Any

from loadstone.backends.base import Backend, Emission, Event, Options, Prompt, Reply, Usage, excerpt, json_object, merge
from loadstone.backends.wire import compact, count, mapping, mappings, text
from loadstone.errors import UsageError

VERSION = "2023-06-01"  # of the API, sent as anthropic-version
MAX_TOKENS = 4096  # where the data set leaves the length to the server, which this API does not allow
DONE = b"[DONE]"  # not Anthropic's; some gateways add it
SYSTEM = ("system", "developer")
PROMPT_PARTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class Anthropic(Backend):
    name = "anthropic"
    path = "/v1/messages"
    key_variable = "ANTHROPIC_API_KEY"
    takes_chats = True
    max_tokens_fields = ("max_tokens",)
    sampling = frozenset({"temperature", "top_p", "top_k"})

    def headers(self, key: str) -> dict[str, str]:
        version = {"anthropic-version": VERSION}
        return {**version, "x-api-key": key} if key else version

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        messages = prompt.messages if prompt.messages is not None else [{"role": "user", "content": prompt.text}]
        body: dict[str, Any] = {"model": prompt.model or options.model, "max_tokens": prompt.output_tokens or MAX_TOKENS}
        if system := [message for message in messages if message.get("role") in SYSTEM]:
            body["system"] = _joined(system)
        body["messages"] = [_message(message) for message in messages if message.get("role") not in SYSTEM]
        body["stream"] = options.stream
        return merge(body | options.sampling, prompt.extra)

    def read(self, event: Event, reply: Reply) -> Emission | None:
        payload = event.data.strip()
        if payload == DONE:
            reply.done = True
            return None
        if event.name == "ping" or not payload:
            return None
        try:
            message = json_object(payload)
        except ValueError:
            if event.name != "error":
                raise
            reply.fail(payload.decode("utf-8", "replace"))
            return None
        if event.name == "error" or _failed(message):
            reply.fail(_error(message))
            return None
        kind = text(message.get("type")) or (event.name if event.name != "message" else "")
        emission = None
        if kind == "content_block_delta":
            emission = _delta(mapping(message.get("delta")))
        elif kind == "content_block_start":
            emission = _block(mapping(message.get("content_block")))
        elif kind == "message_start":
            _state(mapping(mapping(message.get("message")).get("usage")), reply, begins=True)
        elif kind == "message_delta":
            _state(mapping(message.get("usage")), reply)
            if reason := text(mapping(message.get("delta")).get("stop_reason")):
                reply.finish(reason)
        elif kind == "message_stop":
            reply.done = True
        elif not kind:
            raise ValueError(f"an event without a type, which /v1/messages does not send: {excerpt(payload)}")
        if emission is not None:
            reply.begun = True
        return emission

    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        if _failed(document):
            reply.fail(_error(document))
            return None
        if not isinstance(document.get("content"), list):
            reply.fail("the reply is JSON without content, so no message of /v1/messages")
            return None
        _state(mapping(document.get("usage")), reply)
        reply.finish(text(document.get("stop_reason")) or None)
        blocks = [block for item in mappings(document["content"]) if (block := _block(item)) is not None]
        said, thought, called = ("".join(getattr(block, channel) for block in blocks) for channel in ("text", "reasoning", "tool_call"))
        return Emission(said, thought, called) if blocks else None


def _delta(delta: dict[str, Any]) -> Emission | None:
    """A text_delta, thinking_delta or input_json_delta; signatures and citations are no tokens."""
    said, thought, called = text(delta.get("text")), text(delta.get("thinking")), text(delta.get("partial_json"))
    return Emission(said, thought, called) if said or thought or called else None


def _block(block: dict[str, Any]) -> Emission | None:
    """What a block of content holds by itself: all of it in a whole reply, most often nothing but a tool's name where it starts in a stream.

    What a tool of the server's answered (web_search_tool_result and the like) is no output of the model.
    """
    kind = text(block.get("type"))
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        called = text(block.get("name")) + compact(block.get("input"))
        return Emission(tool_call=called) if called else None
    said, thought = (text(block.get("text")) if kind == "text" else ""), (text(block.get("thinking")) if kind == "thinking" else "")
    return Emission(said, thought) if said or thought else None


def _state(usage: dict[str, Any], reply: Reply, begins: bool = False) -> None:
    """The last value of each count stands. At the beginning of a stream the output is a placeholder, so it is left out there."""
    reply.counts |= {name: number for name in PROMPT_PARTS if (number := count(usage.get(name))) is not None}
    details = mapping(usage.get("output_tokens_details"))
    reply.usage = reply.usage.then(
        Usage(
            prompt_tokens=sum(reply.counts.values()) if "input_tokens" in reply.counts else None,
            output_tokens=None if begins else count(usage.get("output_tokens")),
            cached_tokens=reply.counts.get("cache_read_input_tokens"),
            reasoning_tokens=None if begins else count(details.get("thinking_tokens")),
        )
    )


def _failed(message: dict[str, Any]) -> bool:
    return message.get("type") == "error" or message.get("error") not in (None, False, "")


def _error(message: dict[str, Any]) -> Any:
    """The server's words, its type of error before them: "overloaded_error: Overloaded"."""
    error = mapping(message.get("error"))
    kind, said = text(error.get("type")), text(error.get("message"))
    return f"{kind}: {said}" if kind and said else message.get("error") or message


def _joined(system: list[dict[str, Any]]) -> Any:
    """The system's messages as one text where they are texts; else as blocks."""
    contents = [message.get("content") for message in system]
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(map(str, contents))
    return [part for content in contents for part in (content if isinstance(content, list) else [{"type": "text", "text": content}])]


def _message(message: dict[str, Any]) -> dict[str, Any]:
    """One message of a chat in this API's form: its text as it is, its images as this API has them."""
    if message.get("role") not in ("user", "assistant") or message.get("tool_calls"):
        raise UsageError(
            f"backend anthropic sends messages of a user and an assistant, and one of this data set has the role {message.get('role')!r} or calls "
            "tools in OpenAI's way: use --backend openai-chat"
        )
    content = message.get("content")
    return {**message, "content": [_part(part) for part in content]} if isinstance(content, list) else message


def _part(part: Any) -> Any:
    """An `image_url` of OpenAI's as an image of this API's; anything else as it is."""
    url = mapping(part.get("image_url")).get("url") if isinstance(part, dict) and part.get("type") == "image_url" else None
    if not isinstance(url, str):
        return part
    head, _, data = url.partition(";base64,")
    if head.startswith("data:") and data:
        return {"type": "image", "source": {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}}
    return {"type": "image", "source": {"type": "url", "url": url}}


def backend(_name: str) -> Anthropic:
    return Anthropic()
