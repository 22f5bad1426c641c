"""Throughput: what the server got done in the time the run took.

duration = last end of any request - first send, in seconds, failures and cancelled requests included; warm-up, ready check and profiler calls are no
records and so outside it. request throughput = completed / duration; output throughput = output tokens / duration; total token throughput =
(prompt + output tokens) / duration. Tokens of failed and cancelled requests do not count; prompt tokens are the server's, else the client's count.
sent rate = (requests sent - 1) / (last send - first send), in requests/s: n sends have n - 1 gaps.

A run in which nothing was sent has duration 0 and throughputs 0. Sent rate is None for fewer than two sends or for sends at one instant.
"""

import numpy as np

from loadstone.metrics.spans import Mask
from loadstone.records import ABSENT, Records, Spans, Times


def duration_s(records: Records) -> float:
    """First send to last end of any request, in seconds."""
    sent, end = _known(records.sent_ns), _known(records.end_ns)
    if not len(sent) or not len(end):
        return 0.0
    return max(0, int(end.max()) - int(sent.min())) / 1e9


def total_tokens(records: Records, tokens: Spans, rows: Mask | None = None) -> int:
    """Sum of a token column over completed requests (of `rows`); unknown counts add nothing."""
    return int(np.nansum(tokens[records.completed if rows is None else records.completed & rows]))


def per_second(amount: float, seconds: float) -> float:
    """`amount / seconds`; 0 for a run that took no time, in which nothing can have been completed."""
    return amount / seconds if seconds > 0 else 0.0


def event_rate(times_ns: Times) -> float | None:
    """Events a second between the first and the last of the known times: (n - 1) / (last - first)."""
    known = _known(times_ns)
    if len(known) < 2 or (span_ns := int(known.max()) - int(known.min())) <= 0:
        return None
    return (len(known) - 1) / (span_ns / 1e9)


def _known(times_ns: Times) -> Times:
    known: Times = times_ns[times_ns != ABSENT]
    return known
