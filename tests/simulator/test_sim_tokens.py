"""The simulated tokenizer and the prefix cache."""

import pytest

from loadstone.simulator.prefix import PrefixCache, chained_blocks
from loadstone.simulator.tokens import WORDS, count_tokens, pieces, reply_words


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("hello", 1),
        ("hello hello\nhello  there", 4),
        ("abcdefghijklmnop", 1),  # 16 characters
        ("abcdefghijklmnopq", 2),
        ("a " + "b" * 33, 4),
    ],
)
def test_count(text: str, tokens: int) -> None:
    assert count_tokens(text) == len(pieces(text)) == tokens


def test_what_the_model_says_counts_as_many_tokens_as_it_made() -> None:
    assert all(count_tokens(word.decode()) == 1 and word.decode() == " " + word.decode().strip() for word in WORDS)
    for stride in (1, 3, 127):
        text = reply_words(5, stride, 0, 128)
        assert count_tokens(text.decode()) == 128
        assert len(set(text.split())) == 128  # an odd stride visits every word
        assert text == b"".join(reply_words(5, stride, token, 1) for token in range(128))


def test_blocks_are_whole_and_depend_on_all_before_them() -> None:
    words = [str(number) for number in range(50)]
    blocks = chained_blocks(words)
    assert len(blocks) == 3
    assert chained_blocks(words[:48]) == blocks
    assert chained_blocks(words[:47]) == blocks[:2]
    changed = chained_blocks(["x", *words[1:]])
    assert not set(changed) & set(blocks)


def test_at_least_one_token_is_computed_and_the_least_used_block_goes() -> None:
    cache = PrefixCache(kv_cache_tokens=48)  # three blocks
    cache.add((1, 2))
    assert cache.cached_tokens((1, 2), prompt_tokens=33) == 32
    assert cache.cached_tokens((1, 2), prompt_tokens=32) == 16
    cache.add((8, 9))  # 1 is the least recently used
    assert cache.cached_tokens((1, 2), prompt_tokens=40) == 0
    assert cache.cached_tokens((8, 9), prompt_tokens=40) == 32
