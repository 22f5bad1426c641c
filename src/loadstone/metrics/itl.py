"""ITL, inter-token latency: the gaps a reader sees between tokens, pooled over all requests.

Where running usage tells how many tokens each event holds, the gap before an event is shared evenly over its tokens: an event of n tokens that
comes d after the one before gives n values of d / n, so that the values of a reply add up to E2EL - TTFT. The tokens of the first event give none:
nothing came before them. An event that holds no whole token (usage did not grow) leaves its gap to the next one; at the end of a reply it is a gap
of its own. The basis is then `token`. If a single streamed reply of two events or more did not tell, the whole run is counted by events (ITL = ICL)
and the basis is `event`: one number never mixes two definitions. 0 is a valid gap.

Absent for a reply of fewer than two token events, for one that was not streamed, and for failed and cancelled requests.
"""

from collections.abc import Iterator

import numpy as np

from loadstone.metrics.icl import icl_ns
from loadstone.metrics.spans import Gaps, of_rows
from loadstone.records import Records, offsets


def itl_basis(records: Records) -> str:
    """`token` if running usage tells the tokens of every event of every reply that has a gap, else `event`."""
    events, counts = np.diff(records.token_rows), np.diff(records.token_count_rows)
    flowing = records.completed & records.streamed & (events > 1)
    return "token" if flowing.any() and (events == counts)[flowing].all() else "event"


def itl_ns(records: Records, basis: str | None = None) -> Gaps:
    """The gaps between tokens of every request, on the `basis` of the run (default: of these records)."""
    if (basis or itl_basis(records)) == "event":
        return icl_ns(records)
    events = np.diff(records.token_rows)
    flowing = records.completed & records.streamed & (events > 1)
    sizes, tokens = events[flowing], np.zeros(len(records), np.int64)
    ends = np.cumsum(sizes)
    first, last = ends - sizes, ends - 1
    gaps = of_rows(records.token_gaps, events, flowing)
    counts = np.maximum(of_rows(records.token_counts, np.diff(records.token_count_rows), flowing), 0)

    counts[last] = np.maximum(counts[last], 1)
    counts[first] = 1  # an anchor only: its own gap is dropped below
    if (counts == 1).all():
        counts[first] = 0
        values = gaps[counts == 1]
        tokens[flowing] = sizes - 1
        return Gaps(values, offsets(tokens))
    anchors = np.flatnonzero(counts)
    shares = np.diff(np.cumsum(gaps)[anchors], prepend=0) / counts[anchors]
    counts[first] = 0
    if len(sizes):
        tokens[flowing] = np.add.reduceat(counts, first)
    return Gaps(np.repeat(shares, counts[anchors]), offsets(tokens))


def itl_blocks(records: Records) -> Iterator[Gaps]:
    """The same, block after block of the records, all on one basis."""
    basis = itl_basis(records)
    return (itl_ns(block, basis) for _, block in records.blocks())
