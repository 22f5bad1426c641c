"""Records: what happened to each request, one object a request, and the same in columns for the metrics.

The JSON-lines form (`--records FILE`) has a first line that describes the run, then one `Record` a line as requests finish. Times are
CLOCK_MONOTONIC nanoseconds of the machine that sent the request; null is absent.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

SCHEMA = "loadstone.records/1"
COMPLETED, FAILED, CANCELLED = "completed", "failed", "cancelled"
ABSENT = np.iinfo(np.int64).min  # "no such time" in the int64 columns

Times = NDArray[np.int64]
Spans = NDArray[np.float64]


class Record(msgspec.Struct, kw_only=True):
    """One request, as it is written to the records file. Field meanings: docs/records.md."""

    index: int
    request_id: str = ""
    status: str = COMPLETED
    error: str = ""  # one line for a person; "" when completed
    reason: str = ""  # short kind of failure to count by: "http 429", "reset", "timeout", "server error" ...
    http_status: int | None = None
    planned_ns: int | None = None
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    first_token_ns: int | None = None
    first_output_ns: int | None = None
    last_token_ns: int | None = None
    end_ns: int | None = None
    token_ns: list[int] = []  # offsets from sent_ns of the token events
    token_counts: list[int] = []  # tokens of each event; empty where no running usage told
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    token_source: str | None = None  # of output_tokens: usage, tokenizer, events
    prompt_token_source: str | None = None  # usage, local
    finish_reason: str | None = None
    streamed: bool = True
    text: str | None = None
    reasoning: str | None = None
    server_ns: list[int] = []  # the server's own time of each token event, from when it received the request
    worker: int = 0
    target: str = ""
    model: str = ""
    conversation: int | None = None
    turn: int | None = None
    merged_reads: int = 0  # reads that completed more than one event
    reused: bool = False
    connect_ns: int = 0


class Records:
    """Records in columns, in plan order. Row i of every array is the same request.

    Ragged columns (`token_ns`, `token_counts`, `server_ns`) are one flat array and `*_rows`, n + 1 offsets: row i is flat[rows[i]:rows[i + 1]].
    """

    def __init__(self, records: Iterable[Record]) -> None:
        rows = sorted(records, key=lambda record: record.index)
        self.index = np.array([r.index for r in rows], np.int64)
        self.status = np.array([r.status for r in rows], dtype="U9")
        self.reason = [r.reason for r in rows]
        self.error = [r.error for r in rows]
        self.streamed = np.array([r.streamed for r in rows], bool)
        self.planned_ns, self.sent_ns, self.first_byte_ns = (_times(rows, name) for name in ("planned_ns", "sent_ns", "first_byte_ns"))
        self.first_token_ns, self.first_output_ns = (_times(rows, name) for name in ("first_token_ns", "first_output_ns"))
        self.last_token_ns, self.end_ns = (_times(rows, name) for name in ("last_token_ns", "end_ns"))
        self.prompt_tokens, self.output_tokens = (_counts(rows, name) for name in ("prompt_tokens", "output_tokens"))
        self.cached_tokens, self.reasoning_tokens = (_counts(rows, name) for name in ("cached_tokens", "reasoning_tokens"))
        self.token_source = [r.token_source for r in rows]
        self.prompt_token_source = [r.prompt_token_source for r in rows]
        self.merged_reads = np.array([r.merged_reads for r in rows], np.int64)
        self.token_ns, self.token_rows = _ragged([r.token_ns for r in rows])
        self.token_counts, self.token_count_rows = _ragged([r.token_counts for r in rows])
        self.server_ns, self.server_rows = _ragged([r.server_ns for r in rows])
        self.model = [r.model for r in rows]
        self.text = [r.text for r in rows]
        self.reasoning = [r.reasoning for r in rows]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def completed(self) -> NDArray[np.bool_]:
        """Which requests succeeded: only these join latencies and token totals."""
        return np.asarray(self.status == COMPLETED)

    def between(self, start: Times, end: Times) -> Spans:
        """`end - start` in nanoseconds, nan where either is absent or the request did not complete."""
        known = self.completed & (start != ABSENT) & (end != ABSENT)
        return np.where(known, end - np.where(known, start, end), np.nan)


def _times(rows: list[Record], name: str) -> Times:
    return np.array([ABSENT if (value := getattr(r, name)) is None else value for r in rows], np.int64)


def _counts(rows: list[Record], name: str) -> Spans:
    """Counts as floats, nan where absent."""
    return np.array([np.nan if (value := getattr(r, name)) is None else value for r in rows], np.float64)


def _ragged(lists: list[list[int]]) -> tuple[Times, Times]:
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(values) for values in lists], out=offsets[1:])
    flat = np.fromiter((value for values in lists for value in values), np.int64, int(offsets[-1]))
    return flat, offsets


class RunHeader(msgspec.Struct, kw_only=True):
    """The first line of a records file: what the times mean and how the run was asked for."""

    schema: str = SCHEMA
    clock: str = ""
    wall_clock_of_zero_ns: int = 0  # CLOCK_REALTIME when CLOCK_MONOTONIC was zero
    command: list[str] = []
    config: dict[str, Any] = {}
