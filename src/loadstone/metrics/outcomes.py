"""Outcomes: what became of every planned request, and the two sums that must hold.

planned = sent + dropped (dropped: the run stopped before it was sent). sent = completed + failed + cancelled. A request that found no connection
was sent and failed. Every request that is not dropped has exactly one record; an imbalance means that some were lost or counted twice, and no
number of the run could be believed: AccountingError.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

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
    completed, failed, cancelled = (int(mask.sum()) for mask in (records.completed, records.status == FAILED, records.status == CANCELLED))
    sent = len(records)
    if planned != sent + dropped:
        raise AccountingError(f"{planned} requests were planned, but {sent} have a record and {dropped} were dropped")
    if sent != completed + failed + cancelled:
        raise AccountingError(f"{sent} requests were sent, but {completed} completed, {failed} failed and {cancelled} were cancelled")
    if len(np.unique(records.index)) != sent:
        raise AccountingError("two records have the same index")

    reasons: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for row in np.flatnonzero(~records.completed):
        reason = records.reason[row] or ("cancelled" if records.status[row] == CANCELLED else "unknown")
        reasons[reason] += 1
        if not examples.get(reason):
            examples[reason] = records.error[row]
    return Outcomes(planned, sent, dropped, completed, failed, cancelled, dict(reasons.most_common()), examples)
