"""Peaks: the most that happened at once.

peak output tokens/s = the most output tokens in one of the one-second bins that start at the first send. Tokens, not events: an event holds what
running usage says, else its request's output tokens are shared evenly over its events; a reply that was not streamed puts all its tokens at its
end. Only completed requests, so that the bins add up to total output tokens; None when there are none. The last bin, and a run shorter than a
second, are not scaled up: a bin holds what came in it.

peak concurrency = the most requests in flight at one instant, exactly: +1 at each send, -1 at each end, sorted by time, ends before sends at the same
nanosecond (ten requests one after another peak at 1). Failed and cancelled requests were in flight too. 0 when nothing was sent.
"""

from collections.abc import Iterator

import numpy as np

from loadstone.metrics.spans import of_rows
from loadstone.records import ABSENT, Records, Spans, Times

SECOND_NS = 1_000_000_000


def peak_output_tokens_per_s(records: Records) -> float | None:
    """Most output tokens in a one-second bin."""
    sent = records.sent_ns[records.sent_ns != ABSENT]
    if not len(sent):
        return None
    start_ns = int(sent.min())
    bins: Spans = np.zeros(0)
    for _, block in records.blocks():
        for at_ns, tokens in tokens_at(block):
            at_ns -= start_ns
            np.maximum(at_ns, 0, out=at_ns)
            at_ns //= SECOND_NS
            found = np.bincount(at_ns, tokens, minlength=len(bins)).astype(np.float64, copy=False)
            found[: len(bins)] += bins
            bins = found
    return float(bins.max()) if len(bins) else None


def peak_concurrency(records: Records) -> int:
    """Most requests in flight at one instant."""
    known = (records.sent_ns != ABSENT) & (records.end_ns != ABSENT)
    times = np.concatenate((records.sent_ns[known], records.end_ns[known]))
    steps = np.repeat((1, -1), int(known.sum()))
    in_flight = np.cumsum(steps[np.lexsort((steps, times))])
    return int(in_flight.max(initial=0))


def tokens_at(records: Records) -> Iterator[tuple[Times, Spans | None]]:
    """When tokens of completed requests came and how many each time (None: one each): those of streams, then those of whole replies."""
    yield _streamed(records)
    yield _whole(records)


def _streamed(records: Records) -> tuple[Times, Spans | None]:
    """When the token events of completed requests came, and how many tokens each held; None: one each."""
    events = np.diff(records.token_rows)
    flowing = records.completed & (records.sent_ns != ABSENT) & (events > 0)
    at_ns = of_rows(records.token_ns, events, flowing) + np.repeat(records.sent_ns[flowing], events[flowing])
    tokens = _tokens_of_events(records)
    return at_ns, None if tokens is None else of_rows(tokens, events, flowing)


def _whole(records: Records) -> tuple[Times, Spans]:
    """The same of replies without token events: all at their end."""
    whole = records.completed & (np.diff(records.token_rows) == 0) & (records.end_ns != ABSENT) & (records.output_tokens > 0)
    return records.end_ns[whole], records.output_tokens[whole]


def _tokens_of_events(records: Records) -> Spans | None:
    """Tokens of each token event in the order of `records.token_ns`; an event is one token where neither running usage nor the total is known. None:
    one each.
    """
    events, counts = np.diff(records.token_rows), np.diff(records.token_count_rows)
    told = (events == counts) & (events > 0)
    if told[events > 0].all():
        return of_rows(records.token_counts, counts, told).astype(np.float64)
    even = np.where(np.isnan(records.output_tokens), 1.0, records.output_tokens / np.maximum(events, 1))
    if not told.any() and (even[events > 0] == 1).all():
        return None
    weights = np.repeat(even, events)
    weights[np.repeat(told, events)] = records.token_counts[np.repeat(told, counts)]
    return weights
