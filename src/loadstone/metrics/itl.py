"""ITL, inter-token latency: the gaps a reader sees between tokens, pooled over all requests.

Where running usage tells how many tokens each event holds, the gap before an event is shared evenly over its tokens: an event of n tokens that
comes d after the one before gives n values of d / n, so that the values of a reply add up to E2EL - TTFT. The tokens of the first event give none:
nothing came before them. An event that holds no whole token (usage did not grow) leaves its gap to the next one; at the end of a reply it is a gap
of its own. The basis is then `token`. If a single streamed reply of two events or more did not tell, the whole run is counted by events (ITL = ICL)
and the basis is `event`: one number never mixes two definitions. 0 is a valid gap.

Absent for a reply of fewer than two token events, for one that was not streamed, and for failed and cancelled requests.
"""

import numpy as np

from loadstone.metrics.icl import icl_ns
from loadstone.metrics.spans import Gaps, offsets
from loadstone.records import Records


def itl_basis(records: Records) -> str:
    """`token` if running usage tells the tokens of every event of every reply that has a gap, else `event`."""
    events, counts = np.diff(records.token_rows), np.diff(records.token_count_rows)
    flowing = records.completed & records.streamed & (events > 1)
    return "token" if flowing.any() and (events == counts)[flowing].all() else "event"


def itl_ns(records: Records) -> Gaps:
    """The gaps between tokens of every request, on the run's basis."""
    if itl_basis(records) == "event":
        return icl_ns(records)
    events = np.diff(records.token_rows)
    told = events == np.diff(records.token_count_rows)
    flowing = records.completed & records.streamed & (events > 1)
    times = records.token_ns[np.repeat(flowing, events)]
    counts = np.maximum(records.token_counts[np.repeat(flowing & told, np.diff(records.token_count_rows))], 0)
    sizes = events[flowing]
    ends = np.cumsum(sizes)
    first, last = ends - sizes, ends - 1

    counts[last] = np.maximum(counts[last], 1)
    counts[first] = 1  # an anchor only: its own gap is dropped below
    anchors = np.flatnonzero(counts)
    shares = np.diff(times[anchors], prepend=0) / counts[anchors]
    counts[first] = 0
    values = np.repeat(shares, counts[anchors])
    tokens = np.zeros(len(records), np.int64)
    tokens[flowing] = np.add.reduceat(counts, first)
    return Gaps(values, offsets(tokens))
