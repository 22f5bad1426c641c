"""--tokenizer-mode custom: a tokenizer that another package registers under the entry point group `loadstone.tokenizers`.

The entry point's name is the part of `--tokenizer` before the first colon; what it loads is called with the part after it ("" if there is none) and
returns a `loadstone.tokenizer.Tokenizer`.
"""

from importlib.metadata import entry_points

from loadstone.errors import UsageError
from loadstone.tokenizer.base import Tokenizer

GROUP = "loadstone.tokenizers"


def custom_tokenizer(name: str) -> Tokenizer:
    """The registered tokenizer that `name` (NAME or NAME:ARGUMENT) asks for. Raises UsageError listing those that are there."""
    wanted, _, argument = name.partition(":")
    registered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if wanted not in registered:
        there = f"registered are: {', '.join(sorted(registered))}" if registered else f"none is registered (entry point group {GROUP})"
        raise UsageError(f"--tokenizer-mode custom: there is no tokenizer {wanted!r}; {there}")
    try:
        tokenizer = registered[wanted].load()(argument)
    except Exception as error:  # somebody else's code
        raise UsageError(f"the custom tokenizer {wanted!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(tokenizer, Tokenizer):
        raise UsageError(f"the custom tokenizer {wanted!r} is no loadstone.tokenizer.Tokenizer but a {type(tokenizer).__name__}")
    return tokenizer
