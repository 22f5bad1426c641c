"""--tokenizer-mode slow: transformers' pure Python tokenizer, for models that have no fast one (extra `transformers`)."""

from collections.abc import Sequence
from typing import Any

from loadstone.errors import UsageError
from loadstone.tokenizer.base import Tokenizer


class SlowTokenizer(Tokenizer):
    """The tokenizer of a folder or a hub id. Raises UsageError when transformers is missing or cannot load it."""

    def __init__(self, name: str, *, trust_remote_code: bool) -> None:
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise UsageError(f"--tokenizer-mode slow needs the extra `transformers` (pip install 'loadstone[transformers]'): {error}") from None
        self.name = name
        try:
            self._library = AutoTokenizer.from_pretrained(name, use_fast=False, trust_remote_code=trust_remote_code)
        except Exception as error:  # transformers raises what its parts raise
            raise UsageError(f"transformers cannot load the tokenizer {name}: {error}") from None

    def encode(self, text: str) -> list[int]:
        return list(self._library.encode(text, add_special_tokens=False, verbose=False))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._library.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    @property
    def vocab_size(self) -> int:
        return len(self._library)

    def usable_ids(self) -> list[int]:
        added = {*self._library.all_special_ids, *self._library.get_added_vocab().values()}
        return sorted(number for number in self._library.get_vocab().values() if number not in added)

    def no_chat_template(self) -> str | None:
        return None if self._library.chat_template else super().no_chat_template()

    def apply_chat_template(self, messages: Sequence[dict[str, Any]]) -> str:
        if self.no_chat_template():
            return super().apply_chat_template(messages)
        try:
            return str(self._library.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
        except Exception as error:
            raise UsageError(f"the chat template of the tokenizer {self.name} refuses a conversation: {error}") from None
