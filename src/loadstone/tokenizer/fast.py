"""The usual tokenizer: a `tokenizer.json`, read by the `tokenizers` library, which works on all cores."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from loadstone.errors import UsageError
from loadstone.tokenizer.base import Tokenizer
from loadstone.tokenizer.chat_template import ChatTemplate, find_chat_template

FILE = "tokenizer.json"
Neighbour = Callable[[str], Path | None]  # a file of the same tokenizer by its name, or None


class FastTokenizer(Tokenizer):
    """`neighbour` finds the files that lie beside tokenizer.json (the chat template's); it is only asked when a template is wanted.

    Raises UsageError when the file cannot be read or is none.
    """

    def __init__(self, name: str, file: Path, neighbour: Neighbour) -> None:
        from tokenizers import Tokenizer as Library

        self.name, self._neighbour = name, neighbour
        try:
            self._library = Library.from_file(str(file))
        except Exception as error:  # the library raises a bare Exception for a bad file
            raise UsageError(
                f"cannot read the tokenizer file {file}: {error}; --tokenizer wants a tokenizer.json of Hugging Face's tokenizers"
            ) from None
        self._library.no_truncation()  # a file may ask for either; both would falsify counts
        self._library.no_padding()

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._encodings(texts)]

    def count_batch(self, texts: Sequence[str]) -> list[int]:
        return [len(encoding) for encoding in self._encodings(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        return self._library.decode(ids, skip_special_tokens=False)

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        return self._library.decode_batch(batch, skip_special_tokens=False)

    @property
    def vocab_size(self) -> int:
        return self._library.get_vocab_size(with_added_tokens=True)

    def usable_ids(self) -> list[int]:
        added = self._library.get_added_tokens_decoder()
        return sorted(number for number in self._library.get_vocab(with_added_tokens=False).values() if number not in added)

    def no_chat_template(self) -> str | None:
        return self._template if isinstance(self._template, str) else None

    def apply_chat_template(self, messages: Sequence[dict[str, Any]]) -> str:
        return super().apply_chat_template(messages) if isinstance(self._template, str) else self._template.render(messages)

    @cached_property
    def _template(self) -> ChatTemplate | str:
        return find_chat_template(self.name, self._neighbour)

    def _encodings(self, texts: Sequence[str]) -> list[Any]:
        try:
            return self._library.encode_batch_fast(list(texts), add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):  # half of a surrogate pair, which no UTF-8 can hold
            whole = [text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts]
            return self._library.encode_batch_fast(whole, add_special_tokens=False)
