"""A pool of words whose tokens do not change when the words are joined: what prompts of an exact length are made of.

Random ids decoded to text do not encode to the same ids again: merges reach over the seams. So the pool is chosen by trial. A word joins it when
the word alone is one token and stays one after another word; then random texts of the pool are encoded, and where a seam merged, one of the two words
beside it leaves (the one that is at most such seams), until hardly any seam merges. What is left over is found and mended when prompts are
made.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload.seeds import rng_for

LARGEST, ENOUGH = 8192, 256  # words in a pool; a pool with ENOUGH is not looked beyond
PROBES, PROBE_WORDS, ROUNDS = 512, 32, 40
CHUNK = 8192  # candidates tried at once


class Pool(NamedTuple):
    """Words, and what stands between them. Each is meant to be one token, wherever it stands."""

    words: list[str]
    separator: str


def word_pool(tokenizer: Tokenizer) -> Pool:
    """The first kind of words of which enough are stable, else the largest pool there is. The same tokenizer gives the same pool.

    Raises UsageError when there are not two stable words.
    """
    best = Pool([], " ")
    for separator, fits in _KINDS:
        pool = Pool(_stable(tokenizer, separator, fits), separator)
        best = max(best, pool, key=lambda pool: len(pool.words))
        if len(best.words) >= ENOUGH:
            break
    if len(best.words) < 2:
        raise UsageError(
            f"the tokenizer {tokenizer.name} has no tokens that random prompts of a known length could be made of; give another --tokenizer"
        )
    return best


def _alphabetic(text: str) -> bool:
    return text.isascii() and text.isalpha() and len(text) > 1


def _visible(text: str) -> bool:
    return text.isprintable() and not any(letter.isspace() for letter in text)


_KINDS: tuple[tuple[str, Callable[[str], bool]], ...] = ((" ", _alphabetic), (" ", _visible), ("", _visible))


def _stable(tokenizer: Tokenizer, separator: str, fits: Callable[[str], bool]) -> list[str]:
    found = dict(islice(_candidates(tokenizer, separator, fits), LARGEST))
    words, ids = list(found), list(found.values())
    for trial in range(ROUNDS):
        if len(words) < 2:
            break
        seams = _merging_seams(tokenizer, separator, words, ids, trial)
        if len(seams) <= PROBES // 100:
            break
        bad = _cover(seams)
        kept = [place for place in range(len(words)) if place not in bad]
        words, ids = [words[place] for place in kept], [ids[place] for place in kept]
    return words


def _candidates(tokenizer: Tokenizer, separator: str, fits: Callable[[str], bool]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Words of the vocabulary that are one token alone and one after another word, with both ids, in the order of the ids."""
    usable = tokenizer.usable_ids()
    seen: set[str] = set()
    for start in range(0, len(usable), CHUNK):
        texts = (text.strip() for text in tokenizer.decode_batch([[number] for number in usable[start : start + CHUNK]]))
        fresh = [text for text in dict.fromkeys(texts) if text not in seen and "\ufffd" not in text and text and fits(text)]
        seen.update(fresh)
        for word, ids in zip(fresh, tokenizer.encode_batch([f"{word}{separator}{word}" for word in fresh]), strict=True):
            if len(ids) == 2:
                yield word, (ids[0], ids[1])


def _merging_seams(tokenizer: Tokenizer, separator: str, words: list[str], ids: list[tuple[int, int]], trial: int) -> list[tuple[int, int]]:
    """The first seam of each random text at which its tokens are not its words: the places in `words` of the two words beside it."""
    picks = rng_for(0, f"pool {trial}").integers(len(words), size=(PROBES, PROBE_WORDS))
    heads, tails = np.array(ids).T
    expected = tails[picks]
    expected[:, 0] = heads[picks[:, 0]]
    seams = []
    texts = [separator.join(words[place] for place in row) for row in picks.tolist()]
    for row, wanted, got in zip(picks.tolist(), expected.tolist(), tokenizer.encode_batch(texts), strict=True):
        if wanted != got:
            fault = next((place for place, (one, other) in enumerate(zip(wanted, got, strict=False)) if one != other), min(len(wanted), len(got)))
            fault = min(fault, PROBE_WORDS - 2)
            seams.append((row[fault], row[fault + 1]))
    return seams


def _cover(seams: list[tuple[int, int]]) -> set[int]:
    """Words such that every seam has one of them beside it: again and again the word at most of the seams that are left."""
    chosen: set[int] = set()
    left = seams
    while left:
        counts = Counter(place for seam in left for place in set(seam))
        worst = max(counts, key=lambda place: (counts[place], place))
        chosen.add(worst)
        left = [seam for seam in left if worst not in seam]
    return chosen
