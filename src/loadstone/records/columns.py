"""Records in columns: what the metrics read."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from loadstone.records.buffer import Buffer
from loadstone.records.layout import ABSENT, RAGGED, ROWS_OF, TEXTS, WORDS, Spans, Times, offsets
from loadstone.records.parts import FilePart, MemoryPart
from loadstone.records.pieces import Piece, cut, joined_words, read_columns, read_index, value_range
from loadstone.records.ragged import values_of
from loadstone.records.record import COMPLETED, Record
from loadstone.records.words import Texts, Words

WHOLE_VALUES = 1 << 20  # a run of no more values in ragged columns than this is one block
BLOCK_VALUES = 1 << 17  # those of a block of a larger run: what a processor's cache holds


class Records:
    """Records in columns, in plan order. Row i of every column is the same request.

    Times are int64 nanoseconds with ABSENT for none; token counts are floats with nan for none. Ragged columns (`token_ns`, `token_counts`,
    `server_ns`, `server_spans`) are one flat array and `*_rows`, n + 1 offsets: row i is flat[rows[i]:rows[i + 1]]. `token_gaps` and `server_gaps`
    are the steps within each row, the first value of a row being its first time.

    The columns of one value a request are in memory, about 160 bytes a request; repeated texts are codes, other texts stay where they lie. So do the
    ragged columns: they are read when their attribute is first asked for, and are then whole in memory. Whoever must do with little goes through
    `blocks` instead.
    """

    index: Times
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
    status: Words
    reason: Words
    token_source: Words
    prompt_token_source: Words
    model: Words
    span_names: Words  # of the values in server_spans, tabs between them
    target: Words  # URL of the server
    retried: Words  # attempts that were followed by another: of each the server's number, a blank and the reason, tabs between them
    streamed: NDArray[np.bool_]
    connect_ns: Times  # 0 where the connection was there already
    tls_ns: Times
    merged_reads: Times
    attempts: Times
    token_rows: Times
    token_count_rows: Times
    server_rows: Times
    span_rows: Times
    error: Sequence[str]
    text: Sequence[str | None]
    reasoning: Sequence[str | None]

    def __init__(self, records: Iterable[Record]) -> None:
        """Columns of `records`, held in memory."""
        buffer = Buffer()
        for record in records:
            buffer.add(record)
        part = MemoryPart(buffer)
        self._load([Piece(part, 0, part.count)], in_plan_order=True)

    @classmethod
    def open(cls, *folders: Path) -> Self:
        """The records of column folders (ColumnWriter), all together. A tail that was not flushed or was cut is left out. The folders may be removed
        while the records are in use. Raises OSError for what is no column folder.
        """
        parts = [FilePart(folder) for folder in folders]
        return cls._of([Piece(part, 0, part.count) for part in parts], in_plan_order=True)

    @classmethod
    def _of(cls, pieces: list[Piece], in_plan_order: bool) -> Self:
        found = cls.__new__(cls)
        found._load(pieces, in_plan_order)
        return found

    def _load(self, pieces: list[Piece], in_plan_order: bool) -> None:
        self._pieces = pieces
        self.index = read_index(pieces)
        self._order: Times | None = None  # where in the pieces row i is; None: they are in this order
        if in_plan_order and not (self.index[:-1] <= self.index[1:]).all():
            self._order = np.argsort(self.index, kind="stable")
            self.index = self.index[self._order]
        columns = read_columns(pieces, self._order)
        for name in RAGGED:
            setattr(self, ROWS_OF[name], offsets(columns.pop(name)))
        table, _ = joined_words(pieces)
        for name in WORDS:
            setattr(self, name, Words(columns.pop(name), table))
        for name in TEXTS:
            setattr(self, name, Texts(pieces, self._order, name))
        for name, column in columns.items():
            setattr(self, name, column)

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def completed(self) -> NDArray[np.bool_]:
        """Which requests succeeded: only these join latencies and token totals."""
        return self.status.equal(COMPLETED)

    @cached_property
    def token_ns(self) -> Times:
        """Times of the token events, as offsets from sent_ns."""
        return values_of(self.token_gaps, self.token_rows)

    @cached_property
    def token_gaps(self) -> Times:
        """Each of `token_ns` less the one before it in its row; the first of a row as it is."""
        return self._flat("token_ns", self.token_rows)

    @cached_property
    def token_counts(self) -> Times:
        """Tokens of each token event, for the rows where running usage told."""
        return self._flat("token_counts", self.token_count_rows)

    @cached_property
    def server_ns(self) -> Times:
        """The server's own times of the token events."""
        return values_of(self.server_gaps, self.server_rows)

    @cached_property
    def server_gaps(self) -> Times:
        """Each of `server_ns` less the one before it in its row; the first of a row as it is."""
        return self._flat("server_ns", self.server_rows)

    @cached_property
    def server_spans(self) -> Times:
        """Nanoseconds that servers said something took, in the order of `span_names`."""
        return self._flat("server_spans", self.span_rows)

    def server_span(self, name: str) -> Spans:
        """What each request's server said of one span, in nanoseconds; nan where it said nothing, and for requests that did not complete."""
        found = np.full(len(self), np.nan)
        for names in self.span_names.counts(self.completed):
            if names and name in (listed := names.split("\t")):
                rows = self.span_names.equal(names) & self.completed
                found[rows] = self.server_spans[self.span_rows[:-1][rows] + listed.index(name)]
        return found

    def between(self, start: Times, end: Times) -> Spans:
        """`end - start` in nanoseconds, nan where either is absent or the request did not complete."""
        known = self.completed & (start != ABSENT) & (end != ABSENT)
        return np.where(known, end - np.where(known, start, end), np.nan)

    def blocks(self) -> "Iterator[tuple[Times | slice, Records]]":
        """All records in blocks of bounded size, each with the rows of this object that it holds, in the order of the block.

        A small run is one block, this object itself. The blocks of a large one are in the order in which requests finished; to go through them costs
        reading the files once, and about 30 bytes a value of one block.
        """
        if sum(int(getattr(self, rows)[-1]) for rows in ROWS_OF.values()) <= WHOLE_VALUES:
            yield slice(0, len(self)), self
            return
        place = 0
        rows = np.empty(len(self), np.int64) if self._order is not None else None
        if rows is not None:
            rows[self._order] = np.arange(len(self))
        for piece in cut(self._pieces, BLOCK_VALUES):
            end = place + piece.last - piece.first
            yield (slice(place, end) if rows is None else rows[place:end]), Records._of([piece], in_plan_order=False)
            place = end

    def _flat(self, name: str, rows: Times) -> Times:
        found = [piece.part.values(name, *value_range(piece, name)) for piece in self._pieces]
        values = found[0] if len(found) == 1 else np.concatenate([np.zeros(0, np.int64), *found])
        if self._order is None or not len(values):
            return values
        sizes = np.empty(len(self), np.int64)
        sizes[self._order] = np.diff(rows)
        starts = offsets(sizes)[:-1][self._order]
        return np.take(values, np.repeat(starts - rows[:-1], np.diff(rows)) + np.arange(rows[-1]))
