"""--cache-bust: a mark in front of each prompt, so that a server's prefix cache finds nothing, even where a data set repeats itself.

The mark is sixteen hexadecimal digits of SHA-256 over the seed and the request's number (a conversation's, where it is one: its turns share their
past), so that no two requests of a run and no two runs with different seeds begin alike; the same seed gives the same marks.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec

from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload.base import Prompt

BATCH = 256  # prompts that are counted together


def marked(prompts: Iterable[Prompt], seed: int, tokenizer: Tokenizer | None) -> Iterator[Prompt]:
    """`prompts` with their marks; `prompt_tokens`, where it was known, is counted again. Raises UsageError for a prompt that is no text."""
    rest = enumerate(prompts)
    while batch := list(islice(rest, BATCH)):
        before, after = [], []
        made = []
        for number, prompt in batch:
            new, old_text, new_text = _marked(prompt, mark(seed, prompt.conversation if prompt.conversation >= 0 else number))
            made.append(new)
            before.append(old_text)
            after.append(new_text)
        if tokenizer is None:
            yield from (msgspec.structs.replace(prompt, prompt_tokens=None) for prompt in made)
            continue
        counts = tokenizer.count_batch(before + after)
        for prompt, without, with_mark in zip(made, counts, counts[len(made) :], strict=False):
            tokens = None if prompt.prompt_tokens is None else prompt.prompt_tokens + with_mark - without
            yield msgspec.structs.replace(prompt, prompt_tokens=tokens)


def mark(seed: int, number: int) -> str:
    """What request or conversation `number` begins with."""
    return f"[{sha256(f'{seed} {number}'.encode()).hexdigest()[:16]}] "


def _marked(prompt: Prompt, words: str) -> tuple[Prompt, str, str]:
    """The prompt with `words` in front, and the part of it that changed, before and after."""
    if prompt.token_ids is not None or prompt.audio is not None:
        raise UsageError("--cache-bust puts a mark into texts; the prompts of this data set are token ids or audio")
    if prompt.texts is not None:
        texts = [f"{words}{text}" for text in prompt.texts]
        return msgspec.structs.replace(prompt, texts=texts), "".join(prompt.texts), "".join(texts)
    text = words + prompt.text
    if prompt.messages is None:
        return msgspec.structs.replace(prompt, text=text), prompt.text, text
    first, old, new = _message(prompt.messages[0] if prompt.messages else {}, words)
    return msgspec.structs.replace(prompt, messages=[first, *prompt.messages[1:]], text=text if prompt.text else ""), old, new


def _message(message: dict[str, Any], words: str) -> tuple[dict[str, Any], str, str]:
    """A chat message with `words` in front of its text; where it is made of parts, as a part of its own."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": words + content}, content, words + content
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": words}, *content]}, "", words
    raise UsageError("--cache-bust: the first message of a conversation has no content to put a mark into")
