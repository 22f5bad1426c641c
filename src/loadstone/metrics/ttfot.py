"""TTFOT, time to first output token: when the visible answer begins, after any reasoning.

TTFOT = first event of the visible answer - sent, one value a request, in nanoseconds. Equal to TTFT for a model that does not reason aloud.

Absent (nan) for a reply without visible answer (only reasoning, only tool calls where the record says so), for one that was not streamed, and for
failed and cancelled requests.
"""

from loadstone.metrics.spans import only
from loadstone.records import Records, Spans


def ttfot_ns(records: Records) -> Spans:
    """TTFOT of each request in record order, nan where it is absent."""
    return only(records.streamed, records.between(records.sent_ns, records.first_output_ns))
