"""Rows in memory: what a writer has not yet written, or all of a small run."""

from array import array
from struct import error as struct_error

from loadstone.records.layout import ABSENT, NO_TEXT, RAGGED, pack_row
from loadstone.records.record import Record

NAN = float("nan")


class Buffer:
    """Records as rows, their many-valued fields and their texts. Offsets count from the first record, also after `drain`."""

    def __init__(self) -> None:
        self.rows = bytearray()
        self.values = {name: array("q") for name in RAGGED}
        self.texts = bytearray()
        self.words: dict[str | None, int] = {None: 0}
        self.row_count = 0  # rows that are here
        self._token_end = self._count_end = self._server_end = self._span_end = self._texts_at = 0

    def drain(self) -> None:
        """Forget rows, values and texts, which somebody has saved; the table of words stays."""
        self.rows = bytearray()
        self.values = {name: array("q") for name in RAGGED}
        self.texts = bytearray()
        self.row_count = 0

    def add(self, record: Record) -> None:
        """Append one record. Raises OverflowError for a time or a count of tokens that fits no 64 bits, leaving the buffer as it was."""
        r, code = record, self._code
        tokens, counts, server = array("q", r.token_ns), array("q", r.token_counts), array("q", r.server_ns)
        token_end, count_end, server_end = self._token_end + len(tokens), self._count_end + len(counts), self._server_end + len(server)
        spans = array("q", r.server_spans.values())
        span_end = self._span_end + len(spans)
        texts, sizes = b"", (0, NO_TEXT, NO_TEXT)
        if r.error or r.text is not None or r.reasoning is not None:
            parts = [None if text is None else text.encode("utf-8", "surrogatepass") for text in (r.error, r.text, r.reasoning)]
            sizes = tuple(NO_TEXT if part is None else len(part) for part in parts)  # type: ignore[assignment]
            texts = b"".join(part for part in parts if part)
        try:
            row = pack_row(
                r.index,
                ABSENT if r.planned_ns is None else r.planned_ns,
                ABSENT if r.sent_ns is None else r.sent_ns,
                ABSENT if r.first_byte_ns is None else r.first_byte_ns,
                ABSENT if r.first_token_ns is None else r.first_token_ns,
                ABSENT if r.first_output_ns is None else r.first_output_ns,
                ABSENT if r.last_token_ns is None else r.last_token_ns,
                ABSENT if r.end_ns is None else r.end_ns,
                NAN if r.prompt_tokens is None else r.prompt_tokens,
                NAN if r.output_tokens is None else r.output_tokens,
                NAN if r.cached_tokens is None else r.cached_tokens,
                NAN if r.reasoning_tokens is None else r.reasoning_tokens,
                NAN if r.local_prompt_tokens is None else r.local_prompt_tokens,
                NAN if r.wanted_output_tokens is None else r.wanted_output_tokens,
                token_end,
                count_end,
                server_end,
                span_end,
                self._texts_at,
                *sizes,
                code(r.status),
                code(r.reason),
                code(r.token_source),
                code(r.prompt_token_source),
                code(r.model),
                code("\t".join(r.server_spans) or None),
                code(r.target),
                code("\t".join(f"{each.server} {each.reason}" for each in r.retried) if r.retried else None),
                r.connect_ns,
                r.tls_ns,
                r.merged_reads,
                r.streamed,
                r.attempts,
            )
        except struct_error as error:
            raise OverflowError(f"record {r.index} has a number that fits no 64 bits: {error}") from None
        self.rows += row
        for name, more in zip(RAGGED, (tokens, counts, server, spans), strict=True):
            self.values[name] += more
        self.texts += texts
        self._token_end, self._count_end, self._server_end, self._span_end = token_end, count_end, server_end, span_end
        self._texts_at += len(texts)
        self.row_count += 1

    def _code(self, word: str | None) -> int:
        return self.words.setdefault(word, len(self.words))
