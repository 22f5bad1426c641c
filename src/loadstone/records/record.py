"""A record: what happened to one request. Times are CLOCK_MONOTONIC nanoseconds of the machine that sent it; None is absent."""

from typing import Any

import msgspec

SCHEMA = "loadstone.records/1"
COMPLETED, FAILED, CANCELLED = "completed", "failed", "cancelled"


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that was followed by another (--retries)."""

    server: int  # number in the run's list of servers
    reason: str  # as in Record
    began_ns: int  # its first byte sent, or a connection begun that could not be made
    end_ns: int


class Record(msgspec.Struct, kw_only=True):
    """One request, as it is written to the records file. Field meanings: docs/records.md."""

    index: int
    request_id: str = ""
    status: str = COMPLETED
    error: str = ""  # one line for a person; "" when completed
    reason: str = ""  # short kind of failure to count by: "http 429", "reset", "timeout" ...; "no finish_reason" of a completed stream
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
    token_source: str | None = None  # of output_tokens: usage, tokenizer, events; none: the API has no tokens out
    prompt_token_source: str | None = None  # usage, local
    local_prompt_tokens: int | None = None  # the client's own count of the prompt, also where usage told prompt_tokens
    wanted_output_tokens: int | None = None  # the most tokens that were asked for
    finish_reason: str | None = None
    streamed: bool = True
    text: str | None = None
    reasoning: str | None = None
    server_ns: list[int] = []  # the server's own time of each token event, from when it received the request
    server_spans: dict[str, int] = {}  # nanoseconds that the server says something took, by its name for it
    worker: int = 0
    target: str = ""
    model: str = ""
    conversation: int | None = None
    turn: int | None = None
    merged_reads: int = 0  # reads that completed more than one event
    reused: bool = False
    connect_ns: int = 0  # what making the connection took; on the first request it carried
    tls_ns: int = 0  # the TLS handshake after that
    attempts: int = 1  # tries of the request, the last one included; times are from the first, all else is of the last
    retried: list[Retried] = []  # those before the last


class RunHeader(msgspec.Struct, kw_only=True):
    """The first line of a records file: what the times mean and how the run was asked for."""

    schema: str = SCHEMA
    clock: str = ""
    wall_clock_of_zero_ns: int = 0  # CLOCK_REALTIME when CLOCK_MONOTONIC was zero
    command: list[str] = []
    config: dict[str, Any] = {}
