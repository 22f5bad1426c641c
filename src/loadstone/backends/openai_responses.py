"""OpenAI's Responses API: POST /v1/responses, as OpenAI, vLLM, SGLang and llama.cpp serve it.

Sent: `input`, with the system's words at its head in `instructions`, and `store: false`, so that no reply is kept. Read: typed events. A token event
is a delta of text, refusal, reasoning, a summary of reasoning, or a tool's input, or the start of a tool call that names it. `response.completed` and
`response.incomplete` hold status and usage and are the end mark (vLLM calls an incomplete response completed; its status tells);
`response.failed` and `error` are failures. The ends of texts and items repeat what the deltas brought and say nothing new.
"""

from typing import Any

from loadstone.backends.base import Backend, Emission, Event, Options, Prompt, Reply, Usage, excerpt, json_object, merge
from loadstone.backends.wire import count, mapping, mappings, text
from loadstone.errors import UsageError

DONE = b"[DONE]"  # not OpenAI's; some servers and gateways add it
TEXT = ("response.output_text.delta", "response.refusal.delta")
REASONING = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
TOOL_CALL = (
    *("response.function_call_arguments.delta", "response.custom_tool_call_input.delta", "response.mcp_call_arguments.delta"),
    *("response.code_interpreter_call_code.delta", "response.shell_call_command.delta"),
)
LAST = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
ENDED = ("completed", "incomplete")  # statuses of a response that is one
PARTS = {"text": {"user": "input_text", "assistant": "output_text"}, "image_url": {"user": "input_image"}}  # a chat's part: its name here, by role


class OpenAIResponses(Backend):
    name = "openai-responses"
    path = "/v1/responses"
    takes_chats = True
    max_tokens_fields = ("max_output_tokens",)
    sampling = frozenset({"temperature", "top_p", "top_k"})
    has_ignore_eos = True
    has_logprobs = True

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        body: dict[str, Any] = {"model": prompt.model or options.model}
        if prompt.messages is None:
            body["input"] = prompt.text
        else:
            head = _head(prompt.messages)
            if head:
                body["instructions"] = "\n\n".join(message["content"] for message in prompt.messages[:head])
            body["input"] = [_item(message) for message in prompt.messages[head:]]
        if prompt.output_tokens is not None:
            body["max_output_tokens"] = prompt.output_tokens
        if options.logprobs is not None:
            body |= {"top_logprobs": options.logprobs, "include": ["message.output_text.logprobs"]}
        body |= {"stream": options.stream, "store": False, "temperature": 0, **options.sampling}
        if options.ignore_eos:
            body["ignore_eos"] = True
        return merge(body, prompt.extra)

    def read(self, event: Event, reply: Reply) -> Emission | None:
        payload = event.data.strip()
        if payload == DONE:
            reply.done = True
            return None
        if not payload:
            return None
        try:
            message = json_object(payload)
        except ValueError:
            if event.name != "error":
                raise
            reply.fail(payload.decode("utf-8", "replace"))
            return None
        kind = text(message.get("type")) or (event.name if event.name != "message" else "")
        if kind == "error" or event.name == "error" or _error(message) is not None:
            reply.fail(_error(message) or message)
            return None
        emission = None
        if kind in TEXT:
            emission = Emission(text=text(message.get("delta")))
        elif kind in REASONING:
            emission = Emission(reasoning=text(message.get("delta")))
        elif kind in TOOL_CALL:
            emission = Emission(tool_call=text(message.get("delta")))
        elif kind == "response.output_item.added":
            emission = Emission(tool_call=_called(mapping(message.get("item")))[0])
        elif kind in LAST:
            response = mapping(message.get("response"))
            _end(response, kind.removeprefix("response."), reply)
            reply.done = reply.error is None
            if not reply.begun:  # a server that has no deltas: what it says, it says now
                emission = _output(response.get("output"))
        elif not kind:
            raise ValueError(f"an event without a type, which /v1/responses does not send: {excerpt(payload)}")
        if emission is None or not (emission.text or emission.reasoning or emission.tool_call):
            return None
        reply.begun = True
        return emission

    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        if _error(document) is not None:
            reply.fail(_error(document))
        elif not isinstance(document.get("output"), list):
            reply.fail(document if document.get("object") == "error" else "the reply is JSON without output, so no response of /v1/responses")
        else:
            _end(document, "completed", reply)
        return _output(document.get("output"))


