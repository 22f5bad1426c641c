"""Conversations: which backends take them, the texts in them, and how one becomes a text for a backend that takes none."""

from collections.abc import Sequence
from typing import Any

from loadstone.tokenizer import Tokenizer

# backends whose `takes_chats` is set (a test holds them equal: a workload knows a backend by its name alone)
CHATS = frozenset({"openai-chat", "fastdeploy", "ollama", "openai-responses", "anthropic", "openai-embeddings-chat", "openai-embeddings-clip"})


def takes_chats(backend: str) -> bool:
    """Whether a backend is sent `messages`; the others are sent a text."""
    return backend in CHATS


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
