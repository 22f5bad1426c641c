"""Goodput: completed requests that met every SLO, per second of the run.

A request meets an SLO when its value is at most the limit. TTFT, TPOT and E2EL have one value a request. ITL has many: a request meets an ITL limit
when its largest gap does, since one stall is what the limit is there to forbid (a limit on the mean gap is the TPOT limit). In an open loop TTFT
and E2EL are held against the time from planned, so that waiting in the client's queue counts as the user would feel it.

An absent value does not meet its limit, except TPOT and ITL of a one-token answer, which do: nothing flowed too slowly. Failed and cancelled
requests never meet it. goodput = good / duration; share = good / sent, failures included.
"""

from collections.abc import Mapping

import numpy as np

from loadstone.errors import UsageError
from loadstone.metrics.e2el import e2el_ns, response_e2el_ns
from loadstone.metrics.itl import itl_blocks
from loadstone.metrics.spans import Gaps, Mask
from loadstone.metrics.summary import Goodput
from loadstone.metrics.throughput import duration_s, per_second
from loadstone.metrics.tpot import tpot_ns
from loadstone.metrics.ttft import response_ttft_ns, ttft_ns
from loadstone.records import Records, Spans

SLO_METRICS = ("ttft", "tpot", "itl", "e2el")


def goodput(records: Records, slos_ms: Mapping[str, float], open_loop: bool) -> Goodput:
    """Goodput under limits in milliseconds, by metric name. Raises UsageError for a name that has no SLO."""
    good = records.completed
    missed: dict[str, int] = {}
    for name, limit_ms in slos_ms.items():
        met = meets(records, name, limit_ms, open_loop)
        missed[name] = int((records.completed & ~met).sum())
        good = good & met
    count = int(good.sum())
    return Goodput(
        slos_ms=dict(slos_ms),
        good=count,
        per_s=per_second(count, duration_s(records)),
        share=count / len(records) if len(records) else 0.0,
        missed=missed,
    )


def meets(records: Records, name: str, limit_ms: float, open_loop: bool) -> Mask:
    """Which completed requests meet one SLO."""
    value_ns = _slo_value_ns(records, name, open_loop)
    met = value_ns / 1e6 <= limit_ms  # nan is false; divided rather than multiplied, so that 33.3 ms meets a limit of 33.3
    if name in ("tpot", "itl"):
        met |= np.isnan(value_ns) & (records.output_tokens == 1)
    return np.asarray(met & records.completed)


def _slo_value_ns(records: Records, name: str, open_loop: bool) -> Spans:
    match name:
        case "ttft":
            return response_ttft_ns(records) if open_loop else ttft_ns(records)
        case "e2el":
            return response_e2el_ns(records) if open_loop else e2el_ns(records)
        case "tpot":
            return tpot_ns(records)
        case "itl":
            return _largest_itl_ns(records)
    raise UsageError(f"--goodput {name}: no SLO of that name; choose from {', '.join(SLO_METRICS)}")


def _largest_itl_ns(records: Records) -> Spans:
    largest = np.empty(len(records))
    for (places, _), gaps in zip(records.blocks(), itl_blocks(records), strict=True):
        largest[places] = largest_gap_ns(gaps)
    return largest


def largest_gap_ns(gaps: Gaps) -> Spans:
    """The largest gap of each request, nan for one that has none."""
    largest = np.full(len(gaps.rows) - 1, np.nan)
    some = np.diff(gaps.rows) > 0
    if some.any():
        largest[some] = np.maximum.reduceat(gaps.values, gaps.rows[:-1][some])
    return largest
