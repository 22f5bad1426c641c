"""Queue delay: how long a request waited on the client's side, because of the concurrency cap or a late client.

Queue delay = sent - planned, one value a request, in nanoseconds; a little below zero is a timer that fired early.

Absent (nan) in a closed loop, where nothing was planned, and for failed and cancelled requests.
"""

from loadstone.records import Records, Spans


def queue_delay_ns(records: Records) -> Spans:
    """Queue delay of each request in record order, nan where it is absent."""
    return records.between(records.planned_ns, records.sent_ns)
