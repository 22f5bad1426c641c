"""The layout of records in columns: what one row holds, in memory and in the file `rows` of a column folder. Described in docs/records.md.

A row has a fixed size. Values of which a request has many (`token_ns`, `token_counts`, `server_ns`, `server_spans`) and texts lie in files of their
own; the row says where its share of them ends or begins.
"""

import struct

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
Spans = NDArray[np.float64]
Rows = NDArray[np.void]

ABSENT = -(2**63)  # "no such time" in the int64 columns
NO_TEXT = -1  # the size of a text that is None

TIMES = ("planned_ns", "sent_ns", "first_byte_ns", "first_token_ns", "first_output_ns", "last_token_ns", "end_ns")
COUNTS = ("prompt_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "local_prompt_tokens", "wanted_output_tokens")
# texts that repeat: a code into one table
WORDS = ("status", "reason", "token_source", "prompt_token_source", "model", "span_names", "target", "retried")
TEXTS = ("error", "text", "reasoning")  # one after the other from `texts_at`
ROWS_OF = {"token_ns": "token_rows", "token_counts": "token_count_rows", "server_ns": "server_rows", "server_spans": "span_rows"}
MADE = ("connect_ns", "tls_ns")  # of the connection; 0 where it was there already
RAGGED = tuple(ROWS_OF)

_FIELDS = (
    *(("index", "q"), *((name, "q") for name in TIMES), *((name, "d") for name in COUNTS)),
    *((f"{name}_end", "q") for name in RAGGED),  # values of this row and of all rows before it
    ("texts_at", "q"),
    *((f"{name}_size", "i") for name in TEXTS),  # bytes of UTF-8, NO_TEXT for None
    *((name, "i") for name in WORDS),
    *((name, "q") for name in MADE),
    ("merged_reads", "i"),
    ("streamed", "i"),
    ("attempts", "i"),
)

pack_row = struct.Struct("<" + "".join(code for _, code in _FIELDS)).pack
ROW = np.dtype([(name, {"q": "<i8", "d": "<f8", "i": "<i4"}[code]) for name, code in _FIELDS])


def offsets(sizes: NDArray[np.integer]) -> Times:
    """Row offsets of a ragged column from its row sizes: n + 1 numbers from 0."""
    found = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=found[1:])
    return found
