"""random: synthetic prompts of chosen lengths, exact to the token.

Lengths, of prompts and of answers alike, are whole numbers drawn evenly from floor(L(1-r)) to ceil(L(1+r)), at least 1, with L from
--random-input-len and --random-output-len and r from --random-range-ratio (0 <= r < 1); or as --isl-osl says (lengths.py). On top come
--random-prefix-len tokens that all prompts share.

With a tokenizer, a prompt encoded without special tokens has exactly the length that was drawn: prompts are made of words that are one token each
(pool.py), encoded again to be sure, and mended where they differ. One that cannot be mended stays shorter, never longer, its `prompt_tokens` is the
true count, and a note says how many there are. Without a tokenizer lengths are in words of a fixed list and `prompt_tokens` is unknown.

With --random-batch-size N, or for a backend that ranks documents, each request has N texts (and a query), each with a length of its own.

Behind the shared prefix no two prompts begin alike: as long as there are words enough each has a first word of its own, after that a first pair.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload.base import Prompt, Workload
from loadstone.workload.batched import batched, texts_a_request
from loadstone.workload.exact import exact_texts
from loadstone.workload.lengths import mix_of
from loadstone.workload.pool import Pool, word_pool
from loadstone.workload.seeds import rng_for
from loadstone.workload.words import WORDS

OWN_LENGTHS = {f"--random-{name}": f"random_{name}".replace("-", "_") for name in ("input-len", "output-len", "range-ratio")}
BATCH_TOKENS = 1 << 18  # made, encoded and handed on at once: bounds memory, so that long runs never stand in it as a whole


def load(config: RunConfig, tokenizer: Tokenizer | None) -> Workload:
    _check(config)
    size = texts_a_request(config)
    inputs, outputs = lengths(msgspec.structs.replace(config, num_prompts=size * config.num_prompts))
    notes: list[str] = []
    if tokenizer is None:
        notes.append("no tokenizer: the lengths of random prompts are in words of a built-in list, of about one token each")
    prompts = _prompts(config, tokenizer, inputs, outputs, notes)
    return Workload(prompts=prompts if size == 1 else batched(prompts, size, config.backend), notes=notes)


def bounds(length: int, ratio: float) -> tuple[int, int]:
    """Shortest and longest length, floor(length (1 - ratio)) but at least 1 and ceil(length (1 + ratio)), in exact decimal arithmetic."""
    share = Fraction(repr(ratio))
    return max(1, math.floor(length * (1 - share))), math.ceil(length * (1 + share))


def lengths(config: RunConfig) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Prompt lengths (without the shared prefix) and answer lengths of all requests. The first k are the same for every --num-prompts >= k."""
    if config.isl_osl is not None:
        return mix_of(config.isl_osl).draw(config.num_prompts, config.seed)
    (least_in, most_in), (least_out, most_out) = (
        bounds(length, config.random_range_ratio) for length in (config.random_input_len, config.random_output_len)
    )
    drawn = rng_for(config.seed, "lengths").integers([least_in, least_out], [most_in + 1, most_out + 1], size=(config.num_prompts, 2))
    return drawn[:, 0], drawn[:, 1]


def first_words(number: int, words: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The first two words of `number` prompts, as places in a list of `words`: shape (number, 2). No two rows are alike up to words**2 rows, and no
    two first words up to `words` rows.
    """
    order = np.arange(number)
    first, second = rng.permutation(words), rng.permutation(words)
    return np.stack([first[order % words], second[(order + order // words) % words]], axis=1)


def _check(config: RunConfig) -> None:
    for flag, value, least in (
        ("--random-input-len", config.random_input_len, 1),
        ("--random-output-len", config.random_output_len, 1),
        ("--random-prefix-len", config.random_prefix_len, 0),
    ):
        if value < least:
            raise UsageError(f"{flag} must be at least {least}, not {value}")
    if config.isl_osl is not None and (said := [flag for flag, name in OWN_LENGTHS.items() if getattr(config, name) != getattr(RunConfig(), name)]):
        raise UsageError(f"--isl-osl says all lengths of prompts and answers: leave {', '.join(said)} out")
    if not 0 <= config.random_range_ratio < 1:
        raise UsageError(f"--random-range-ratio must be at least 0 and below 1, not {config.random_range_ratio}")


def _prompts(
    config: RunConfig, tokenizer: Tokenizer | None, inputs: NDArray[np.int64], outputs: NDArray[np.int64], notes: list[str]
) -> Iterator[Prompt]:
    """The prompts, made in batches. When the last one has been taken `notes` says whether any is shorter than it should be."""
    pool = word_pool(tokenizer) if tokenizer else Pool(list(WORDS), " ")
    prefix = _prefix(config, tokenizer, pool)
    starts = first_words(len(inputs), len(pool.words), rng_for(config.seed, "first words"))
    rng = rng_for(config.seed, "prompts")
    short = 0
    for batch in _batches(inputs + config.random_prefix_len):
        bodies = []
        for number in batch:
            places = rng.integers(len(pool.words), size=inputs[number])
            places[:2] = starts[number][: inputs[number]]
            bodies.append([pool.words[place] for place in places.tolist()])
        wanted = (inputs[batch.start : batch.stop] + config.random_prefix_len).tolist()
        made: Sequence[tuple[str, int | None]]
        if tokenizer:
            made = exact_texts(tokenizer, pool, prefix, bodies, wanted, batch, config.seed)
        else:
            made = [(prefix + pool.separator.join(body), None) for body in bodies]
        for number, (text, count), asked in zip(batch, made, wanted, strict=True):
            short += count is not None and count < asked
            yield Prompt(text=text, prompt_tokens=count, output_tokens=int(outputs[number]))
    if short:
        notes.append(f"{short} of {len(inputs)} random prompts are shorter than drawn: the tokenizer merges over every seam; prompt_tokens is true")


def _prefix(config: RunConfig, tokenizer: Tokenizer | None, pool: Pool) -> str:
    """What all prompts begin with, the separator to their own words included."""
    length = config.random_prefix_len
    if length == 0:
        return ""
    words = [pool.words[place] for place in rng_for(config.seed, "prefix").integers(len(pool.words), size=length).tolist()]
    if tokenizer is None:
        return pool.separator.join(words) + pool.separator
    [(text, _)] = exact_texts(tokenizer, pool, "", [words], [length], [-1], config.seed)
    return text + pool.separator


def _batches(sizes: NDArray[np.int64]) -> Iterator[range]:
    """Ranges of prompts whose tokens together are about BATCH_TOKENS."""
    start = total = 0
    for number, size in enumerate(sizes.tolist()):
        total += size
        if total >= BATCH_TOKENS:
            yield range(start, number + 1)
            start, total = number + 1, 0
    if start < len(sizes):
        yield range(start, len(sizes))
