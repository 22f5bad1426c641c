"""What a backend is: how a request is encoded for one API family, and what each event of its reply means.

A backend does no I/O and keeps no state between requests. `body` runs before the clock starts; `read` runs in the decoding process, one call an
event, with the `Reply` it is building.
"""

import json
from abc import ABC, abstractmethod
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadstone.backends.frames import Frames
from loadstone.backends.messages import server_message
from loadstone.errors import UsageError
from loadstone.workload.base import Prompt

__all__ = ["Backend", "Batch", "Emission", "Event", "Frames", "Options", "Prompt", "Reply", "Usage", "encode", "json_object", "merge"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What every request of a run shares. `sampling` are the sampling flags that were given; `overrides` (hyper-parameters, then --extra-body) have
    the last word over anything in the body.
    """

    model: str
    stream: bool = True
    sampling: dict[str, Any] = {}
    ignore_eos: bool = False
    logprobs: int | None = None
    use_beam_search: bool = False
    continuous_usage: bool = False
    max_tokens_field: str | None = None  # spelling of the wanted length that was asked for; None: the backend's first
    pd_metrics: bool = False  # ask for the times of prefill and decoding apart
    overrides: dict[str, Any] = {}


class Event(msgspec.Struct, frozen=True):
    """One server-sent event: its payload (data lines joined by newlines) and its type ('message' unless an event line said otherwise)."""

    data: bytes
    name: str = "message"


class Emission(msgspec.Struct, frozen=True):
    """What a token event brought: text of the visible answer, of the reasoning, or pieces of a tool call; the server's own time of it if it says one.

    `output_tokens` is the running usage after this event, where the server sends one.
    """

    text: str = ""
    reasoning: str = ""
    tool_call: str = ""
    output_tokens: int | None = None
    server_ns: int | None = None

    @property
    def visible(self) -> bool:
        """Whether it belongs to the answer: text or a tool call, not reasoning, not tokens that brought nothing to see."""
        return bool(self.text or self.tool_call)


class Batch(msgspec.Struct):
    """The token events of a whole reply at once. `events`: of each event, whether it is one; the lists after it have one entry a token event, or are
    empty when not every one of them told it.
    """

    events: NDArray[np.bool_]
    text: str
    reasoning: str
    first_visible: int | None  # which of the token events, from 0
    output_tokens: list[int]  # running usage after each
    server_ns: list[int]


class Usage(msgspec.Struct, frozen=True):
    """Token counts as the server stated them; None where it did not."""

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_tokens: int | None = None  # as stated, never added up here

    def then(self, later: "Usage") -> "Usage":
        """This usage after a later one: the last stated value of each count."""
        return Usage(*(old if new is None else new for old, new in zip(msgspec.structs.astuple(self), msgspec.structs.astuple(later), strict=True)))


class Voice:
    """What one choice of a reply has said so far, each channel by itself; of tool calls each call, by its number."""

    __slots__ = ("finished", "reasoning", "text", "tool_calls")

    def __init__(self) -> None:
        self.finished = False
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.tool_calls: dict[int, list[str]] = {}


class Reply:
    """What is known of one reply while its events are read in order."""

    __slots__ = ("begun", "counts", "done", "echo", "error", "finish_reason", "finished", "running", "server_spans", "so_far", "usage", "voices")

    def __init__(self) -> None:
        self.error: str | None = None
        self.finish_reason: str | None = None
        self.finished = False  # the server said that generation ended
        self.done = False  # the end mark of the stream ([DONE]) was seen
        self.usage = Usage()
        self.begun = False  # a token event has come
        self.running: int | None = None  # output tokens so far, by the usage of the last event; None: it had none
        self.so_far = ""  # the text up to here, for APIs that send it whole again and again
        self.counts: dict[str, int] = {}  # parts of a count as last stated, by the API's names, for APIs that state a count in parts
        self.voices: dict[int, Voice] = {}  # of an API with several choices: what each said, by its index
        self.echo: str | int = ""  # what stands before the answer in each text, being the prompt: it, or how many tokens it has
        self.server_spans: dict[str, int] = {}  # nanoseconds that the server says something took, by name; s_ttft and s_e2el are metrics

    def fail(self, error: Any) -> None:
        """The server reported an error: the first one stands. `error` is a text or the API's error object."""
        if self.error is None:
            self.error = server_message(error)

    def finish(self, reason: str | None = None, output_tokens: int | None = None) -> None:
        """The server said that generation ended, and why, and how many tokens it made, where it tells. Of several reasons the last stands, but a bad
        one stays.
        """
        self.finished = True
        if reason is not None and (self.finish_reason or "").lower() not in BAD_FINISHES:
            self.finish_reason = reason
        if output_tokens is not None:
            self.usage = self.usage.then(Usage(output_tokens=output_tokens))


class Backend(ABC):
    """One API family."""

    name: str
    path: str  # default of --endpoint
    content_type = "application/json"
    key_variable = "OPENAI_API_KEY"  # of the environment, for want of --api-key
    takes_chats = False  # it is sent messages; else a text
    takes_texts = False  # a request may hold several texts (Prompt.texts)
    takes_token_ids = False  # a prompt may come as token ids
    held_to_request = False  # `answers` looks at what was asked
    generates = True  # replies hold tokens; else they are whole, and only their time and the tokens of the input count
    lines = False  # a stream is a JSON object a line; else server-sent events
    has_end_mark = True  # a stream says that it is at its end; else that is where its body ends
    has_stream = has_whole = True  # the forms of reply that can be asked for
    sampling: frozenset[str] = frozenset()  # sampling flags it has
    max_tokens_fields: tuple[str, ...] = ()  # spellings of the wanted length, for --max-tokens-field; the first is sent unless asked otherwise
    has_ignore_eos = False
    has_beam_search = False
    has_logprobs = False
    has_continuous_usage = False
    has_pd_metrics = False

    def path_for(self, options: Options) -> str:
        """The default of --endpoint, where it depends on the model or on the form of the reply."""
        return self.path

    def headers(self, key: str) -> dict[str, str]:
        """What this API wants in the head of each request, with the credential `key` ("": there is none)."""
        return {"authorization": f"Bearer {key}"} if key else {}

    @property
    def abroad(self) -> dict[str, str]:
        """Those headers that a host may see to which the server redirects: no credential, and nothing that a person gave."""
        return self.headers("")

    @property
    def secrets(self) -> list[str]:
        """What is in the headers of requests beside the credential and may stand in no output."""
        return []

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        """The JSON body of one request, before `options.overrides` are merged over it. Raises UsageError for a prompt it cannot be sent."""
        raise NotImplementedError

    def read(self, event: Event, reply: Reply) -> Emission | None:
        """What one event of a stream means: an Emission if it is a token event, else None. May update `reply`.

        Raises ValueError, naming the payload, when the event is not what this API sends.
        """
        raise ValueError(f"an event of a stream, which this API does not send: {excerpt(event.data)}")

    @abstractmethod
    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        """What a reply that is one JSON document means."""

    def document(self, body: bytes) -> dict[str, Any]:
        """The body of a reply that is one JSON document, for `read_whole`. Raises ValueError naming it when it is none."""
        return json_object(body)

    def answers(self, request: bytes, reply: Reply) -> None:
        """Fail a `reply` that does not answer all of the request whose body is `request`, and note what of it the request explains; asked of a reply
        without an error, where `held_to_request` is set.
        """
        return

    def is_whole(self, line: bytes) -> bool:
        """Whether a reply of one line is a whole document, not a stream of one event; asked where `lines` is set."""
        return False

    def is_text(self, body: bytes) -> bool:
        """Whether a reply is a bare text, neither JSON nor a stream; it is then read as the document {"text": ...}."""
        return False

    def read_many(self, frames: Frames, reply: Reply) -> Batch | None:
        """The same as `read` over all events of a reply that ended in [DONE] (left out here), faster; None, with `reply` untouched, when a frame is
        none, or when it must be read event by event.
        """
        return None

    def payload(self, prompt: Prompt, options: Options) -> bytes:
        """The whole body of one request as it is sent."""
        return encode(self, prompt, options)

    def notes(self, options: Options) -> list[str]:
        """What a reader of the report must know of what was asked, as sentences."""
        return []

    def check(self, options: Options) -> None:
        """Raises UsageError when the run asks for something that this API has not."""
        asked = {
            "--ignore-eos": options.ignore_eos and not self.has_ignore_eos,
            "--use-beam-search": options.use_beam_search and not self.has_beam_search,
            "--logprobs": options.logprobs is not None and not self.has_logprobs,
            "--continuous-usage-stats": options.continuous_usage and not self.has_continuous_usage,
            "--pd-metrics": options.pd_metrics and not self.has_pd_metrics,
            "--no-stream-request": not options.stream and not self.has_whole,
            f"--max-tokens-field {options.max_tokens_field}": options.max_tokens_field not in (None, *self.max_tokens_fields),
        }
        asked |= {"--" + name.replace("_", "-"): True for name in options.sampling if name not in self.sampling}
        if missing := [flag for flag, lacks in asked.items() if lacks]:
            raise UsageError(
                f"backend {self.name} has no {', '.join(missing)}: leave it out, choose another --backend, or, if your server takes such a field, "
                "send it with --extra-body"
            )


# recover_stop is FastDeploy's: preempted, and "the result is incomplete"
BAD_FINISHES = {"error", "abort", "aborted", "cancelled", "canceled", "recover_stop"}
MAX_TOKENS = {"max_tokens", "max_completion_tokens"}  # spellings of one field


def merge(body: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` over `body`, field by field. A wanted length spelled one way replaces the other spelling: a server that knows both would follow ours."""
    if named := MAX_TOKENS & over.keys():
        body = {name: value for name, value in body.items() if name not in MAX_TOKENS - named}
    return body | over


def encode(backend: Backend, prompt: Prompt, options: Options) -> bytes:
    """The request's body as compact JSON: the backend's, then the overrides, which have the last word.

    A body whose stream they turn off loses `stream_options` (servers refuse one without the other).
    """
    body = merge(backend.body(prompt, options), options.overrides)
    if not body.get("stream") and "stream_options" not in options.overrides:
        body.pop("stream_options", None)
    return msgspec.json.encode(body)


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises ValueError naming the payload when it is none.

    What servers really send is read: NaN and Infinity (log-probabilities), lone surrogates (an emoji cut in two), bytes that are no UTF-8 (they
    become U+FFFD, as in a browser).
    """
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        try:
            value = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"malformed JSON ({error}): {excerpt(data)}") from None
    if not isinstance(value, dict):
        raise ValueError(f"malformed event, no JSON object: {excerpt(data)}")
    return value


def excerpt(data: bytes) -> str:
    """The payload for an error message: one line, at most 200 characters."""
    text = " ".join(data[:1000].decode("utf-8", "replace").split())
    return text if len(text) <= 200 else text[:200] + " ..."
