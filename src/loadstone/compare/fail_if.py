"""--fail-if: what a comparison must not show, in words such as 'p99 ttft worse by 5%'.

    [STATISTIC] METRIC worse [by NUMBER UNIT]

Statistics and metrics are those of --slo (docs/thresholds.md). % is of the first side's value; of error rate it is percentage points. Other units
are those of --slo. It is true when the difference is shown (the row's verdict is worse) and larger than the number: both, so that neither chance
nor a trifle fails a build. A row that is not comparable or cannot have a verdict makes it undecided, which is an error and not a pass.
"""

import re
from collections.abc import Iterable

import msgspec

from loadstone.compare.rows import NOT_COMPARABLE, WORSE, Pair, Row
from loadstone.errors import UsageError
from loadstone.metrics.thresholds import threshold_of

EXAMPLES = "'p99 ttft worse by 5%', 'mean tpot worse by 2ms', 'output throughput worse by 3%' or 'error rate worse'"
_FORM = re.compile(r"(?P<what>.+?)\s+worse(?:\s+by\s+(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z%/]*))?", re.IGNORECASE)
_ROWS = {"request throughput": "requests", "output throughput": "output", "total throughput": "total", "goodput": "goodput", "error rate": "errors"}
_UNITS = ("ms", "tokens", "tok/s", "req/s", "%")  # one of them is each metric's


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """`amount` is in the row's own unit, or in per cent of A's value where `relative`."""

    text: str
    metric: str
    statistic: str
    amount: float = 0.0
    relative: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a condition. `true` is None where it cannot be decided."""

    condition: str
    true: bool | None
    why: str


def condition_of(text: str) -> Condition:
    """The condition that `text` describes. Raises UsageError naming --fail-if and what could stand there."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--fail-if {text!r} is no condition: write, for example, {EXAMPLES}")
    what, number, unit = found["what"], found["number"], (found["unit"] or "").lower()
    own = _own_unit(what, text)
    relative = unit == "%" and own != "%"
    wanted = own if number is None or relative else unit
    read = _threshold(f"{what} <= {number or 0}{wanted}", text)
    metric = _ROWS.get(read.metric, read.metric)
    amount = float(number or 0)
    if not relative:
        amount *= 1.0 if metric == "errors" else read.per_unit
    statistic = "median" if read.statistic.startswith("p") and float(read.statistic[1:]) == 50 else read.statistic
    return Condition(text=" ".join(text.split()), metric=metric, statistic=statistic, amount=amount, relative=relative)


def _own_unit(what: str, text: str) -> str:
    for unit in _UNITS:
        if what.lower().strip() == "goodput" and unit == "%":
            continue
        try:
            threshold_of(f"{what} <= 0{unit}")
        except UsageError:
            continue
        return unit
    _threshold(f"{what} <= 0ms", text)  # says what is wrong
    raise UsageError(f"--fail-if {text!r} is no condition: write, for example, {EXAMPLES}")


def _threshold(threshold: str, text: str):  # type: ignore[no-untyped-def]
    try:
        return threshold_of(threshold)
    except UsageError as error:
        said = str(error).partition("; write, for example")[0].partition(": write, for example")[0]
        raise UsageError(f"{said.replace(f'--slo {threshold!r}', f'--fail-if {text!r}')}; for example {EXAMPLES}") from None


def judge(conditions: Iterable[Condition], pairs: Iterable[Pair]) -> list[Outcome]:
    """What became of each condition in each pair."""
    pairs = list(pairs)
    return [_judged(condition, pair, f"{pair.name}: " if len(pairs) > 1 else "") for condition in conditions for pair in pairs]


def _judged(condition: Condition, pair: Pair, mark: str) -> Outcome:
    row = next((row for row in pair.rows if (row.metric, row.statistic) == (condition.metric, condition.statistic)), None)
    if row is None:
        return Outcome(condition=condition.text, true=None, why=f"{mark}not on both sides")
    if row.verdict == NOT_COMPARABLE:
        return Outcome(condition=condition.text, true=None, why=f"{mark}{NOT_COMPARABLE}: {row.why}")
    if row.verdict != WORSE and row.low_value is None:
        return Outcome(condition=condition.text, true=None, why=f"{mark}{row.why}")
    large = _size(row, condition) > condition.amount
    change = "" if row.percent is None else f" ({row.percent:+.1f} %)"
    return Outcome(condition=condition.text, true=row.verdict == WORSE and large, why=f"{mark}{row.verdict}{change}")


def _size(row: Row, condition: Condition) -> float:
    """How much there is of the difference; from nothing to something is more than any share."""
    if not condition.relative:
        return abs(row.difference)
    return float("inf") if row.percent is None else abs(row.percent)
