"""The server's own times: of each event, as FastDeploy's `arrival_time` tells them, or of the whole reply, as Ollama's and llama.cpp's durations do.

S_TTFT = server time of the first token event, or the server's span of that name. S_E2EL = server time of the last token event, or the span of that
name. S_ITL = gaps between the server times of neighbouring token events (by event, also where running usage is known). S_DECODE, in tokens/s, =
(output tokens - 1) / (last - first server time). Compared with TTFT and E2EL they show what the network and the client add.

Absent (nan) on a server that sends no such times (they are never copied from the client's clock), for replies that were not streamed, and for failed
and cancelled requests; S_DECODE also with fewer than two output tokens or when both times are the same.
"""

from collections.abc import Iterator

import numpy as np

from loadstone.metrics.spans import Gaps, Mask, neighbour_gaps
from loadstone.records import Records, Spans


def s_ttft_ns(records: Records) -> Spans:
    """Server time of the first token event of each request, nan where it is absent."""
    return _server_time(records, last=False)


def s_e2el_ns(records: Records) -> Spans:
    """Server time of the last token event of each request, nan where it is absent."""
    return _server_time(records, last=True)


def s_itl_ns(records: Records) -> Gaps:
    """The gaps between the server times of every request."""
    return neighbour_gaps(records, records.server_gaps, records.server_rows)


def s_itl_blocks(records: Records) -> Iterator[Gaps]:
    """The same, block after block of the records."""
    return (s_itl_ns(block) for _, block in records.blocks())


def s_decode(records: Records) -> Spans:
    """Decoding speed of each request in tokens/s by the server's clock, nan where it is absent."""
    flow_s = (s_e2el_ns(records) - s_ttft_ns(records)) / 1e9
    steps = records.output_tokens - 1
    speed: Spans = np.divide(steps, flow_s, out=np.full(len(records), np.nan), where=(steps > 0) & (flow_s > 0))
    return speed


def _server_time(records: Records, last: bool) -> Spans:
    """The last server time of each request, or the first; else what the server says of its span."""
    times = records.server_span("s_e2el" if last else "s_ttft")
    if not records.server_rows[-1]:
        return times
    for places, block in records.blocks():
        rows = block.server_rows
        told: Mask = block.completed & block.streamed & (np.diff(rows) > 0)
        found = times[places]
        found[told] = block.server_ns[(rows[1:] - 1 if last else rows[:-1])[told]]
        times[places] = found
    return times
