"""A whole OpenAI stream at once: the common shape of event, decoded into typed structs, about four times as fast as event by event.

Only what is plain is taken: at most one choice an event, strings or null where text is expected, no tool calls, no errors. The structs say so in
their types, so anything else fails to decode, and the reply is read event by event. What is taken means exactly what `openai.OpenAI.read` says.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from loadstone.backends.base import Batch, Reply, Usage

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)] | None
Nothing = Annotated[list[Any], Meta(max_length=0)] | None

LONGEST_SPAN_S = 1e8  # an arrival_time above this is a point in time, not a span; from what, it does not say, so it is left out


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    role: str | None = None
    text: None = None
    refusal: None = None
    tool_calls: Nothing = None
    function_call: None = None


class Choice(msgspec.Struct, gc=False):
    """A chat choice has a `delta`; a completions choice is its own delta."""

    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    arrival_time: float | int | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    role: str | None = None
    content: None = None
    refusal: None = None
    tool_calls: Nothing = None
    function_call: None = None


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: Count = None


class OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: Count = None


class Counts(msgspec.Struct, gc=False):
    prompt_tokens: Count = None
    completion_tokens: Count = None
    total_tokens: Count = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: OutputDetails | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: Annotated[list[Choice], Meta(max_length=1)] | None = None
    usage: Counts | None = None
    error: None = None
    object: Literal["chat.completion.chunk", "text_completion", "chat.completion", "text_completion.chunk"] | None = None


_DECODE = msgspec.json.Decoder(Chunk).decode


def running_usage_grew(reply: Reply, now: int | None, opening: bool) -> bool:
    """Whether an event with choices and `now` output tokens so far brought a token by that alone.

    It did if the event before it had fewer. The first count of a reply says nothing of the kind on an event that names the speaker or that ends the
    reply: there it is a total that rides along.
    """
    if now is None:
        return False
    if reply.running is not None:
        return now > reply.running
    return now > 0 and not reply.begun and not opening


def read_many(payloads: list[bytes], reply: Reply) -> Batch | None:
    """The token events among `payloads`, in order; None, with `reply` untouched, if any of them is out of the common shape."""
    try:
        chunks = list(map(_DECODE, payloads))
    except (ValueError, RecursionError):
        return None
    events: list[int] = []
    texts: list[str] = []
    reasonings: list[str] = []
    running: list[int] = []
    server_ns: list[int] = []
    first_visible: int | None = None
    for at, chunk in enumerate(chunks):
        usage = chunk.usage
        now = None
        if usage is not None:
            reply.usage = reply.usage.then(_usage(usage))
            now = usage.completion_tokens
        choices = chunk.choices
        if not choices:
            reply.running = reply.running if now is None else now
            continue
        choice = choices[0]
        delta = choice.delta
        if delta is not None:
            part: Delta | Choice = delta
            text = delta.content
        else:
            part = choice
            text = choice.text
        if choice.finish_reason:
            reply.finish(choice.finish_reason)
        thought = part.reasoning_content or part.reasoning
        grew = now is not None and running_usage_grew(reply, now, bool(choice.finish_reason or part.role))
        reply.running = now
        if text:
            if first_visible is None:
                first_visible = len(events)
            texts.append(text)
        elif not (thought or grew):
            continue
        if thought:
            reasonings.append(thought)
        reply.begun = True
        events.append(at)
        if now is not None:
            running.append(now)
        arrival = choice.arrival_time
        if arrival is not None and 0 <= arrival < LONGEST_SPAN_S:
            server_ns.append(round(arrival * 1e9))
    return Batch(
        events,
        "".join(texts),
        "".join(reasonings),
        first_visible,
        running if len(running) == len(events) else [],
        server_ns if len(server_ns) == len(events) else [],
    )


def _usage(usage: Counts) -> Usage:
    prompt, output = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=prompt.cached_tokens if prompt is not None else None,
        reasoning_tokens=output.reasoning_tokens if output is not None else None,
        total_tokens=usage.total_tokens,
    )
