"""Random prompts: exact to the token with every kind of tokenizer, evenly drawn lengths, no accidental shared prefix, the same again from a seed."""

from collections import Counter

import numpy as np
import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload
from loadstone.workload.exact import exact_texts
from loadstone.workload.pool import Pool, word_pool
from loadstone.workload.random_text import _batches, bounds, first_words, lengths
from loadstone.workload.seeds import rng_for
from loadstone.workload.words import WORDS

KINDS = ["bpe", "merging_bpe", "metaspace", "wordpiece", "letters"]


def config(**fields):
    return RunConfig(model="m", dataset_name="random", **{"num_prompts": 50, "random_input_len": 64, **fields})


def prompts(tokenizer=None, **fields):
    return list(load_workload(config(**fields), tokenizer).prompts)


def test_the_merging_tokenizer_does_not_round_trip(merging_bpe):
    ids = rng_for(0, "test").choice(merging_bpe.usable_ids(), 1024).tolist()
    assert len(merging_bpe.encode(merging_bpe.decode(ids))) != 1024


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_are_exact_to_the_token(kind, request):
    tokenizer = request.getfixturevalue(kind)
    workload = load_workload(config(random_input_len=1024, num_prompts=50), tokenizer)
    made = list(workload.prompts)
    assert [len(tokenizer.encode(prompt.text)) for prompt in made] == [1024] * 50
    assert [prompt.prompt_tokens for prompt in made] == [1024] * 50
    assert sum(prompt.prompt_tokens for prompt in made) == 51200
    assert workload.notes == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_shared_prefix_comes_on_top(kind, request):
    tokenizer = request.getfixturevalue(kind)
    made = prompts(tokenizer, random_prefix_len=40, random_input_len=20, random_range_ratio=0.5)
    own, _ = lengths(config(random_input_len=20, random_range_ratio=0.5))
    assert [len(tokenizer.encode(prompt.text)) for prompt in made] == [40 + length for length in own]
    prefix = made[0].text
    for prompt in made:
        prefix = prefix[: next((place for place, (a, b) in enumerate(zip(prefix, prompt.text, strict=False)) if a != b), len(prefix))]
    assert len(tokenizer.encode(prefix.strip())) >= 40


@pytest.mark.parametrize("kind", ["bpe", "metaspace", "wordpiece"])
def test_trimming_by_a_chat_template_changes_no_count(kind, request):
    tokenizer = request.getfixturevalue(kind)
    assert all(prompt.text == prompt.text.strip() for prompt in prompts(tokenizer))


def test_short_prompts_down_to_one_token(merging_bpe):
    made = prompts(merging_bpe, random_input_len=2, random_range_ratio=0.5, num_prompts=200)
    counts = [len(merging_bpe.encode(prompt.text)) for prompt in made]
    assert counts == [prompt.prompt_tokens for prompt in made]
    assert set(counts) == {1, 2, 3}


def test_without_a_tokenizer_lengths_are_words():
    workload = load_workload(config(random_input_len=30, random_prefix_len=5), None)
    made = list(workload.prompts)
    assert all(len(prompt.text.split(" ")) == 35 and prompt.prompt_tokens is None for prompt in made)
    assert set(" ".join(prompt.text for prompt in made).split(" ")) <= set(WORDS)
    assert len({prompt.text[: len(" ".join(prompt.text.split(" ")[:5]))] for prompt in made}) == 1
    assert "words" in workload.notes[0]


@pytest.mark.parametrize(
    ("length", "ratio", "expected"),
    [
        (1024, 0.0, (1024, 1024)),
        (100, 0.1, (90, 110)),  # 100 * 1.1 is 110.00000000000001 in floats
        (1000, 0.333, (667, 1333)),
        (10, 0.25, (7, 13)),  # floor 7.5, ceil 12.5
        (1, 0.9, (1, 2)),  # never 0
        (3, 0.7, (1, 6)),
    ],
)
def test_bounds_of_lengths(length, ratio, expected):
    assert bounds(length, ratio) == expected


def test_lengths_are_drawn_evenly_and_reach_both_ends():
    inputs, outputs = lengths(config(num_prompts=42_000, random_input_len=100, random_output_len=10, random_range_ratio=0.1))
    counts = Counter(inputs.tolist())
    assert sorted(counts) == list(range(90, 111))
    assert all(abs(number - 2000) < 5 * 45 for number in counts.values())  # sd sqrt(42000 * 1/21 * 20/21) = 43.6
    assert sorted(set(outputs.tolist())) == [9, 10, 11]
    assert abs(np.corrcoef(inputs, outputs)[0, 1]) < 0.03


def test_output_lengths_go_with_the_prompts():
    made = prompts(random_output_len=128, random_range_ratio=0.25, num_prompts=500)
    assert [prompt.output_tokens for prompt in made] == lengths(config(random_output_len=128, random_range_ratio=0.25, num_prompts=500))[1].tolist()
    assert {96, 160} <= {prompt.output_tokens for prompt in made} <= set(range(96, 161))


def test_first_words_differ_then_first_pairs():
    pairs = [tuple(row) for row in first_words(100, 10, rng_for(0, "test")).tolist()]
    assert len(set(pairs)) == 100
    assert len({first for first, _ in pairs[:10]}) == 10


@pytest.mark.parametrize("kind", [None, "bpe"])
def test_no_two_prompts_begin_alike(kind, request):
    tokenizer = kind and request.getfixturevalue(kind)
    words = len(word_pool(tokenizer).words) if tokenizer else len(WORDS)
    made = prompts(tokenizer, num_prompts=min(words, 400), random_prefix_len=3, random_input_len=8)
    starts = [prompt.text.split(" ")[3] for prompt in made]
    assert len(set(starts)) == len(starts)


