"""An exchange in, a record out: HTTP, then events, then the backend's meaning of each, stamped with the time of the read that completed it.

No sockets, no clock; whatever the bytes are, there is a record and no exception. Failed and cancelled requests keep what came.
"""

from collections.abc import Callable

import numpy as np

from loadstone.backends.base import Backend
from loadstone.decode import http
from loadstone.decode.body import Offsets
from loadstone.decode.outcome import attempt_reason, outcome
from loadstone.decode.reading import Reading, read
from loadstone.engine.exchange import End, Exchange
from loadstone.records import Record, Retried


def decode(
    exchange: Exchange, backend: Backend, *, request: bytes = b"", count_tokens: Callable[[str], int] | None = None, keep_text: bool = True
) -> Record:
    """The record of one exchange. `count_tokens` counts what a server without usage does not; `keep_text=False` leaves text and reasoning out.
    `request` is the body that was sent, where it is known: some APIs are held to answer all of it.

    request_id, target, model, conversation and turn are the caller's to fill in: they are in the plan, not on the wire.
    """
    response = http.parse(exchange.raw, exchange.read_ends)
    reading = None
    if response.status is not None and 200 <= response.status < 300:
        at_end = response.complete or (response.until_close and exchange.end == End.COMPLETE)
        reading = read(response.body, backend, at_end and not response.fault, exchange.end == End.OPEN_AFTER_DONE, response.chunks)
        reply = reading.reply
        if request and (reply.finished or reply.done) and reply.error is None:
            backend.answers(request, reply)
    verdict = outcome(exchange, response, reading, backend.has_end_mark)
    record = Record(
        index=exchange.index,
        status=verdict.status,
        reason=verdict.reason,
        error=verdict.error,
        http_status=response.status,
        planned_ns=exchange.planned_ns,
        sent_ns=exchange.sent_ns,
        end_ns=None if exchange.end == End.NOT_SENT else exchange.end_ns,
        worker=exchange.worker,
        reused=exchange.reused,
        connect_ns=exchange.connect_ns,
        tls_ns=exchange.tls_ns,
        attempts=len(exchange.retried) + 1,
        retried=retried(exchange),
    )
    if record.error and record.attempts > 1:
        record.error += f" (after {record.attempts} attempts)"
    if len(exchange.stamps_ns) > response.first_read:
        record.first_byte_ns = int(exchange.stamps_ns[response.first_read])
    if reading is not None:
        _fill(record, reading, exchange, response.reads_of(reading.ends), count_tokens if backend.generates else None, keep_text)
        if not backend.generates:
            record.output_tokens, record.token_source = 0, "none"
    return record


def retried(exchange: Exchange) -> list[Retried]:
    """The attempts before the last one."""
    return [
        Retried(server=attempt.server, reason=attempt_reason(attempt.end, attempt.status), began_ns=attempt.began_ns, end_ns=attempt.end_ns)
        for attempt in exchange.retried
    ]


def _fill(record: Record, reading: Reading, exchange: Exchange, reads: Offsets, count_tokens: Callable[[str], int] | None, keep_text: bool) -> None:
    record.streamed = reading.streamed
    record.finish_reason = reading.reply.finish_reason
    record.server_spans = reading.reply.server_spans
    if keep_text:
        record.text, record.reasoning = reading.text, reading.reasoning
    if len(reads) and exchange.sent_ns is not None:
        stamps = exchange.stamps_ns[reads]
        record.first_token_ns, record.last_token_ns = int(stamps[0]), int(stamps[-1])
        if reading.first_visible is not None:
            record.first_output_ns = int(stamps[reading.first_visible])
        record.token_ns = (stamps - exchange.sent_ns).tolist()
        record.token_counts, record.server_ns = reading.token_counts, reading.server_ns
        record.merged_reads = _merged(reads)
    _count(record, reading, count_tokens)


def _merged(reads: Offsets) -> int:
    """How many reads completed more than one of the token events whose reads these are."""
    same = reads[1:] == reads[:-1]
    return int(np.count_nonzero(same) - np.count_nonzero(same[1:] & same[:-1]))


def _count(record: Record, reading: Reading, count_tokens: Callable[[str], int] | None) -> None:
    """Tokens from usage; else from the tokenizer, channel by channel, since the model put something between them; else one a token event. A prompt
    that was repeated before the answer is no output.
    """
    usage = reading.reply.usage
    record.cached_tokens, record.reasoning_tokens = usage.cached_tokens, usage.reasoning_tokens
    nothing_said = not (reading.text or reading.reasoning or reading.tool_call)
    if usage.prompt_tokens is not None:
        record.prompt_tokens, record.prompt_token_source = usage.prompt_tokens, "usage"
    elif usage.total_tokens is not None and (usage.output_tokens is not None or nothing_said):
        record.prompt_tokens, record.prompt_token_source = max(usage.total_tokens - (usage.output_tokens or 0), 0), "usage"
    if count_tokens and reading.reasoning and record.reasoning_tokens is None:
        record.reasoning_tokens = count_tokens(reading.reasoning)
    if usage.output_tokens is not None:
        record.output_tokens, record.token_source = usage.output_tokens, "usage"
    elif count_tokens:
        texts, others = reading.texts or [reading.text], reading.others or [reading.reasoning, reading.tool_call]
        echo, repeated = reading.reply.echo, 0
        if isinstance(echo, str):
            texts = [text.removeprefix(echo) for text in texts]
        else:
            repeated = echo
        said = [max(count_tokens(text) - repeated, 0) for text in texts if text]
        record.output_tokens = sum(said) + sum(count_tokens(channel) for channel in others if channel)
        record.token_source = "tokenizer"
    elif reading.streamed:
        record.output_tokens, record.token_source = len(reading.ends), "events"
