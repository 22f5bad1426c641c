"""LoRA adapters: round robin, seeded choice, and that neither shifts any other draw."""

from collections import Counter

import msgspec
import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload
from loadstone.workload.seeds import rng_for


def prompts(count=7, seed=3, **fields):
    config = RunConfig(model="base", num_prompts=count, seed=seed, random_input_len=5, random_range_ratio=0.5, **fields)
    return list(load_workload(config, None).prompts)


def models(**fields):
    return [prompt.model for prompt in prompts(lora_modules=["a", "b", "c"], **fields)]


def test_round_robin():
    assert models(lora_assignment="round-robin") == ["a", "b", "c", "a", "b", "c", "a"]


def test_random_choice_is_seeded_even_and_the_same_for_more_requests():
    chosen = models(count=3000)
    assert chosen == models(count=3000) and chosen[:7] == models(count=7)
    assert chosen != models(count=3000, seed=4)
    assert all(abs(number - 1000) < 130 for number in Counter(chosen).values())  # five standard deviations
    assert set(chosen) == {"a", "b", "c"}


def test_adapters_shift_no_other_draw():
    assert [msgspec.structs.replace(prompt, model=None) for prompt in prompts(lora_modules=["a", "b"])] == prompts()


def test_unknown_assignment():
    with pytest.raises(UsageError, match="--lora-assignment zipf is unknown: give one of random, round-robin"):
        models(lora_assignment="zipf")


def test_streams_of_a_seed_are_apart_and_pinned():
    drawn = {purpose: rng_for(0, purpose).integers(10**9, size=2).tolist() for purpose in ("order", "repeat", "lengths", "prompts", "gaps", "lora")}
    assert len({tuple(values) for values in drawn.values()}) == len(drawn)
    assert drawn["order"] != rng_for(1, "order").integers(10**9, size=2).tolist()
    assert drawn["gaps"] == PINNED_GAPS
    with pytest.raises(UsageError, match="--seed"):
        rng_for(-1, "order")


PINNED_GAPS = [20224562, 244235750]
