"""prefix_repetition: exact lengths, each prefix equally often, suffixes all different."""

from collections import Counter

import pytest

from loadstone.config import RunConfig
from loadstone.workload import load_workload


def load(tokenizer=None, **fields):
    lengths = {"prefix_len": 12, "suffix_len": 5, "num_prefixes": 3, "output_len": 9}
    config = {f"prefix_repetition_{name}": fields.pop(name, value) for name, value in lengths.items()}
    return load_workload(RunConfig(model="m", dataset_name="prefix_repetition", num_prompts=10, **config, **fields), tokenizer)


def prefixes(prompts, words=12):
    return Counter(" ".join(prompt.text.split()[:words]) for prompt in prompts)


def test_ten_prompts_of_three_prefixes():
    prompts = list(load().prompts)
    assert sorted(prefixes(prompts).values()) == [3, 3, 4]
    assert {len(prompt.text.split()) for prompt in prompts} == {17}
    assert len({prompt.text.split()[12] for prompt in prompts}) == 10  # no two suffixes begin alike
    assert len({prompt.text.split()[0] for prompt in prompts}) == 3
    assert {prompt.output_tokens for prompt in prompts} == {9}


def test_prompts_of_a_prefix_are_spread():
    order = [" ".join(prompt.text.split()[:12]) for prompt in load(seed=3).prompts]
    assert order != sorted(order, key=order.index)


@pytest.mark.parametrize("name", ["bpe", "merging_bpe", "metaspace"])
def test_exact_to_the_token(name, request):
    tokenizer = request.getfixturevalue(name)
    workload = load(tokenizer, prefix_len=40, suffix_len=20)
    prompts = list(workload.prompts)
    assert [prompt.prompt_tokens for prompt in prompts] == [tokenizer.count(prompt.text) for prompt in prompts]
    assert {prompt.prompt_tokens for prompt in prompts} == {60} or "are shorter than asked" in workload.notes[-1]
    shared = Counter(tuple(tokenizer.encode_batch([prompt.text])[0][:36]) for prompt in prompts)  # a merge may reach over the seam
    assert sorted(shared.values()) == [3, 3, 4]


def test_no_prefix_and_fewer_prompts_than_prefixes():
    prompts = list(load(prefix_len=0, num_prefixes=1).prompts)
    assert {len(prompt.text.split()) for prompt in prompts} == {5}
    assert len(prefixes(load(num_prefixes=50).prompts)) == 10


def test_the_seed_decides():
    one, same, other = ([prompt.text for prompt in load(seed=seed).prompts] for seed in (1, 1, 2))
    assert one == same != other
