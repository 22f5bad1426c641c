"""Made-up replies: times in milliseconds after the send, so that right values can be worked out by hand."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from loadstone.records import Record

MS = 1_000_000
Reply = Callable[..., Record]


@pytest.fixture
def reply() -> Reply:
    """`reply(index, sent, [token times], ...)`: a completed stream sent `sent` ms after zero; anything else by the record's own names."""

    def make(index: int = 0, sent: float = 0, tokens: Sequence[float] = (), **fields: Any) -> Record:
        sent_ns = round(sent * MS)
        times = [round(t * MS) for t in tokens]
        found: dict[str, Any] = {"index": index, "sent_ns": sent_ns, "token_ns": times, "end_ns": sent_ns + (times[-1] if times else 0)}
        if times:
            found |= {"first_token_ns": sent_ns + times[0], "first_output_ns": sent_ns + times[0], "last_token_ns": sent_ns + times[-1]}
            found |= {"output_tokens": len(times), "token_source": "usage"}
        return Record(**{**found, **fields})

    return make
