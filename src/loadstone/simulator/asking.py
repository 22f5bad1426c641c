"""What a request asks of the simulated model: JSON bodies in, validated, or an error as the API words it."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from loadstone.simulator.options import SimulatorOptions
from loadstone.simulator.prefix import chained_blocks
from loadstone.simulator.tokens import count_tokens, pieces, token_id

_KINDS = {400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError", 500: "InternalServerError", 503: "ServiceUnavailableError"}


class ApiError(Exception):
    """A refusal: an HTTP status and the error object of OpenAI-compatible servers."""

    def __init__(self, status: int, message: str, *, param: str | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.headers = status, message, param, headers or {}

    def body(self) -> bytes:
        kind = _KINDS.get(self.status, "InvalidRequestError")
        return msgspec.json.encode({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.status}})


class _Part(msgspec.Struct):
    """A piece of a message's content. Images and sounds are taken and cost nothing."""

    text: str | None = None


class _Message(msgspec.Struct):
    content: str | list[_Part] | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Body(msgspec.Struct):
    """What both APIs share. Sampling fields and logprobs are taken and change nothing."""

    model: str | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    n: int | None = None
    best_of: int | None = None
    logprobs: bool | int | None = None


class _Chat(_Body, kw_only=True):
    messages: list[_Message]
    max_completion_tokens: int | None = None


class _Completion(_Body, kw_only=True):
    prompt: str | list[str | int | list[int]]
    echo: bool | None = None


class _Tokenize(msgspec.Struct):
    model: str | None = None
    prompt: str | None = None
    messages: list[_Message] | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One generation, as asked. `limit` is None where the request named none: the model then ends on its own."""

    chat: bool
    stream: bool
    include_usage: bool
    continuous_usage: bool
    prompt_tokens: int
    limit: int | None
    least: int
    ignore_eos: bool
    blocks: tuple[int, ...]


_Form = TypeVar("_Form")


def generation(body: bytes, chat: bool, options: SimulatorOptions) -> Asked:
    """The generation that `body` asks for. Raises ApiError with what a vLLM server would answer."""
    asked: _Chat | _Completion = _decoded(body, _Chat) if chat else _decoded(body, _Completion)
    check_model(asked.model, options)
    if (asked.n or 1) != 1 or (asked.best_of or 1) != 1:
        raise ApiError(400, "This simulated model gives one choice a request: n and best_of must be 1.", param="n")
    if asked.stream_options and not asked.stream:
        raise ApiError(400, "Stream options can only be defined when `stream=True`.", param="stream_options")
    usage = asked.stream_options or _StreamOptions()
    if isinstance(asked, _Chat):
        texts = _texts(asked.messages)
        prompt_tokens = sum(map(count_tokens, texts))
        tokens: Sequence[str | int] = [piece for text in texts for piece in pieces(text)] if options.prefix_cache else []
        limit = asked.max_tokens if asked.max_completion_tokens is None else asked.max_completion_tokens
    else:
        if asked.echo:
            raise ApiError(400, "This simulated model does not echo prompts.", param="echo")
        prompt = _one_prompt(asked.prompt)
        prompt_tokens = count_tokens(prompt) if isinstance(prompt, str) else len(prompt)
        tokens = [] if not options.prefix_cache else pieces(prompt) if isinstance(prompt, str) else prompt
        limit = asked.max_tokens
    prompt_tokens = max(prompt_tokens, 1)
    least = asked.min_tokens or 0
    _check_lengths(prompt_tokens, limit, least, options, where="messages" if chat else "prompt")
    return Asked(
        chat=chat,
        stream=bool(asked.stream),
        include_usage=bool(usage.include_usage),
        continuous_usage=bool(usage.include_usage and usage.continuous_usage_stats),
        prompt_tokens=prompt_tokens,
        limit=limit,
        least=least,
        ignore_eos=bool(asked.ignore_eos),
        blocks=chained_blocks(tokens),
    )


def tokenized(body: bytes, options: SimulatorOptions) -> bytes:
    """The answer to POST /tokenize, in vLLM's form."""
    asked = _decoded(body, _Tokenize)
    check_model(asked.model, options)
    if (asked.prompt is None) == (asked.messages is None):
        raise ApiError(400, "Give either `prompt` or `messages`.")
    texts = [asked.prompt] if asked.prompt is not None else _texts(asked.messages or [])
    tokens = [token_id(piece) for text in texts for piece in pieces(text)]
    return msgspec.json.encode({"count": len(tokens), "max_model_len": options.model_len, "tokens": tokens, "token_strs": None})


def check_model(model: str | None, options: SimulatorOptions) -> None:
    """A request that names no model means the only one there is."""
    if model is not None and model != options.model:
        raise ApiError(404, f"The model `{model}` does not exist.", param="model")


def _decoded(body: bytes, form: type[_Form]) -> _Form:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:  # a wrong type is a DecodeError too
        raise ApiError(400, f"The request body cannot be read: {fault}") from None


def _texts(messages: list[_Message]) -> list[str]:
    texts: list[str] = []
    for message in messages:
        if isinstance(message.content, str):
            texts.append(message.content)
        elif message.content:
            texts += [part.text for part in message.content if part.text]
    return texts


def _one_prompt(prompt: str | list[Any]) -> str | list[int]:
    """A prompt is a text or a list of token ids; a batch of one is that one."""
    if isinstance(prompt, str):
        return prompt
    kinds = {type(item) for item in prompt}
    if kinds == {int}:
        return prompt
    if len(prompt) == 1:
        only: str | list[int] = prompt[0]
        return only
    raise ApiError(400, "This simulated model takes one prompt a request: a text or a list of token ids.", param="prompt")


def _check_lengths(prompt_tokens: int, limit: int | None, least: int, options: SimulatorOptions, where: str) -> None:
    most = options.model_len
    if limit is not None and limit < 1:
        raise ApiError(400, f"max_tokens must be at least 1, got {limit}.", param="max_tokens")
    if least < 0:
        raise ApiError(400, f"min_tokens must be greater than or equal to 0, got {least}.", param="min_tokens")
    if limit is not None and least > limit:
        raise ApiError(400, f"min_tokens must be less than or equal to max_tokens={limit}, got {least}.", param="min_tokens")
    wanted = max(limit or 1, least)
    if prompt_tokens + wanted > most:
        raise ApiError(
            400,
            f"This model's maximum context length is {most} tokens. However, you requested {prompt_tokens + wanted} tokens "
            f"({prompt_tokens} in the {where}, {wanted} in the completion). Please reduce the length of the {where} or completion.",
            param="max_tokens",
        )
