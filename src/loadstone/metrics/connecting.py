"""Connect and TLS times: what making a connection took, one value a connection that was made during the run, on the first request that it carried.

Connect = TCP's handshake (and a proxy's tunnel), TLS = the TLS handshake after it, in nanoseconds. Neither is part of TTFT or E2EL, which count from
the first byte of the request. With --connections new each request has a connection of its own, and what its user felt is connect + TLS + TTFT.

Absent (nan) for a connection that was there before the run or had served before, for plain http (TLS), and for failed and cancelled requests.
"""

import numpy as np

from loadstone.records import Records, Spans


def connect_ns(records: Records) -> Spans:
    """Connect time of each request's connection in record order, nan where it is absent."""
    return np.where(records.completed & (records.connect_ns > 0), records.connect_ns, np.nan)


def tls_ns(records: Records) -> Spans:
    """TLS handshake time of each request's connection in record order, nan where it is absent."""
    return np.where(records.completed & (records.tls_ns > 0), records.tls_ns, np.nan)
