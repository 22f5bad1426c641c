"""Making texts exactly as many tokens long as asked: count, and mend at the end until the count is right."""

from collections.abc import Sequence

from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload.pool import Pool
from loadstone.workload.seeds import rng_for

TRIES = 64


def exact_texts(
    tokenizer: Tokenizer, pool: Pool, lead: str, bodies: Sequence[list[str]], wanted: Sequence[int], numbers: Sequence[int], seed: int
) -> list[tuple[str, int]]:
    """For each body (words of `pool`) the text `lead` + its words joined, mended to `wanted` tokens, with its true count. Bodies are changed.

    Too short a text gets more random words, too long a one loses its last; `numbers` are the texts' own numbers, from which these words are drawn, so
    that a text does not depend on its neighbours. After TRIES rounds a text stays the longest that it came to be without passing `wanted`; UsageError
    where every try passed it.
    """
    texts = [lead + pool.separator.join(body) for body in bodies]
    counts = tokenizer.count_batch(texts)
    off = [place for place, count in enumerate(counts) if count != wanted[place]]
    rngs = {place: rng_for(seed, f"mend {numbers[place]}") for place in off}
    best = {place: (texts[place], counts[place]) for place in off if counts[place] < wanted[place]}
    for _ in range(TRIES):
        if not off:
            break
        for place in off:
            body, missing = bodies[place], wanted[place] - counts[place]
            if missing < 0:
                del body[max(0, len(body) + missing) :]
            if missing > 0 or not body:
                body += [pool.words[number] for number in rngs[place].integers(len(pool.words), size=max(1, missing))]
            texts[place] = lead + pool.separator.join(body)
        for place, count in zip(off, tokenizer.count_batch([texts[place] for place in off]), strict=True):
            counts[place] = count
            if count <= wanted[place] and count > best.get(place, ("", -1))[1]:
                best[place] = texts[place], count
        off = [place for place in off if counts[place] != wanted[place]]
    for place in off:
        if place not in best:
            raise UsageError(
                f"no text of {wanted[place]} tokens or fewer can be made with the tokenizer {tokenizer.name}; ask for longer random prompts"
            )
        texts[place], counts[place] = best[place]
    return list(zip(texts, counts, strict=True))
