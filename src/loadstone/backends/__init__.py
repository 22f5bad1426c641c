"""The API families that loadstone speaks, by the names of --backend. A new one is a file beside this and a line below."""

from importlib import import_module

from loadstone.backends.base import Backend
from loadstone.errors import UsageError

# name -> file beside this, whose `backend(name)` makes it: only the one that is used is imported
_BACKENDS = {
    "openai-chat": "openai_chat",
    "openai": "openai_completions",
    "vllm": "openai_completions",
    "lmdeploy": "openai_completions",
    "scalellm": "openai_completions",
    "sglang": "openai_completions",
    "fastdeploy": "fastdeploy",
    "fastdeploy-completions": "fastdeploy",
    "ollama": "ollama",
    "ollama-generate": "ollama",
    "llamacpp": "llamacpp",
    "openai-responses": "openai_responses",
    "openai-audio": "openai_audio",
    "anthropic": "anthropic",
    "openai-embeddings": "openai_embeddings",
    "embeddings": "openai_embeddings",
    "infinity-embeddings": "openai_embeddings",
    "openai-embeddings-chat": "openai_embeddings",
    "openai-embeddings-clip": "openai_embeddings",
    "vllm-pooling": "pooling",
    "rerank": "rerank",
    "vllm-rerank": "rerank",
    "template": "template",
}


def names() -> tuple[str, ...]:
    """Every name that `get` knows."""
    return tuple(_BACKENDS)


def get(name: str, template: str | None = None) -> Backend:
    """The backend of that name. `template`: the file that describes backend template. Raises UsageError listing those there are."""
    if name not in _BACKENDS:
        raise UsageError(f"unknown backend {name!r}: choose one of {', '.join(_BACKENDS)}")
    if (template is not None) != (name == "template"):
        raise UsageError("--backend template and --template FILE go together: the file says how the API is spoken")
    made: Backend = import_module(f"loadstone.backends.{_BACKENDS[name]}").backend(template if name == "template" else name)
    return made
