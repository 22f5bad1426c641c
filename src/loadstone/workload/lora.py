"""LoRA adapters: which one each request asks for as its model."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from loadstone.errors import UsageError
from loadstone.workload.base import Prompt

if TYPE_CHECKING:
    import numpy as np

ASSIGNMENTS = ("random", "round-robin")


def assign_models(prompts: Iterable[Prompt], modules: Sequence[str], assignment: str, rng: "np.random.Generator") -> Iterator[Prompt]:
    """`prompts` in order, each with one of `modules` as its model: request i gets modules[i mod k] (round-robin), or each an equally likely one,
    drawn from `rng` (random). Raises UsageError for an unknown assignment or an empty list.
    """
    if assignment not in ASSIGNMENTS:
        raise UsageError(f"--lora-assignment {assignment} is unknown: give one of {', '.join(ASSIGNMENTS)}")
    if not modules:
        raise UsageError("--lora-modules wants at least one adapter name")
    return _assigned(prompts, modules, assignment, rng)


def _assigned(prompts: Iterable[Prompt], modules: Sequence[str], assignment: str, rng: "np.random.Generator") -> Iterator[Prompt]:
    for number, prompt in enumerate(prompts):
        choice = number % len(modules) if assignment == "round-robin" else int(rng.integers(len(modules)))
        yield msgspec.structs.replace(prompt, model=modules[choice])
