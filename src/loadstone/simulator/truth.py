"""The truth: what the server itself knows of every reply, from its own clock. A client's numbers are held against it.

Of a reply: `arrived`, when the kernel had its request; `read`, the time right after the read that completed it, so that read - arrived is the wait
for this server; and for each token event the time right after the `send` that carried its last byte returned. TTFT = first send - read, ITL = gaps
between sends shared over the tokens of the event, ICL = the gaps themselves, E2EL = last send - read. As in the client's definitions, only completed
replies join a latency, and only streams join TTFT, ITL and ICL.
"""

import time
from collections import deque
from itertools import pairwise
from typing import Any

import msgspec

COMPLETED, CANCELLED = "completed", "cancelled"
FINE_BELOW_NS = 1_000_000_000  # kept to a microsecond; each decade above, ten times coarser


class Spread:
    """The distribution of a time span: count, mean and maximum exact, percentiles to a microsecond (from 1 s on to a millionth of the value).

    Kept as counts of rounded values, so that memory does not grow with the number of samples.
    """

    def __init__(self) -> None:
        self.count = self.total_ns = self.max_ns = 0
        self._counts: dict[int, int] = {}

    def add(self, span_ns: int, weight: int = 1) -> None:
        unit, limit_ns = 1_000, FINE_BELOW_NS
        while span_ns >= limit_ns:
            unit, limit_ns = unit * 10, limit_ns * 10
        rounded = (span_ns + unit // 2) // unit * unit
        self._counts[rounded] = self._counts.get(rounded, 0) + weight
        self.count += weight
        self.total_ns += span_ns * weight
        if span_ns > self.max_ns:
            self.max_ns = span_ns

    def summary(self) -> dict[str, float] | None:
        """In milliseconds; None without samples. Percentiles interpolate linearly between samples."""
        if not self.count:
            return None
        values = sorted(self._counts)
        wanted = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
        found = {name: self._at(share * (self.count - 1), values) / 1e6 for name, share in wanted.items()}
        return {"count": self.count, "mean": self.total_ns / self.count / 1e6, **found, "max": self.max_ns / 1e6}

    def _at(self, rank: float, values: list[int]) -> float:
        low, part = int(rank), rank % 1
        below = 0
        for position, value in enumerate(values):
            below += self._counts[value]
            if low < below:
                above = value if low + 1 < below or position + 1 == len(values) else values[position + 1]
                return value + part * (above - value)
        return float(values[-1])


class Row(msgspec.Struct):
    """One finished request. Times are CLOCK_MONOTONIC nanoseconds of this machine."""

    id: str
    read_ns: int
    first_ns: int | None  # None: no token event was sent
    last_ns: int | None  # of a reply that is no stream: when its body had been sent
    tokens: int  # sent
    outcome: str  # completed, cancelled (the client went away) or the error that was asked for
    stream: bool = True
    stalled: bool = False
    arrived_ns: int | None = None  # when the kernel had the request's last byte, by its own stamp; None where it does not say
    send_ns: list[int] | None = None


class Truth:
    """The ledger. `finish` costs next to nothing; `fold` does the sums when there is time."""

    def __init__(self, keep_requests: int, keep_sends: bool) -> None:
        self._keep_requests, self._keep_sends = keep_requests, keep_sends
        self.epoch = 0
        self.reset()

    def reset(self) -> None:
        """Start afresh. Requests in flight belong to the time before and are not counted when they end."""
        self.epoch += 1
        self.received = self.in_flight = self.peak_in_flight = self.completed = self.cancelled = self.stalled = 0
        self.tokens = self.prompt_tokens = self.profile_starts = self.profile_stops = 0
        self.errors: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.ttft, self.itl, self.icl, self.e2el, self.late = Spread(), Spread(), Spread(), Spread(), Spread()
        self._rows: deque[Row] = deque(maxlen=self._keep_requests)
        self._pending: deque[tuple[Row, list[int], int]] = deque()
        self._rows_seen = 0
        self._cpu_s = time.process_time()

    def receive(self, prompt_tokens: int) -> int:
        """A generation request has come; returns the epoch that `finish` wants back."""
        self.received += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        self.prompt_tokens += prompt_tokens
        return self.epoch

    def refuse(self, status: int) -> None:
        self.refused[str(status)] = self.refused.get(str(status), 0) + 1

    def finish(self, row: Row, sends_ns: list[int], tokens_per_event: int, epoch: int) -> None:
        """A request has ended. `sends_ns`: when each token event was out."""
        if epoch != self.epoch:
            return
        self.in_flight -= 1
        self.stalled += row.stalled
        if row.outcome == COMPLETED:
            self.completed += 1
            self.tokens += row.tokens
        elif row.outcome == CANCELLED:
            self.cancelled += 1
        else:
            self.errors[row.outcome] = self.errors.get(row.outcome, 0) + 1
        self._pending.append((row, sends_ns, tokens_per_event))

    def fold(self, until_ns: int | None = None) -> None:
        """Join what has finished into the sums, until the clock reads `until_ns` (None: all of it)."""
        while self._pending and (until_ns is None or time.monotonic_ns() < until_ns):
            row, sends_ns, tokens_per_event = self._pending.popleft()
            if row.outcome == COMPLETED:
                self._join(row, sends_ns, tokens_per_event)
            if self._keep_sends:
                row.send_ns = sends_ns
            self._rows.append(row)
            self._rows_seen += 1

    def _join(self, row: Row, sends_ns: list[int], tokens_per_event: int) -> None:
        if row.last_ns is not None:
            self.e2el.add(row.last_ns - row.read_ns)
        if not row.stream or not sends_ns:
            return
        self.ttft.add(sends_ns[0] - row.read_ns)
        left = row.tokens - tokens_per_event  # after the first event
        for before, after in pairwise(sends_ns):
            gap = after - before
            self.icl.add(gap)
            held = min(tokens_per_event, left)
            left -= held
            self.itl.add(gap if held == 1 else gap // held, held)

    def document(self, engine: dict[str, Any], with_requests: bool = False) -> dict[str, Any]:
        """What GET /truth answers: received = completed + cancelled + errors + in_flight. `engine`: the engine's own counts."""
        self.fold()
        document: dict[str, Any] = {
            "clock": "CLOCK_MONOTONIC, ns",
            "received": self.received,
            "completed": self.completed,
            "cancelled": self.cancelled,
            "errors": self.errors,
            "stalled": self.stalled,
            "in_flight": self.in_flight,
            "refused": self.refused,
            "peak_in_flight": self.peak_in_flight,
            **engine,
            "prompt_tokens": self.prompt_tokens,
            "output_tokens": self.tokens,
            "ttft_ms": self.ttft.summary(),
            "itl_ms": self.itl.summary(),
            "icl_ms": self.icl.summary(),
            "e2el_ms": self.e2el.summary(),
            "step_late_ms": self.late.summary(),
            "cpu_s": round(time.process_time() - self._cpu_s, 3),
            "profile_starts": self.profile_starts,
            "profile_stops": self.profile_stops,
        }
        if with_requests:
            document["requests"] = list(self._rows)
            document["requests_left_out"] = self._rows_seen - len(self._rows)
        return document
