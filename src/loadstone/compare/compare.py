"""`loadstone compare` after its flags: read the sides, hold them against the first, print, write, and say by the exit code whether --fail-if was
met."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loadstone.compare.fail_if import Outcome, condition_of, judge
from loadstone.compare.page import markdown, page
from loadstone.compare.read import side
from loadstone.compare.rows import Pair, compare
from loadstone.compare.run import FACTS, Run
from loadstone.errors import UsageError
from loadstone.report.output import write_result

DONE, UNDECIDED, MISSED = 0, 2, 99
SCHEMA = "loadstone.comparison/1"
MOST = 26  # a letter a side


def compare_files(
    names: Sequence[str], *, fail_if: Sequence[str] = (), allow: Sequence[str] = (), json_file: str | None = None, as_markdown: bool = False
) -> int:
    """Compare the results that `names` stand for (read.py), the first being the base. Returns the exit code: 99 if a condition of `fail_if` is
    true, 2 if one cannot be decided, else 0. Raises UsageError for what cannot be read.
    """
    if not 2 <= len(names) <= MOST:
        raise UsageError(f"compare needs 2 to {MOST} results, a base and what is held against it, not {len(names)}")
    if wrong := [name for name in allow if name not in FACTS]:
        raise UsageError(f"--allow {wrong[0]!r}: choose from {', '.join(FACTS)}")
    conditions = [condition_of(text) for text in fail_if]
    sides = [side(name) for name in names]
    pairs = compare(sides, allow, [(each.metric, each.statistic) for each in conditions])
    outcomes = judge(conditions, pairs)
    if as_markdown:
        sys.stdout.write(markdown(sides, pairs, outcomes))
    else:
        page(sides, pairs, outcomes).write(sys.stdout)
    if json_file is not None:
        write_result(Path(json_file), document(sides, pairs, outcomes))
    if any(each.true for each in outcomes):
        return MISSED
    if undecided := [each for each in outcomes if each.true is None]:
        first = undecided[0]
        print(f"loadstone: error: --fail-if {first.condition!r} cannot be decided: {first.why}", file=sys.stderr)
        return UNDECIDED
    return DONE


def document(sides: Sequence[Sequence[Run]], pairs: Sequence[Pair], outcomes: Sequence[Outcome]) -> dict[str, object]:
    """The comparison as --json writes it; docs/compare.md says what each key means."""
    return {
        "schema": SCHEMA,
        "sides": [[{"source": run.source, "tool": run.tool, "facts": run.facts} for run in side] for side in sides],
        "comparisons": [msgspec.to_builtins(pair) for pair in pairs],
        "conditions": [msgspec.to_builtins(each) for each in outcomes],
    }
