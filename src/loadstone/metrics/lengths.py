"""Lengths in tokens, one value a request.

input_len = prompt tokens that the server took from its cache (the seed's name and meaning: `cached_tokens`). s_input_len = prompt tokens as the
server counted them. output_len = output tokens: usage, else the tokenizer's count of the text received, else the number of token events; never what
was asked.

Absent (nan) where the server did not tell (s_input_len is not replaced by the client's count) and for failed and cancelled requests. 0 is a length.
"""

from loadstone.metrics.spans import only
from loadstone.records import Records, Spans


def input_len(records: Records) -> Spans:
    """Cached prompt tokens of each request, nan where it is absent."""
    return only(records.completed, records.cached_tokens)


def s_input_len(records: Records) -> Spans:
    """Prompt tokens of each request by the server's count, nan where it is absent."""
    return only(records.completed & ~records.prompt_token_source.equal("local"), records.prompt_tokens)


def output_len(records: Records) -> Spans:
    """Output tokens of each request, nan where it is absent."""
    return only(records.completed, records.output_tokens)
