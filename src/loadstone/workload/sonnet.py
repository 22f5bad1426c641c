"""sonnet: prompts made of the lines of a poem, with a beginning that all of them share.

--dataset-path is a text file (vLLM's benchmarks carry one of Shakespeare's sonnets). A prompt asks for lines of a poem and then holds lines of the
file: first those that all prompts share, the file's own first lines up to --sonnet-prefix-len tokens, then lines drawn from the seed, up to
--sonnet-input-len tokens in all, the instruction included. Lines are whole, so a prompt is up to one line shorter than asked, never longer;
`prompt_tokens` is its true count. Without a tokenizer lengths are in words.
"""

from collections.abc import Iterator
from pathlib import Path

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload.base import Prompt, Workload
from loadstone.workload.files import read_text
from loadstone.workload.seeds import rng_for

INSTRUCTION = "Pick as many lines as you can from these poem lines:\n"
CHUNK = 256  # prompts whose tokens are counted at once


def load(config: RunConfig, tokenizer: Tokenizer | None) -> Workload:
    path, text = read_text(config)
    lines = [line + "\n" for line in text.splitlines() if line.strip()]
    if not lines:
        raise UsageError(f"the data set {path} (--dataset-path) holds no line of text")
    sizes = _sizes(tokenizer, [INSTRUCTION, *lines])
    base, sizes = sizes[0], sizes[1:]
    shared = _shared(config, path, base, sizes)
    notes = [] if tokenizer else ["no tokenizer: the lengths of sonnet prompts are in words"]
    if shared:
        notes.append(f"all prompts begin with the first {shared} lines of {path.name} (--sonnet-prefix-len)")
    return Workload(prompts=_prompts(config, tokenizer, lines, sizes, base, shared), notes=notes)


def _sizes(tokenizer: Tokenizer | None, texts: list[str]) -> list[int]:
    return tokenizer.count_batch(texts) if tokenizer else [len(text.split()) for text in texts]


def _shared(config: RunConfig, path: Path, base: int, sizes: list[int]) -> int:
    """How many of the first lines all prompts share."""
    if min(sizes) > config.sonnet_input_len - base:
        raise UsageError(
            f"--sonnet-input-len {config.sonnet_input_len} is too short: the instruction and the shortest line take {base + min(sizes)} tokens"
        )
    total, shared = base, 0
    for size in sizes:
        if total + size > config.sonnet_prefix_len:
            return shared
        total, shared = total + size, shared + 1
    if config.sonnet_prefix_len - total > max(sizes):
        raise UsageError(f"--sonnet-prefix-len {config.sonnet_prefix_len} is longer than the whole of {path}, which has {total - base} tokens")
    return shared


def _prompts(config: RunConfig, tokenizer: Tokenizer | None, lines: list[str], sizes: list[int], base: int, shared: int) -> Iterator[Prompt]:
    rng = rng_for(config.seed, "prompts")
    lead, room = INSTRUCTION + "".join(lines[:shared]), config.sonnet_input_len - base - sum(sizes[:shared])
    for start in range(0, config.num_prompts, CHUNK):
        drawn: list[list[str]] = []
        for _ in range(start, min(start + CHUNK, config.num_prompts)):
            chosen: list[str] = []
            left = room
            while True:
                number = int(rng.integers(len(lines)))
                if sizes[number] > left:
                    break
                chosen.append(lines[number])
                left -= sizes[number]
            drawn.append(chosen)
        counts = tokenizer.count_batch([lead + "".join(chosen) for chosen in drawn]) if tokenizer else [None] * len(drawn)
        for chosen, count in zip(drawn, counts, strict=True):
            while tokenizer and count is not None and count > config.sonnet_input_len and chosen:  # lines can be longer together than apart
                chosen.pop()
                count = tokenizer.count(lead + "".join(chosen))
            yield Prompt(text=lead + "".join(chosen), prompt_tokens=count, output_tokens=config.sonnet_output_len)
