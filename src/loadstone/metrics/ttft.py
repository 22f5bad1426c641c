"""TTFT, time to first token: how long a user looks at nothing.

TTFT = first token event - sent, one value a request, in nanoseconds. Response TTFT = first token event - planned: the same as felt by a user who
arrived on schedule, with the wait before the send.

Absent (nan) for a reply without a token event, for one that was not streamed (its first token cannot be seen), and for failed and cancelled requests;
response TTFT also in a closed loop, where nothing was planned. Role-only and empty events are no tokens: the record does not count them.
"""

from loadstone.metrics.spans import only
from loadstone.records import Records, Spans


def ttft_ns(records: Records) -> Spans:
    """TTFT of each request in record order, nan where it is absent."""
    return only(records.streamed, records.between(records.sent_ns, records.first_token_ns))


def response_ttft_ns(records: Records) -> Spans:
    """TTFT counted from the planned time, nan where it is absent."""
    return only(records.streamed, records.between(records.planned_ns, records.first_token_ns))
