"""The rows of a comparison: one a metric and statistic, with both values, their difference, how sure it is, and a verdict."""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from loadstone.compare.alike import different, unlike
from loadstone.compare.difference import Difference, holm
from loadstone.compare.estimate import Estimate, Series, joined, mean, percentile, rate, repeated
from loadstone.compare.run import HIGHER, Run

BETTER, WORSE, NONE_SHOWN, NOT_COMPARABLE = "better", "worse", "no difference shown", "not comparable"
PER_SECOND = ("requests", "output", "total", "goodput")
RATES = (*PER_SECOND, "errors")
LATENCIES = ("ttft", "ttfot", "tpot", "itl", "icl", "e2el", "response_ttft", "response_e2el", "s_ttft", "s_itl", "s_e2el", "s_decode")
FILE_ERROR = 1e-3  # samples whose figure is farther than this from the file's are samples of something else
NO_SAMPLES = "no interval: a single run without per-request data"


class Row(msgspec.Struct, kw_only=True):
    """`difference` = B - A in the row's unit; `percent`, `low` and `high` in per cent of A's value, None where that is 0."""

    metric: str
    statistic: str
    a: float
    b: float
    difference: float
    percent: float | None = None
    low: float | None = None
    high: float | None = None
    low_value: float | None = None  # the interval in the row's unit
    high_value: float | None = None
    p_value: float | None = None
    verdict: str = NONE_SHOWN
    why: str = ""  # not comparable, or no interval, for this reason
    remark: str = ""


class Pair(msgspec.Struct, kw_only=True):
    """One side held against the first."""

    name: str  # B, C ...
    unlike: dict[str, str]
    rows: list[Row]
    remarks: list[str] = []


def compare(sides: Sequence[Sequence[Run]], allowed: Collection[str] = (), statistics: Collection[tuple[str, str]] = ()) -> list[Pair]:
    """Each side after the first against the first. `allowed`: facts that may differ; `statistics`: (metric, statistic) rows wanted besides those that
    the files have. Verdicts hold at 5 % over all rows of all pairs together.
    """
    pairs = []
    for number, side in enumerate(sides[1:], 1):
        faults = different(sides[0], side, allowed)
        rows = list(_rows(sides[0], side, statistics))
        for row in rows:
            if faults and not row.why.startswith("definitions"):
                row.verdict, row.why = NOT_COMPARABLE, ", ".join(f"other {name}" for name in faults)
        pairs.append(Pair(name=chr(ord("A") + number), unlike=faults, rows=rows))
    judged = [row for pair in pairs for row in pair.rows if row.p_value is not None and row.verdict != NOT_COMPARABLE]
    for row, shown in zip(judged, holm([row.p_value or 0.0 for row in judged]), strict=True):
        if shown:
            row.verdict = BETTER if (row.difference > 0) == (row.metric in HIGHER) else WORSE
    return pairs


def _rows(a: Sequence[Run], b: Sequence[Run], wanted: Collection[tuple[str, str]]) -> Iterator[Row]:
    for metric in (*RATES, *LATENCIES, *dict.fromkeys(metric for metric, _ in wanted if metric not in (*RATES, *LATENCIES))):
        reason, remark = unlike(a, b, metric)
        for statistic in _statistics(a, b, metric, wanted):
            left, right = _estimate(a, b, metric, statistic), _estimate(b, a, metric, statistic)
            if left is None or right is None:
                continue
            if reason:
                row = Row(metric=metric, statistic=statistic, a=left.value, b=right.value, difference=right.value - left.value)
                row.verdict, row.why = NOT_COMPARABLE, f"definitions: {reason}"
            else:
                row = _row(metric, statistic, Difference(left, right), single=len(a) == len(b) == 1)
                row.remark = remark
            yield row


def _row(metric: str, statistic: str, found: Difference, single: bool) -> Row:
    row = Row(metric=metric, statistic=statistic, a=found.a.value, b=found.b.value, difference=found.value, p_value=found.p_value())
    scale = 100 / abs(row.a) if row.a else None
    row.percent = None if scale is None else row.difference * scale
    if (interval := found.interval()) is not None:
        row.low_value, row.high_value = interval
        row.low, row.high = (None, None) if scale is None else (interval[0] * scale, interval[1] * scale)
    elif found.known:
        row.why = "no interval: too few requests for this percentile"
    else:
        row.why = NO_SAMPLES if single else "no interval: runs without per-request data, and no repeats"
    return row


def _statistics(a: Sequence[Run], b: Sequence[Run], metric: str, wanted: Collection[tuple[str, str]]) -> list[str]:
    """Those that a file of either side has, and those that are wanted, in order: mean, median, percentiles."""
    if metric in RATES:
        return [""]
    told = {name for run in (*a, *b) for name in run.figures.get(metric, {}) if name not in ("min", "max")}
    return sorted(told | {name for other, name in wanted if other == metric}, key=_order)


def _order(statistic: str) -> float:
    fixed = {"min": -1.0, "mean": 0.0, "median": 50.0, "max": 101.0}
    return fixed[statistic] if statistic in fixed else float(statistic[1:])


def _estimate(side: Sequence[Run], others: Sequence[Run], metric: str, statistic: str) -> Estimate | None:
    """The side's value with its error; None where one of its runs has no such value."""
    each = [found for run in side if (found := _single(run, metric, statistic)) is not None]
    if len(each) < len(side):
        return None
    if len(side) == 1 and len(others) == 1:
        return each[0]
    elsewhere = [found.value for run in others if (found := _single(run, metric, statistic)) is not None]
    return repeated(_pooled(side, metric, statistic, each), [found.value for found in each], elsewhere)


def _single(run: Run, metric: str, statistic: str) -> Estimate | None:
    """One run's value: of its samples, with their error; else the file's figure, bare."""
    told = run.figures.get(metric, {}).get(statistic)
    if told is not None and metric in run.rates:
        return rate(told, run.rates[metric].bins)
    sampled = _sampled(run, metric, statistic)
    return sampled if sampled is not None or told is None else Estimate(told)


def _sampled(run: Run, metric: str, statistic: str) -> Estimate | None:
    """The estimate of the run's samples; None without samples, and where they give another figure than the file: they are samples of something
    else."""
    if metric not in run.samples:
        return None
    found = _of(run.samples[metric], statistic)
    told = run.figures.get(metric, {}).get(statistic)
    return found if told is None or abs(found.value - told) <= FILE_ERROR * abs(told) else None


def _of(series: Series, statistic: str) -> Estimate:
    if statistic in ("mean", ""):
        return mean(series)
    fixed = {"median": 50.0, "min": 0.0, "max": 100.0}
    return percentile(series, fixed[statistic] if statistic in fixed else float(statistic[1:]))


def _pooled(side: Sequence[Run], metric: str, statistic: str, each: Sequence[Estimate]) -> float:
    """One value of several runs: of all their samples together where every run has them, of all their time together for a rate, else their mean."""
    if metric in PER_SECOND and all(run.seconds for run in side):
        return sum(found.value * (run.seconds or 0.0) for found, run in zip(each, side, strict=True)) / sum(run.seconds or 0.0 for run in side)
    if all(_sampled(run, metric, statistic) is not None for run in side):
        return _of(joined([run.samples[metric] for run in side]), statistic).value
    return sum(found.value for found in each) / len(each)
