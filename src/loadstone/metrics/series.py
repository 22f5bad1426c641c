"""Over time: requests in flight and output tokens a second, in bins of equal width, as exact means of each bin.

In flight = the time that requests spent between send and end within the bin, divided by the bin's width: failed and cancelled requests too. Tokens
are those of completed requests, as peaks.py counts them, each in the bin of its stamp.
"""

import numpy as np

from loadstone.metrics.peaks import tokens_at
from loadstone.records import ABSENT, Records, Spans, Times


def edges_of(start_ns: int, end_ns: int, bins: int) -> Spans:
    """`bins` + 1 edges from start to end, nanoseconds, equally far from each other."""
    return np.linspace(start_ns, end_ns, bins + 1)


def in_flight(records: Records, edges: Spans) -> Spans:
    """Mean number of requests in flight in each bin."""
    known = (records.sent_ns != ABSENT) & (records.end_ns != ABSENT)
    return between(records.sent_ns[known], records.end_ns[known], edges)


def between(starts_ns: Times, ends_ns: Times, edges: Spans) -> Spans:
    """Mean number, in each bin, of those that have started and not ended."""
    # the integral of that number up to t is the sum of what of each [start, end] lies before t
    reached = _time_before(starts_ns, edges) - _time_before(ends_ns, edges)
    return np.asarray(np.diff(reached) / np.diff(edges))


def tokens_per_s(records: Records, edges: Spans) -> Spans:
    """Output tokens a second in each bin."""
    bins = len(edges) - 1
    found = np.zeros(bins + 1)  # the last one: what lies outside
    width = (edges[-1] - edges[0]) / bins
    for _, block in records.blocks():
        for at_ns, tokens in tokens_at(block):
            places = np.floor((at_ns - edges[0]) / width).astype(np.int64)
            places[at_ns == edges[-1]] = bins - 1
            places[(places < 0) | (places > bins)] = bins
            found += np.bincount(places, tokens, minlength=bins + 1)
    return np.asarray(found[:bins] / (np.diff(edges) / 1e9))


def _time_before(times_ns: Times, edges: Spans) -> Spans:
    """For each edge the sum over `times_ns` before it of edge - time."""
    ordered = np.sort(times_ns).astype(np.float64)
    origin = edges[0]
    sums = np.concatenate(([0.0], np.cumsum(ordered - origin)))
    before = np.searchsorted(ordered, edges)
    return np.asarray(before * (edges - origin) - sums[before])
