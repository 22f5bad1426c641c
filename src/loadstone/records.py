"""Records: what happened to each request, one object a request, and the same in columns for the metrics.

The JSON-lines form (`--records FILE`) has a first line that describes the run, then one `Record` a line as requests finish. Times are
CLOCK_MONOTONIC nanoseconds of the machine that sent the request; null is absent.
"""

from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadstone.errors import UsageError

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
    local_prompt_tokens: int | None = None  # the client's own count of the prompt, also where usage told prompt_tokens
    wanted_output_tokens: int | None = None  # the most tokens that were asked for
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


class RunHeader(msgspec.Struct, kw_only=True):
    """The first line of a records file: what the times mean and how the run was asked for."""

    schema: str = SCHEMA
    clock: str = ""
    wall_clock_of_zero_ns: int = 0  # CLOCK_REALTIME when CLOCK_MONOTONIC was zero
    command: list[str] = []
    config: dict[str, Any] = {}


_TIMES = ("planned_ns", "sent_ns", "first_byte_ns", "first_token_ns", "first_output_ns", "last_token_ns", "end_ns")
_COUNTS = ("prompt_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "local_prompt_tokens", "wanted_output_tokens")
_LISTS = ("reason", "error", "token_source", "prompt_token_source", "model", "text", "reasoning")
_RAGGED = ("token_ns", "token_counts", "server_ns")


class Records:
    """Records in columns, in plan order. Row i of every array is the same request.

    Times are int64 nanoseconds with ABSENT for none; token counts are floats with nan for none. Ragged columns (`token_ns`, `token_counts`,
    `server_ns`) are one flat array and `*_rows`, n + 1 offsets: row i is flat[rows[i]:rows[i + 1]]. `records` is consumed once and not kept, so
    that a run of 20 million tokens costs 8 bytes a token.
    """

    planned_ns: Times
    sent_ns: Times
    first_byte_ns: Times
    first_token_ns: Times
    first_output_ns: Times
    last_token_ns: Times
    end_ns: Times
    prompt_tokens: Spans
    output_tokens: Spans
    cached_tokens: Spans
    reasoning_tokens: Spans
    local_prompt_tokens: Spans
    wanted_output_tokens: Spans
    reason: list[str]
    error: list[str]
    token_source: list[str | None]
    prompt_token_source: list[str | None]
    model: list[str]
    text: list[str | None]
    reasoning: list[str | None]

    def __init__(self, records: Iterable[Record]) -> None:
        columns: dict[str, list[Any]] = {name: [] for name in ("index", "status", "streamed", "merged_reads", *_TIMES, *_COUNTS, *_LISTS)}
        appends = [(name, column.append) for name, column in columns.items()]
        flat = {name: array("q") for name in _RAGGED}
        lengths: dict[str, list[int]] = {name: [] for name in _RAGGED}
        for record in records:
            for name, append in appends:
                append(getattr(record, name))
            for name in _RAGGED:
                values = getattr(record, name)
                flat[name].fromlist(values)
                lengths[name].append(len(values))

        index = np.array(columns["index"], np.int64)
        order = np.argsort(index, kind="stable")
        self.index = index[order]
        self.status = np.array(columns["status"], dtype="U9")[order]
        self.streamed = np.array(columns["streamed"], bool)[order]
        self.merged_reads = np.array(columns["merged_reads"], np.int64)[order]
        for name in _TIMES:
            setattr(self, name, np.array([ABSENT if value is None else value for value in columns[name]], np.int64)[order])
        for name in _COUNTS:
            setattr(self, name, np.array([np.nan if value is None else value for value in columns[name]], np.float64)[order])
        for name in _LISTS:
            setattr(self, name, [columns[name][row] for row in order])
        self.token_ns, self.token_rows = _ragged(flat["token_ns"], lengths["token_ns"], order)
        self.token_counts, self.token_count_rows = _ragged(flat["token_counts"], lengths["token_counts"], order)
        self.server_ns, self.server_rows = _ragged(flat["server_ns"], lengths["server_ns"], order)

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def completed(self) -> NDArray[np.bool_]:
        """Which requests succeeded: only these join latencies and token totals."""
        return np.asarray(self.status == COMPLETED)

    def between(self, start: Times, end: Times) -> Spans:
        """`end - start` in nanoseconds, nan where either is absent or the request did not complete."""
        known = self.completed & (start != ABSENT) & (end != ABSENT)
        return np.where(known, end - np.where(known, start, end), np.nan)


def _ragged(flat: "array[int]", lengths: list[int], order: NDArray[np.intp]) -> tuple[Times, Times]:
    """The flat values and row offsets of a ragged column, its rows brought into `order`."""
    values = np.frombuffer(flat, np.int64) if flat else np.zeros(0, np.int64)
    sizes = np.array(lengths, np.int64)
    starts = np.concatenate(([0], np.cumsum(sizes)))[:-1] if len(sizes) else sizes
    sizes, starts = sizes[order], starts[order]
    rows = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    if len(values) and not np.array_equal(starts, rows[:-1]):
        values = values[np.repeat(starts - rows[:-1], sizes) + np.arange(rows[-1])]
    return values, rows


def write_header(file: BinaryIO, header: RunHeader) -> None:
    """Write the first line of a records file and flush it, so that a run killed at once leaves a readable file."""
    file.write(msgspec.json.encode(header) + b"\n")
    file.flush()


def encode_record(record: Record) -> bytes:
    """One line of a records file, newline included. Halves of surrogate pairs, which no UTF-8 can hold, become U+FFFD."""
    try:
        return msgspec.json.encode(record) + b"\n"
    except UnicodeEncodeError:
        texts = {name: whole_text(value) for name in record.__struct_fields__ if isinstance(value := getattr(record, name), str)}
        return msgspec.json.encode(msgspec.structs.replace(record, **texts)) + b"\n"


def whole_text(text: str) -> str:
    """`text` as UTF-8 can hold it: surrogate pairs joined, lone halves replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def open_records(path: str | Path) -> tuple[RunHeader, Iterator[Record]]:
    """The header of a records file, and its records one at a time. Raises UsageError naming file and line for what is no records file.

    A last line without its newline that cannot be read was cut when the run was killed: it is left out.
    """
    try:
        with Path(path).open("rb") as file:
            first = file.readline()
    except OSError as error:
        raise UsageError(f"cannot read the records file {path}: {error.strerror or error}") from None
    try:
        header = msgspec.json.decode(first, type=RunHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}, line 1: not the header of a records file ({error}); give a file written by --records") from None
    if header.schema != SCHEMA:
        raise UsageError(f"{path} has the schema {header.schema!r}; this version reads {SCHEMA!r}")
    return header, _records(Path(path))


def read_records(path: str | Path) -> tuple[RunHeader, list[Record]]:
    """The header and all records of a file, in the order they were written. See `open_records`."""
    header, records = open_records(path)
    return header, list(records)


def _records(path: Path) -> Iterator[Record]:
    decode = msgspec.json.Decoder(Record).decode
    with path.open("rb") as file:
        file.readline()
        for number, line in enumerate(file, 2):
            if line.isspace():
                continue
            try:
                record = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if not line.endswith(b"\n"):
                    return
                raise UsageError(f"{path}, line {number}: not a record ({error})") from None
            yield record
