"""The common shape of an OpenAI event, as typed structs.

Only what is plain is taken: at most one choice an event and none but the first, strings or null where text is expected, no tool calls, no errors. The
structs say so in their types, so anything else fails to decode.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from loadstone.backends.wire import MOST_TOKENS

Count = Annotated[int, Meta(ge=0, le=MOST_TOKENS)] | None
Nothing = Annotated[list[Any], Meta(max_length=0)] | None


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

    index: Literal[0] | None = None
    error: None = None

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
    error_code: None = None
    error_msg: None = None
    detail: None = None
    code: None = None
    object: Literal["chat.completion.chunk", "text_completion", "chat.completion", "text_completion.chunk", ""] | None = None


decode = msgspec.json.Decoder(Chunk).decode
