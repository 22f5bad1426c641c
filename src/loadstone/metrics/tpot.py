"""TPOT, time per output token: how fast a reply flows once it has begun.

TPOT = (E2EL - TTFT) / (output tokens - 1) = (last token - first token) / (output tokens - 1), one value a request, in nanoseconds.

Absent (nan) for a reply with fewer than two output tokens, for one that was not streamed, and for failed and cancelled requests. It hides stalls: a
reply that stops for a second and then catches up has the TPOT of one that flowed evenly; look at ITL for that. When one event carries several
tokens (speculative decoding, buffering parsers) TPOT still counts tokens, because it takes their number from usage. A reply of several tokens that
came in one event has the TPOT 0; the summary warns of such replies.
"""

import numpy as np

from loadstone.records import Records, Spans


def tpot_ns(records: Records) -> Spans:
    """TPOT of each request in record order, nan where it is absent."""
    flow = records.between(records.first_token_ns, records.last_token_ns)
    steps = records.output_tokens - 1
    tpot: Spans = np.divide(flow, steps, out=np.full(len(records), np.nan), where=records.streamed & (steps > 0))
    return tpot