def test_same_seed_same_prompts_and_the_first_do_not_depend_on_how_many(merging_bpe):
    few, many = prompts(merging_bpe, num_prompts=20, random_range_ratio=0.3), prompts(merging_bpe, num_prompts=60, random_range_ratio=0.3)
    assert few == many[:20] == prompts(merging_bpe, num_prompts=20, random_range_ratio=0.3)
    assert prompts(merging_bpe, num_prompts=20, random_range_ratio=0.3, seed=1) != few


def test_prompts_are_pinned_across_machines():
    assert prompts(num_prompts=2, random_input_len=6)[0].text == PINNED


PINNED = "city animal rule their chance low"


def test_prompts_come_in_batches_of_bounded_size():
    batches = list(_batches(np.full(1000, 1024)))
    assert [number for batch in batches for number in batch] == list(range(1000))
    assert max(map(len, batches)) == 256
    assert [len(batch) for batch in _batches(np.full(3, 10**6))] == [1, 1, 1]


def test_mending_makes_long_and_short_texts_exact(bpe):
    pool = word_pool(bpe)
    long, short = pool.words[:30], pool.words[:5]
    made = exact_texts(bpe, pool, "", [list(long), list(short)], [12, 12], [0, 1], 0)
    assert [len(bpe.encode(text)) for text, _ in made] == [12, 12] == [count for _, count in made]
    assert made[0][0] == " ".join(long[:12]) and made[1][0].startswith(" ".join(short))


def test_mending_reaches_the_length_though_the_words_merge_and_whatever_the_neighbours(merging_bpe):
    pool = Pool(list(WORDS[:60]), " ")  # words that were learnt in each other's company
    rng = rng_for(0, "test")
    bodies = [[pool.words[place] for place in rng.integers(60, size=64)] for _ in range(30)]
    assert any(merging_bpe.count(" ".join(body)) != 64 for body in bodies)
    made = exact_texts(merging_bpe, pool, "", [list(body) for body in bodies], [64] * 30, range(30), 0)
    assert [len(merging_bpe.encode(text)) for text, _ in made] == [64] * 30
    assert [exact_texts(merging_bpe, pool, "", [list(bodies[k])], [64], [k], 0)[0] for k in range(30)] == made


class PairMerging:
    """Two tokens for every two words and for a last odd one: an odd number of tokens cannot be had."""

    name = "pairs"

    def count_batch(self, texts):
        return [2 * ((len(text.split()) + 1) // 2) for text in texts]


def test_what_cannot_be_exact_stays_shorter_with_its_true_count():
    pool = Pool(["a", "b"], " ")
    [(text, count)] = exact_texts(PairMerging(), pool, "", [["a"] * 7], [7], [0], 0)
    assert count == 6 and len(text.split()) in (5, 6)
    with pytest.raises(UsageError, match="tokenizer pairs"):
        exact_texts(PairMerging(), pool, "", [["a"]], [1], [0], 0)


def test_every_word_of_the_pool_is_a_token_of_its_own(bpe):
    pool = word_pool(bpe)
    assert pool == word_pool(bpe) and len(pool.words) == len(set(pool.words)) >= 256
    assert len(bpe.encode(pool.separator.join(pool.words))) == len(pool.words)
    assert len(WORDS) == len(set(WORDS)) >= 200


@pytest.mark.parametrize(
    ("fields", "flag"),
    [
        ({"random_input_len": 0}, "--random-input-len"),
        ({"random_output_len": 0}, "--random-output-len"),
        ({"random_prefix_len": -1}, "--random-prefix-len"),
        ({"random_range_ratio": 1.0}, "--random-range-ratio"),
        ({"random_range_ratio": -0.1}, "--random-range-ratio"),
        ({"random_range_ratio": float("nan")}, "--random-range-ratio"),
        ({"random_batch_size": 2}, "--random-batch-size 2"),
        ({"random_batch_size": 2, "backend": "openai-embeddings-chat"}, "--random-batch-size 2"),
        ({"random_batch_size": 0, "backend": "openai-embeddings"}, "--random-batch-size must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_by_the_flags_name(fields, flag):
    with pytest.raises(UsageError, match=flag):
        load_workload(config(**fields), None)


def test_a_mixture_of_lengths_is_exact_to_the_token_too(bpe):
    made = list(load_workload(RunConfig(model="m", num_prompts=40, isl_osl="20:3@1,70:9@1", random_prefix_len=5), bpe).prompts)
    lengths_of = {(len(bpe.encode(prompt.text)), prompt.output_tokens) for prompt in made}
    assert lengths_of == {(25, 3), (75, 9)}


def test_lengths_are_said_once():
    with pytest.raises(UsageError, match="leave --random-input-len out"):
        prompts(isl_osl="20:3")


def test_requests_of_several_texts(bpe):
    made = list(load_workload(RunConfig(model="m", backend="openai-embeddings", num_prompts=3, random_input_len=8, random_batch_size=4), bpe).prompts)
    assert [len(prompt.texts) for prompt in made] == [4, 4, 4] and [prompt.prompt_tokens for prompt in made] == [32, 32, 32]
    assert len({text for prompt in made for text in prompt.texts}) == 12
    assert {len(bpe.encode(text)) for prompt in made for text in prompt.texts} == {8}


def test_a_query_and_its_documents(bpe):
    [prompt] = load_workload(RunConfig(model="m", backend="rerank", num_prompts=1, random_input_len=8, random_batch_size=3), bpe).prompts
    assert prompt.text and len(prompt.texts) == 3 and prompt.prompt_tokens == 3 * (8 + 8)
    [prompt] = load_workload(RunConfig(model="m", backend="rerank", num_prompts=1, random_input_len=8), None).prompts
    assert prompt.text and len(prompt.texts) == 1 and prompt.prompt_tokens is None
