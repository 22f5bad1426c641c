"""Conversations: which backends take them, the texts in them, and how one becomes a text for a backend that takes none."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loadstone.tokenizer import Tokenizer
from loadstone.values import read_mapping

if TYPE_CHECKING:
    from loadstone.config import RunConfig

# backends whose `takes_chats` is set (a test holds them equal: a workload knows a backend by its name alone)
CHATS = frozenset({"openai-chat", "fastdeploy", "ollama", "openai-responses", "anthropic", "openai-embeddings-chat", "openai-embeddings-clip"})


def takes_chats(config: "RunConfig") -> bool:
    """Whether the run's backend is sent `messages`; the others are sent a text. Backend template does as its file says."""
    if config.backend == "template" and config.template is not None:
        return chats_in(read_mapping(config.template, "--template"))
    return config.backend in CHATS


def chats_in(template: Mapping[str, Any]) -> bool:
    """Whether the API that a template describes takes chats: its `chat`; without one, whether its body has {{messages}}."""
    said = template.get("chat")
    return said if isinstance(said, bool) else "{{messages" in str(template.get("body")).replace(" ", "")


def message_texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Every text that stands in the contents of `messages`, in order; images and other parts are passed over."""
    texts = []
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        texts += [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return texts


def why_no_template(tokenizer: Tokenizer | None) -> str | None:
    """Why no chat template can be applied, as the end of a sentence; None when one can."""
    return "no tokenizer is loaded" if tokenizer is None else tokenizer.no_chat_template()
