"""--tokenizer-mode mistral: Mistral's own tokenizers, by mistral-common (extra `mistral`).

`--tokenizer` is a tokenizer file (tekken.json, tokenizer.model.v3 ...), a folder or a hub id that has one, or one of the names in CARRIED, whose
files come with the package. mistral-common renders chats to ids, not to text, so there is no chat template for a completions API.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadstone.errors import UsageError
from loadstone.tokenizer.base import Tokenizer
from loadstone.tokenizer.hub import fetch, is_hub_id

CARRIED: dict[str, tuple[str, dict[str, bool]]] = {
    "v1": ("v1", {}),
    "v2": ("v2", {}),
    "v3": ("v3", {}),
    "v3-tekken": ("v3", {"is_tekken": True}),
    "v7": ("v7", {}),
}
FILES = ("tekken.json", "tokenizer.model.v7", "tokenizer.model.v3", "tokenizer.model.v2", "tokenizer.model.v1", "tokenizer.model")


class MistralTokenizer(Tokenizer):
    """Raises UsageError when mistral-common is missing or cannot load `name`."""

    def __init__(self, name: str) -> None:
        try:
            from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
            from mistral_common.tokens.tokenizers.mistral import MistralTokenizer as Library
        except ImportError as error:
            raise UsageError(f"--tokenizer-mode mistral needs the extra `mistral` (pip install 'loadstone[mistral]'): {error}") from None
        self.name, self._keep = name, SpecialTokenPolicy.KEEP
        try:
            whole = _carried(Library, name) if name in CARRIED and not Path(name).exists() else Library.from_file(str(_file(name)))
        except UsageError:
            raise
        except Exception as error:  # mistral-common raises what its parts raise
            raise UsageError(f"mistral-common cannot load the tokenizer {name}: {error}") from None
        self._library = whole.instruct_tokenizer.tokenizer

    def encode(self, text: str) -> list[int]:
        return list(self._library.encode(text, bos=False, eos=False))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._library.decode(list(ids), special_token_policy=self._keep))

    @property
    def vocab_size(self) -> int:
        return int(self._library.n_words)

    def usable_ids(self) -> list[int]:
        return [number for number in range(self.vocab_size) if not self._library.is_special(number)]

    def no_chat_template(self) -> str | None:
        return "mistral-common renders chats to token ids, not to text"


def _carried(library: Any, name: str) -> Any:
    method, flags = CARRIED[name]
    return getattr(library, method)(**flags)


def _file(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_file():
        return path
    found = [path / file for file in FILES if (path / file).is_file()] if path.is_dir() else []
    if not found and not path.exists() and is_hub_id(name):
        found = [file for candidate in FILES if (file := fetch(name, candidate))]
    if not found:
        raise UsageError(
            f"no Mistral tokenizer found under {name}: --tokenizer wants a file such as tekken.json, a folder or hub id with one, or one of "
            f"{', '.join(CARRIED)}"
        )
    return found[0]
