"""Outcomes: what became of every planned request, and the two sums that must hold.

planned = sent + dropped (dropped: the run stopped before it was sent). sent = completed + failed + cancelled. A request that found no connection
was sent and failed. Every request that is not dropped has exactly one record; an imbalance means that some were lost or counted twice, and no
number of the run could be believed: AccountingError.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

from loadstone.metrics.spans import Mask
from loadstone.records import CANCELLED, FAILED, Records


class AccountingError(AssertionError):
    """The requests do not add up: a fault of loadstone, not of the server or the person."""


class Outcomes(NamedTuple):
    """How many requests ended how. `failures` counts failed and cancelled requests by reason, most common first; `examples` has one error text
    each.
    """

    planned: int
    sent: int
    dropped: int
    completed: int
    failed: int
    cancelled: int
    failures: dict[str, int]
    examples: dict[str, str]


def outcomes(records: Records, planned: int, dropped: int) -> Outcomes:
    """Count the outcomes and prove that they add up. Raises AccountingError if not."""
    completed = int(records.completed.sum())
    cut_off = records.status.equal(CANCELLED)
    failed, cancelled = int(records.status.equal(FAILED).sum()), int(cut_off.sum())
    sent = len(records)
    if planned != sent + dropped:
        raise AccountingError(f"{planned} requests were planned, but {sent} have a record and {dropped} were dropped")
    if sent != completed + failed + cancelled:
        raise AccountingError(f"{sent} requests were sent, but {completed} completed, {failed} failed and {cancelled} were cancelled")
    if not np.diff(records.index).all():  # in plan order
        raise AccountingError("two records have the same index")

    unfinished = ~records.completed
    reasons: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for where, unnamed in ((unfinished & cut_off, "cancelled"), (unfinished & ~cut_off, "unknown")):
        for word, count in records.reason.counts(where).items():
            reason = word or unnamed
            reasons[reason] += count
            if not examples.get(reason):
                examples[reason] = _example(records, where & records.reason.equal(word))
    return Outcomes(planned, sent, dropped, completed, failed, cancelled, dict(reasons.most_common()), examples)


def _example(records: Records, rows: Mask) -> str:
    """The first error text of `rows` that says something."""
    return next((text for row in np.flatnonzero(rows) if (text := records.error[row])), "")
