"""ICL, inter-chunk latency: the gap between neighbouring token events, whatever number of tokens they hold.

ICL = event[j] - event[j - 1], a reply of k token events has k - 1 values, in nanoseconds. 0 is a valid gap: both events were in one read.

Absent for a reply of fewer than two token events, for one that was not streamed, and for failed and cancelled requests.
"""

from loadstone.metrics.spans import Gaps, neighbour_gaps
from loadstone.records import Records


def icl_ns(records: Records) -> Gaps:
    """The gaps between token events of every request."""
    return neighbour_gaps(records, records.token_ns, records.token_rows)
