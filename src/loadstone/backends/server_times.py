"""Times as servers state them: what is no time is as good as absent."""

import math
from typing import Any

LONGEST_S = 1e8  # three years: a time above this is a date and no span


def number(value: Any) -> float | None:
    """A finite number, else None."""
    return float(value) if type(value) in (int, float) and abs(value) < 2**63 and math.isfinite(value) else None


def span_ns(value: Any, unit_ns: float) -> int | None:
    """A span in nanoseconds; `unit_ns` is the unit of `value`. None for what is no span: no number, below 0, or years long."""
    span = number(value)
    return round(span * unit_ns) if span is not None and 0 <= span * unit_ns < LONGEST_S * 1e9 else None
