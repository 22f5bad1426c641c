"""From the rows of a data set to the prompts of a run: the rules that all data sets share.

Order: as in the file, or shuffled by the seed (--shuffle). More usable rows than --num-prompts: the first of them. Fewer: the rows are repeated in
whole passes, each in a fresh order drawn from the seed, the last pass cut short, so that no row is used two times more often than another; with
--no-oversample the run is as long as the data set. None: UsageError.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload.base import Prompt, Workload
from loadstone.workload.chat import message_texts
from loadstone.workload.seeds import rng_for

T = TypeVar("T")


class Skipped(NamedTuple):
    """A row that cannot be used, and why, in a few words to count by."""

    reason: str


def ordered(config: RunConfig, rows: Sequence[T]) -> list[T]:
    """`rows` in the order in which they are used."""
    if not config.shuffle:
        return list(rows)
    return [rows[number] for number in rng_for(config.seed, "order").permutation(len(rows))]


def workload(config: RunConfig, rows: Iterable[Prompt | Skipped], tokenizer: Tokenizer | None, notes: Sequence[str] = ()) -> Workload:
    """The workload made of `rows`, which are read only as far as they are needed. Prompts without a token count get one where
    there is a tokenizer.
    """
    prompts: list[Prompt] = []
    skipped: Counter[str] = Counter()
    for row in rows:
        if isinstance(row, Skipped):
            skipped[row.reason] += 1
            continue
        prompts.append(row)
        if len(prompts) == config.num_prompts:
            break
    if not prompts:
        reasons = "".join(f"; {number} skipped: {reason}" for reason, number in skipped.most_common())
        raise UsageError(f"the data set {config.dataset_path} has no row that can be used{reasons}")
    notes = list(notes)
    if skipped:
        notes.append(f"{skipped.total()} rows of the data set were skipped: " + ", ".join(f"{reason} ({n})" for reason, n in skipped.most_common()))
    prompts = counted(prompts, tokenizer)
    usable, missing = len(prompts), config.num_prompts - len(prompts)
    if missing and config.no_oversample:
        notes.append(f"the data set has {usable} usable rows for --num-prompts {config.num_prompts}: {usable} requests are sent (--no-oversample)")
    elif missing:
        notes.append(
            f"the data set has {usable} usable rows for --num-prompts {config.num_prompts}: {missing} requests repeat a row, which a server with a "
            f"prefix cache answers faster; --no-oversample sends each row once"
        )
        prompts += [prompts[number] for number in repeats(config.seed, usable, missing)]
    return Workload(prompts=prompts, skipped=dict(skipped.most_common()), notes=notes)


def repeats(seed: int, rows: int, missing: int) -> list[int]:
    """Which of `rows` rows stand for the `missing` ones: whole passes over all of them, each in a fresh random order, the last cut short."""
    rng = rng_for(seed, "repeat")
    numbers: list[int] = []
    while len(numbers) < missing:
        numbers += rng.permutation(rows).tolist()
    return numbers[:missing]


def counted(prompts: list[Prompt], tokenizer: Tokenizer | None) -> list[Prompt]:
    """`prompts` with `prompt_tokens` where it was unknown: the tokens of the text, or of all the conversation's texts (no chat template)."""
    if tokenizer is None:
        return prompts
    texts = [message_texts(prompt.messages) if prompt.messages is not None else [prompt.text] for prompt in prompts if prompt.prompt_tokens is None]
    counts = iter(tokenizer.count_batch([part for parts in texts for part in parts]))
    totals = (sum(next(counts) for _ in parts) for parts in texts)
    return [prompt if prompt.prompt_tokens is not None else msgspec.structs.replace(prompt, prompt_tokens=next(totals)) for prompt in prompts]
