"""The API families that loadstone speaks, by the names of --backend. A new one is a file beside this and a line below."""

from collections.abc import Callable

from loadstone.backends.base import Backend
from loadstone.backends.openai_chat import OpenAIChat
from loadstone.backends.openai_completions import OpenAICompletions
from loadstone.errors import UsageError

# use_beam_search is a field of vLLM's API; the other servers would ignore it and answer without a beam
_BACKENDS: dict[str, Callable[[], Backend]] = {
    "openai-chat": OpenAIChat,
    "openai": OpenAICompletions,
    "vllm": lambda: OpenAICompletions("vllm"),
    "lmdeploy": lambda: OpenAICompletions("lmdeploy", beam_search=False),
    "scalellm": lambda: OpenAICompletions("scalellm", beam_search=False),
    "sglang": lambda: OpenAICompletions("sglang", beam_search=False),
}


def names() -> tuple[str, ...]:
    """Every name that `get` knows."""
    return tuple(_BACKENDS)


def get(name: str) -> Backend:
    """The backend of that name. Raises UsageError listing those there are."""
    if name not in _BACKENDS:
        raise UsageError(f"unknown backend {name!r}: choose one of {', '.join(_BACKENDS)}")
    return _BACKENDS[name]()
