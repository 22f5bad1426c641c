"""What a run measured against what the server knows, request by request and token by token. Both clocks are CLOCK_MONOTONIC of one machine.

    receive error = client's stamp of a token - time the server's send of it returned     (some microseconds below 0 for a perfect client: the
                    kernel has delivered the data before the send returns)
    send error    = request arrived, by the kernel of the server - client's sent
    TTFT error    = client's TTFT - (first token sent - request arrived) = receive error of the first token + send error
    E2EL error    likewise with the last token
    ITL error     = client's gap between two tokens - the server's gap between the same two

The server's own wait between arrival and reading is in the client's TTFT and in the true one: it is the server's, and no error.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadstone.records import Records

Ints = NDArray[np.int64]


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of error over its samples, in microseconds. Mean and median keep their sign; p99 and maximum are of the size alone."""

    count: int
    mean_us: float
    median_us: float
    p99_us: float
    max_us: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A run beside the truth. `true_ms`: metric -> mean, p50, p99 of ttft, itl, e2el over the matched requests; absent without any."""

    matched: int  # completed requests that the server knows
    unmatched: int  # completed requests that it does not know, or whose tokens it counts differently
    without_arrival: int  # matched ones whose arrival is not known: their send error is taken as 0
    first_token: Error | None
    last_token: Error | None
    every_token: Error | None
    sending: Error | None
    ttft: Error | None
    itl: Error | None
    e2el: Error | None
    server_wait: Error | None  # request arrived until the server read it
    true_ms: dict[str, dict[str, float]]
    arrival_rate: float | None  # requests per second that arrived at the server: (n - 1) / (last - first)
    token_pace: float | None  # tokens per second that the server gave each stream: 1 / mean true ITL


def compare(records: Records, prefix: str, rows: Sequence[Mapping[str, Any]]) -> Comparison:
    """Hold `records`, whose request ids are `prefix` and the index, against the server's rows (GET /truth?requests=1, with `send_ns`)."""
    known = {row["id"]: row for row in rows if row["outcome"] == "completed" and row.get("send_ns")}
    events = np.diff(records.token_rows)
    pairs = []
    unmatched = 0
    for place in np.flatnonzero(records.completed).tolist():
        row = known.get(f"{prefix}{records.index[place]}")
        if row is None or len(row["send_ns"]) != events[place]:
            unmatched += 1
        else:
            pairs.append((place, row))
    places = np.array([place for place, _ in pairs], np.int64)
    sent, first, last = records.sent_ns[places], records.first_token_ns[places], records.last_token_ns[places]
    true_first, true_last, read = (np.array([row[name] for _, row in pairs], np.int64) for name in ("first_ns", "last_ns", "read_ns"))
    stamps = [row.get("arrived_ns") for _, row in pairs]
    arrived = np.array([own if stamp is None else stamp for stamp, own in zip(stamps, sent.tolist(), strict=True)], np.int64)
    client_tokens, starts = _tokens(records, places)
    true_tokens = np.array([time for _, row in pairs for time in row["send_ns"]], np.int64)
    gaps, true_gaps = _gaps(client_tokens, starts), _gaps(true_tokens, starts)
    span = int(arrived.max() - arrived.min()) if len(pairs) > 1 else 0
    return Comparison(
        matched=len(pairs),
        unmatched=unmatched,
        without_arrival=sum(stamp is None for stamp in stamps),
        first_token=error(first - true_first),
        last_token=error(last - true_last),
        every_token=error(client_tokens - true_tokens),
        sending=error(arrived - sent),
        ttft=error((first - sent) - (true_first - arrived)),
        itl=error(gaps - true_gaps),
        e2el=error((last - sent) - (true_last - arrived)),
        server_wait=error(read - arrived),
        true_ms=_figures(ttft=true_first - arrived, itl=true_gaps, e2el=true_last - arrived),
        arrival_rate=(len(pairs) - 1) / span * 1e9 if span else None,
        token_pace=1e9 / float(true_gaps.mean()) if len(true_gaps) and true_gaps.mean() else None,
    )


def error(errors_ns: Ints) -> Error | None:
    """The figures of some errors in nanoseconds; None without any."""
    if not len(errors_ns):
        return None
    sizes = np.abs(errors_ns) / 1e3
    return Error(
        count=len(errors_ns),
        mean_us=float(errors_ns.mean()) / 1e3,
        median_us=float(np.median(errors_ns)) / 1e3,
        p99_us=float(np.percentile(sizes, 99)),
        max_us=float(sizes.max()),
    )


def _tokens(records: Records, places: Ints) -> tuple[Ints, Ints]:
    """Absolute times of the token events of the requests at `places`, in one array, and where each request begins in it."""
    rows, offsets = records.token_rows, records.token_ns
    parts = [offsets[rows[place] : rows[place + 1]] + records.sent_ns[place] for place in places]
    sizes = np.array([len(part) for part in parts], np.int64)
    starts = np.cumsum(sizes) - sizes
    return (np.concatenate(parts) if parts else np.zeros(0, np.int64)), starts


def _gaps(times: Ints, starts: Ints) -> Ints:
    """Gaps between neighbouring times of the same request."""
    if not len(times):
        return times
    inside = np.ones(len(times), bool)
    inside[starts] = False
    gaps: Ints = np.diff(times, prepend=times[0])[inside]
    return gaps


def _figures(**spans_ns: Ints) -> dict[str, dict[str, float]]:
    return {
        name: {"mean": float(spans.mean()) / 1e6, "p50": float(np.percentile(spans, 50)) / 1e6, "p99": float(np.percentile(spans, 99)) / 1e6}
        for name, spans in spans_ns.items()
        if len(spans)
    }
