"""What a backend is: how a request is encoded for one API family, and what each event of its reply means.

A backend does no I/O and keeps no state between requests. `body` runs before the clock starts; `read` runs in the decoding process, one call an
event, with the `Reply` it is building.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import msgspec

from loadstone.workload.base import Prompt

__all__ = ["Backend", "Emission", "Event", "Options", "Prompt", "Reply", "Usage", "json_object"]


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


class Usage(msgspec.Struct, frozen=True):
    """Token counts as the server stated them; None where it did not."""

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Reply:
    """What is known of one reply while its events are read in order."""

    __slots__ = ("done", "error", "finish_reason", "finished", "usage")

    def __init__(self) -> None:
        self.error: str | None = None
        self.finish_reason: str | None = None
        self.finished = False  # the server said that generation ended
        self.done = False  # the end mark of the stream ([DONE]) was seen
        self.usage = Usage()

    def fail(self, error: Any) -> None:
        """The server reported an error: the first one stands. `error` is a text or the API's error object."""
        raise NotImplementedError

    def finish(self, reason: str | None = None, output_tokens: int | None = None) -> None:
        """The server said that generation ended, and why, and how many tokens it made, where it tells."""
        raise NotImplementedError


class Backend(ABC):
    """One API family."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    path: ClassVar[str]  # default of --endpoint

    @abstractmethod
    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        """The JSON body of one request, before `options.overrides` are merged over it."""

    @abstractmethod
    def read(self, event: Event, reply: Reply) -> Emission | None:
        """What one event of a stream means: an Emission if it is a token event, else None. May update `reply`."""

    @abstractmethod
    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        """What a reply that is one JSON document means."""


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises ValueError naming the payload when it is none."""
    raise NotImplementedError
