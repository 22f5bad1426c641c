"""What a tokenizer is here: text to token ids and back, without special tokens, and how many there are."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from loadstone.errors import UsageError


class Tokenizer(ABC):
    """One tokenizer. Special tokens are never added; those that stand written in a text are read as a server would read them.

    A tokenizer of one's own needs `encode`, `decode`, `vocab_size` and `usable_ids`; the rest has working defaults.
    """

    name: str  # what the person called it: a path, a hub id, a name

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, no special tokens added."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`. Not always the inverse of `encode`: some tokenizers lose or move spaces."""

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """How many ids there are, special and added ones included."""

    @abstractmethod
    def usable_ids(self) -> list[int]:
        """Ids of ordinary vocabulary, ascending: no special tokens and no added ones."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]

    def count(self, text: str) -> int:
        """How many tokens `text` is, no special tokens added."""
        return self.count_batch([text])[0]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in self.encode_batch(texts)]

    def no_chat_template(self) -> str | None:
        """Why `apply_chat_template` cannot work here, as the end of a sentence; None when it can."""
        return f"the tokenizer {self.name} has no chat template"

    def apply_chat_template(self, messages: Sequence[dict[str, Any]]) -> str:
        """`messages` as the one text that the model expects, ending where its answer begins. Raises UsageError where there is no template."""
        raise UsageError(f"{self.no_chat_template()}; use a chat backend such as openai-chat, which leaves this to the server")
