"""spec_bench: Spec-Bench's questions, JSON lines, for servers that decode speculatively.

Rows have `turns`, a list of which the first is the prompt, and `category` (writing, coding, translation, summarization, qa, math_reasoning, rag ...).
--spec-bench-category takes only the rows of one; --spec-bench-output-len is the most tokens of an answer.
"""

from collections import Counter

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.values import nearest
from loadstone.workload.base import Prompt, Workload
from loadstone.workload.files import Row, json_lines
from loadstone.workload.sampling import ordered, workload


def load(config: RunConfig, tokenizer: Tokenizer | None) -> Workload:
    rows = json_lines(config)
    wanted = config.spec_bench_category
    if wanted is not None:
        categories = Counter(str(row.fields.get("category")) for row in rows)
        rows = [row for row in rows if row.fields.get("category") == wanted]
        if not rows:
            there = ", ".join(f"{name} ({count})" for name, count in categories.most_common())
            raise UsageError(f"--spec-bench-category {wanted}: {config.dataset_path} has no such rows{nearest(wanted, categories)}; it has {there}")
    return workload(config, ordered(config, [_prompt(row, config.spec_bench_output_len) for row in rows]), tokenizer)


def _prompt(row: Row, output_tokens: int) -> Prompt:
    turns = row.fields.get("turns")
    if not isinstance(turns, list) or not turns or not isinstance(turns[0], str) or not turns[0].strip():
        raise UsageError(f"{row.place}: `turns` must be a list whose first entry is a text that is not empty")
    return Prompt(text=turns[0], output_tokens=output_tokens)