def _error(message: dict[str, Any]) -> Any:
    """The error in a message; None if there is none."""
    error = message.get("error")
    return None if error in (False, "") else error


def _end(response: dict[str, Any], said: str, reply: Reply) -> None:
    """What a response in its last state says: whether it is one, why it ended, and what it used. `said`: its status, if it does not tell."""
    usage = mapping(response.get("usage"))
    reply.usage = reply.usage.then(
        Usage(
            prompt_tokens=count(usage.get("input_tokens")),
            output_tokens=count(usage.get("output_tokens")),
            cached_tokens=count(mapping(usage.get("input_tokens_details")).get("cached_tokens")),
            reasoning_tokens=count(mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
            total_tokens=count(usage.get("total_tokens")),
        )
    )
    status = text(response.get("status")) or said
    if said == "failed" or _error(response) is not None:
        reply.fail(_error(response) or "the server says that the response failed")
    elif said == "cancelled" or status not in ENDED:
        reply.fail(f"the response has the status {status}")
    else:
        if said == "incomplete":
            status = said
        reason = text(mapping(response.get("incomplete_details")).get("reason")) if status == "incomplete" else ""
        reply.finish(reason or status)


def _output(items: Any) -> Emission | None:
    """All that a response's items hold: texts and refusals, reasoning (its own text before a summary of it), tool calls."""
    said = thought = called = ""
    for item in mappings(items):
        parts = mappings(item.get("content"))
        if item.get("type") == "reasoning":
            thought += "".join(text(part.get("text")) for part in parts) or "".join(text(part.get("text")) for part in mappings(item.get("summary")))
        else:
            said += "".join(text(part.get("text")) or text(part.get("refusal")) for part in parts)
        called += "".join(_called(item))
    return Emission(said, thought, called) if said or thought or called else None


def _called(item: dict[str, Any]) -> tuple[str, str]:
    """Name and arguments of a tool call; empty for an item that is none."""
    if not text(item.get("type")).endswith("_call"):
        return "", ""
    return text(item.get("name")), text(item.get("arguments")) or text(item.get("input"))


def _head(messages: list[dict[str, Any]]) -> int:
    """How many messages at the beginning are the system's, and texts."""
    head = 0
    while head < len(messages) and messages[head].get("role") in ("system", "developer") and isinstance(messages[head].get("content"), str):
        head += 1
    return head


def _item(message: dict[str, Any]) -> dict[str, Any]:
    """One message of a chat as an item of this API's input: parts of its content by the names that they have here."""
    if message.get("role") == "tool" or message.get("tool_calls"):
        raise UsageError(
            "backend openai-responses sends the messages of a user and an assistant, and one of this data set calls tools or answers for one, which "
            "this API writes in another way: use --backend openai-chat"
        )
    content, role = message.get("content"), "assistant" if message.get("role") == "assistant" else "user"
    return {**message, "content": [_part(part, role) for part in content]} if isinstance(content, list) else message


def _part(part: Any, role: str) -> Any:
    name = PARTS.get(text(part.get("type")), {}).get(role) if isinstance(part, dict) else None
    if name is None:
        return part
    if name == "input_image":
        image = mapping(part.get("image_url"))
        return {"type": name, "image_url": image.get("url"), **{key: value for key, value in image.items() if key == "detail"}}
    return {**part, "type": name}


def backend(_name: str) -> OpenAIResponses:
    return OpenAIResponses()
