"""Thresholds: what a run must reach, in words such as 'p99 ttft <= 200ms', and whether it did.

    [STATISTIC] METRIC OPERATOR NUMBER UNIT

Statistics: mean, median, min, max, p50, p99, p99.9 ... of every metric with a distribution (ttft, tpot, itl, icl, e2el, ttfot, queue_delay,
response_ttft, response_e2el, s_ttft ... in us, ms or s; input_len, output_len in tokens; s_decode in tok/s). Without a statistic: error rate and
goodput in %, goodput and request throughput in req/s, output throughput and total throughput in tok/s. Operators: <=, <, >=, >. The unit must be
written.

A threshold is missed when the value is on its wrong side. It is met when the value is on the right side and the sample is large enough for the
percentile to have a confidence interval (p99: 368 samples); else it says "not enough samples", which is no miss. An absent value (no sample, no
--goodput) is a miss: nothing was shown. error rate = failed / (completed + failed); cancelled requests are in neither.
"""

import operator
import re
from collections.abc import Callable, Iterable

import msgspec

from loadstone.errors import UsageError
from loadstone.metrics.catalogue import METRICS, MS, TOKENS, TOKENS_PER_S
from loadstone.metrics.statistics import percent
from loadstone.metrics.summary import Judgement, Summary

PASS, FAIL, TOO_FEW = "pass", "fail", "not enough samples"
EXAMPLES = "'p99 ttft <= 200ms', 'mean tpot < 30ms', 'error rate < 1%', 'goodput >= 95%' or 'output throughput >= 1000tok/s'"
_FORM = re.compile(
    r"\s*(?P<what>[a-z][a-z0-9_. -]*?)\s*(?P<sign><=|>=|<|>)\s*(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(?P<unit>[a-z%/]*)\s*", re.IGNORECASE
)
_SIGNS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}
_PER_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_RATE = {"req/s": 1.0}
_SPEED = {"tok/s": 1.0, "tokens/s": 1.0}
_TOTALS: dict[str, dict[str, float]] = {  # the units of what has no statistic, as multiples of the unit in which it is known
    "error rate": {"%": 0.01},
    "goodput": {"%": 0.01, "req/s": 1.0},
    "request throughput": _RATE,
    "output throughput": _SPEED,
    "total throughput": _SPEED,
}
_UNITS = {MS: _PER_MS, TOKENS: {"tokens": 1.0, "tok": 1.0}, TOKENS_PER_S: _SPEED}


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold, read. `number` is in the unit that was written; times `per_unit` it is in the metric's own (ms, tokens, tok/s, req/s, share)."""

    text: str  # as written, with one blank between words
    statistic: str  # mean, median, min, max, p99; "" where there is none
    metric: str
    sign: str
    number: float
    unit: str
    per_unit: float

    @property
    def percentile(self) -> str | None:
        """The percentile that must be computed for it, as --metric-percentiles has it."""
        return self.statistic[1:] if self.statistic.startswith("p") else None


def threshold_of(text: str) -> Threshold:
    """The threshold that `text` describes. Raises UsageError naming --slo, the part that is wrong and what could stand there."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"--slo {text!r} is no threshold: write, for example, {EXAMPLES}")
    words = found["what"].lower().replace("-", "_").split()
    unit = found["unit"].lower()
    if (total := " ".join(words).replace("_", " ")) in _TOTALS:
        statistic, metric, units = "", total, _TOTALS[total]
    else:
        statistic, metric = (words[0], words[1]) if len(words) == 2 else ("", " ".join(words))
        units = _units_of(statistic, metric, text)
    if unit not in units:
        raise UsageError(f"--slo {text!r}: {metric} is in {' or '.join(units)}, not {unit or 'a bare number'}; write, for example, {EXAMPLES}")
    shown = f"{statistic} {metric}".strip()
    return Threshold(
        text=f"{shown} {found['sign']} {found['number']}{'' if unit == '%' else ' '}{unit}",
        statistic=statistic,
        metric=metric,
        sign=found["sign"],
        number=float(found["number"]),
        unit=unit,
        per_unit=units[unit],
    )


def _units_of(statistic: str, metric: str, text: str) -> dict[str, float]:
    if metric not in METRICS:
        raise UsageError(f"--slo {text!r}: there is no metric {metric!r}; there are {', '.join([*METRICS, *_TOTALS])}")
    if statistic in ("mean", "median", "min", "max"):
        return _UNITS[METRICS[metric].unit]
    if not re.fullmatch(r"p\d+(\.\d+)?", statistic):
        raise UsageError(f"--slo {text!r}: which statistic of {metric}? Write mean, median, min, max or a percentile such as p99 before it")
    percent(statistic[1:])
    return _UNITS[METRICS[metric].unit]


def judge(thresholds: Iterable[Threshold], summary: Summary) -> list[Judgement]:
    """What became of each threshold in this run."""
    return [_judged(threshold, summary) for threshold in thresholds]


def _judged(threshold: Threshold, summary: Summary) -> Judgement:
    value, samples, needs = _value(threshold, summary)
    verdict, why = PASS, ""
    if value is None:
        verdict, why = FAIL, "no --goodput limits were given" if threshold.metric == "goodput" else "there is no such value in this run"
    elif not _SIGNS[threshold.sign](value, threshold.number * threshold.per_unit):
        verdict = FAIL
    elif needs is not None and samples is not None and samples < needs:
        verdict, why = TOO_FEW, f"{samples} samples; {threshold.statistic} needs {needs}"
    shown = None if value is None else value / threshold.per_unit
    return Judgement(threshold=threshold.text, unit=threshold.unit, value=shown, samples=samples, verdict=verdict, why=why)


def _value(threshold: Threshold, summary: Summary) -> tuple[float | None, int | None, int | None]:
    """The value in the metric's own unit, its samples, and how many of them a percentile needs."""
    if threshold.statistic == "":
        return _total(threshold, summary), None, None
    found = summary.distributions.get(threshold.metric)
    if found is None or found.count == 0:
        return None, 0 if found else None, None
    if threshold.percentile is not None:
        point = found.percentiles[threshold.percentile]
        return point.value, found.count, point.needs
    if threshold.statistic == "median":
        assert found.median
        return found.median.value, found.count, None
    values = {"mean": found.mean, "min": found.minimum, "max": found.maximum}
    return values[threshold.statistic], found.count, None


def _total(threshold: Threshold, summary: Summary) -> float | None:
    if threshold.metric == "error rate":
        ended = summary.completed + summary.failed
        return summary.failed / ended if ended else None
    if threshold.metric == "goodput":
        return None if summary.goodput is None else summary.goodput.share if threshold.unit == "%" else summary.goodput.per_s
    totals = {
        "request throughput": summary.request_throughput,
        "output throughput": summary.output_throughput,
        "total throughput": summary.total_token_throughput,
    }
    return totals[threshold.metric]
