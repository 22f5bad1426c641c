"""Requests of several texts: a batch to embed, or a query with its documents to rank."""

from collections.abc import Iterable, Iterator
from itertools import islice

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload.base import Prompt
from loadstone.workload.inputs import RERANK, TEXTS, pairs_tokens


def texts_a_request(config: RunConfig) -> int:
    """How many texts make a request of --random-batch-size: so many, and a query where they are documents to rank. Raises UsageError for a backend
    that takes one text.
    """
    size = config.random_batch_size
    if size < 1:
        raise UsageError(f"--random-batch-size must be at least 1, not {size}")
    if size > 1 and config.backend not in TEXTS:
        raise UsageError(f"--random-batch-size {size} is for embeddings; --backend {config.backend} takes one prompt a request")
    return size + (config.backend in RERANK)


def batched(prompts: Iterable[Prompt], size: int, backend: str) -> Iterator[Prompt]:
    """Prompts of `size` texts each, made of prompts of one."""
    rest = iter(prompts)
    while group := list(islice(rest, size)):
        counts = [prompt.prompt_tokens for prompt in group if prompt.prompt_tokens is not None]
        tokens = sum(counts) if len(counts) == size else None
        texts = [prompt.text for prompt in group]
        if backend not in RERANK:
            yield Prompt(texts=texts, prompt_tokens=tokens)
        else:
            yield Prompt(text=texts[0], texts=texts[1:], prompt_tokens=None if tokens is None else pairs_tokens(counts[0], counts[1:]))
