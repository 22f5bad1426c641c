"""E2EL, end-to-end latency: from the send to the last thing a user reads.

E2EL = last token event - sent; for a reply that was not a stream end - sent. One value a request, in nanoseconds. Response E2EL counts from planned.
The tail of a stream (usage event, [DONE], closing of the connection) is not in it: nobody waits for that.

Absent (nan) for a stream without a token event, for a whole reply that is known to hold no token, and for failed and cancelled requests; response
E2EL also in a closed loop. A whole reply whose tokens nobody counts (embeddings) has one.
"""

import numpy as np

from loadstone.metrics.spans import only
from loadstone.records import Records, Spans, Times


def e2el_ns(records: Records) -> Spans:
    """E2EL of each request in record order, nan where it is absent."""
    return _until_last(records, records.sent_ns)


def response_e2el_ns(records: Records) -> Spans:
    """E2EL counted from the planned time, nan where it is absent."""
    return _until_last(records, records.planned_ns)


def _until_last(records: Records, start: Times) -> Spans:
    stream = records.between(start, records.last_token_ns)
    whole = only((records.output_tokens != 0) | records.token_source.equal("none"), records.between(start, records.end_ns))
    return np.where(records.streamed, stream, whole)
