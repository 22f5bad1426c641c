"""ICL, inter-chunk latency: the gap between neighbouring token events, whatever number of tokens they hold.

ICL = event[j] - event[j - 1], a reply of k token events has k - 1 values, in nanoseconds. 0 is a valid gap: both events were in one read.

Absent for a reply of fewer than two token events, for one that was not streamed, and for failed and cancelled requests.
"""

from collections.abc import Iterator

from loadstone.metrics.spans import Gaps, neighbour_gaps
from loadstone.records import Records


def icl_ns(records: Records) -> Gaps:
    """The gaps between token events of every request."""
    return neighbour_gaps(records, records.token_gaps, records.token_rows)


def icl_blocks(records: Records) -> Iterator[Gaps]:
    """The same, block after block of the records."""
    return (icl_ns(block) for _, block in records.blocks())
