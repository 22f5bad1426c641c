"""prefix_repetition: few prefixes, many suffixes, to see what a prefix cache is worth.

There are --prefix-repetition-num-prefixes prefixes of --prefix-repetition-prefix-len tokens, all different from their first word on; each prompt is
one of them and a suffix of --prefix-repetition-suffix-len tokens that no other prompt has. Each prefix stands in as many prompts as any other, or in
one more: exactly --num-prompts are made. Their order is drawn from the seed, so that the prompts of one prefix are spread over the run.

Prompts are exact to the token, as those of data set random are: the whole prompt, encoded without special tokens, has prefix-len + suffix-len tokens.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from loadstone.config import RunConfig
from loadstone.tokenizer import Tokenizer
from loadstone.workload.base import Prompt, Workload
from loadstone.workload.exact import exact_texts
from loadstone.workload.pool import Pool, word_pool
from loadstone.workload.random_text import first_words
from loadstone.workload.seeds import rng_for
from loadstone.workload.words import WORDS

BATCH_TOKENS = 1 << 18  # made, encoded and handed on at once


def load(config: RunConfig, tokenizer: Tokenizer | None) -> Workload:
    prefixes = min(config.prefix_repetition_num_prefixes, config.num_prompts)
    notes = [f"{prefixes} prefixes of {config.prefix_repetition_prefix_len} tokens are shared by {config.num_prompts} prompts"]
    if tokenizer is None:
        notes.append("no tokenizer: the lengths of prefixes and suffixes are in words of a built-in list, of about one token each")
    return Workload(prompts=_prompts(config, tokenizer, prefixes, notes), notes=notes)


def _prompts(config: RunConfig, tokenizer: Tokenizer | None, prefixes: int, notes: list[str]) -> Iterator[Prompt]:
    """The prompts in sending order, made in batches. When the last one has been taken `notes` says whether any is shorter than it should be."""
    pool = word_pool(tokenizer) if tokenizer else Pool(list(WORDS), " ")
    leads = _prefixes(config, tokenizer, pool, prefixes)
    length, number = config.prefix_repetition_suffix_len, config.num_prompts
    order = rng_for(config.seed, "order").permutation(number) % prefixes
    starts = first_words(number, len(pool.words), rng_for(config.seed, "first words"))
    rng = rng_for(config.seed, "prompts")
    wanted = config.prefix_repetition_prefix_len + length
    size = max(1, BATCH_TOKENS // wanted)
    short = 0
    for start in range(0, number, size):
        batch = range(start, min(start + size, number))
        bodies = [_words(pool, rng.integers(len(pool.words), size=length), starts[each]) for each in batch]
        # the prompts of one prefix are made together: they are mended to one length behind one text
        made: dict[int, tuple[str, int | None]] = {}
        for lead in sorted(set(order[batch.start : batch.stop].tolist())):
            mine = [each for each in batch if order[each] == lead]
            found = _texts(config, tokenizer, pool, leads[lead], [bodies[each - start] for each in mine], wanted, mine)
            made.update(zip(mine, found, strict=True))
        for each in batch:
            text, count = made[each]
            short += count is not None and count < wanted
            yield Prompt(text=text, prompt_tokens=count, output_tokens=config.prefix_repetition_output_len)
    if short:
        notes.append(f"{short} of {number} prompts are shorter than asked: the tokenizer merges over every seam; prompt_tokens is true")


def _prefixes(config: RunConfig, tokenizer: Tokenizer | None, pool: Pool, prefixes: int) -> list[str]:
    """The prefixes, each with the separator to what follows it."""
    length = config.prefix_repetition_prefix_len
    if length == 0:
        return [""] * prefixes
    rng = rng_for(config.seed, "prefix")
    starts = first_words(prefixes, len(pool.words), rng)
    bodies = [_words(pool, rng.integers(len(pool.words), size=length), start) for start in starts]
    texts = _texts(config, tokenizer, pool, "", bodies, length, [-1 - place for place in range(prefixes)])
    return [text + pool.separator for text, _ in texts]


def _texts(
    config: RunConfig, tokenizer: Tokenizer | None, pool: Pool, lead: str, bodies: list[list[str]], wanted: int, numbers: Sequence[int]
) -> Sequence[tuple[str, int | None]]:
    if tokenizer is None:
        return [(lead + pool.separator.join(body), None) for body in bodies]
    return exact_texts(tokenizer, pool, lead, bodies, [wanted] * len(bodies), numbers, config.seed)


def _words(pool: Pool, places: "np.ndarray[tuple[int], np.dtype[np.int64]]", start: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[str]:
    places[:2] = start[: len(places)]
    return [pool.words[place] for place in places.tolist()]
