"""Confidence intervals of means over a run: by batch means, over requests in the order in which they were sent.

A latency of one value a request is batched by request. Gaps (ITL) hang together within their reply: the mean is the sum of all gaps by their number,
and a batch is the sums and numbers of its requests, never a part of a reply.
"""

from collections.abc import Iterator

import numpy as np

from loadstone.metrics.batch_means import Interval, mean_interval, ratio_interval
from loadstone.metrics.spans import Gaps
from loadstone.records import Records, Spans, Times


class GapSums:
    """Gaps on their way to a distribution, summed by request the first time they pass."""

    def __init__(self, records: Records) -> None:
        self._rows = [rows for rows, _ in records.blocks()]
        self.sums, self.counts = np.zeros(len(records)), np.zeros(len(records))
        self._summed = False

    def passing(self, blocks: Iterator[Gaps]) -> Iterator[tuple[Times | slice, Gaps]]:
        """`blocks`, which are in the order of `records.blocks()`, each with its rows, summed as they go by."""
        for rows, block in zip(self._rows, blocks, strict=True):
            if not self._summed:
                self._sum(rows, block)
            yield rows, block
        self._summed = True

    def _sum(self, rows: Times | slice, block: Gaps) -> None:
        sizes = np.diff(block.rows)
        self.counts[rows] = sizes
        if len(block.values):
            full = sizes > 0
            sums = np.zeros(len(sizes))
            sums[full] = np.add.reduceat(block.values, block.rows[:-1][full])
            self.sums[rows] = sums

    def interval(self, order: Times) -> Interval | None:
        """Of the mean of all gaps. `order`: the rows in the order of their sends."""
        there = self.counts[order] > 0
        return ratio_interval(self.sums[order][there], self.counts[order][there])


def interval_of(samples: Spans, order: Times) -> Interval | None:
    """Of the mean of one value a request."""
    return mean_interval(samples[order])
