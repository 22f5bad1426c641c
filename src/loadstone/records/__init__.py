"""Records: what happened to each request. One object a request as it is decoded (`Record`), JSON lines for people and other tools, and columns for
the metrics (`Records`), on disk so that a run of any length fits a small memory.
"""

from loadstone.records.columns import Records
from loadstone.records.layout import ABSENT, Spans, Times, offsets
from loadstone.records.lines import encode_record, open_records, read_records, whole_text, write_header
from loadstone.records.parts import FilePart
from loadstone.records.record import CANCELLED, COMPLETED, FAILED, SCHEMA, Record, Retried, RunHeader
from loadstone.records.words import Words
from loadstone.records.writer import ColumnWriter

__all__ = [
    "ABSENT",
    "CANCELLED",
    "COMPLETED",
    "FAILED",
    "SCHEMA",
    "ColumnWriter",
    "FilePart",
    "Record",
    "Records",
    "Retried",
    "RunHeader",
    "Spans",
    "Times",
    "Words",
    "encode_record",
    "offsets",
    "open_records",
    "read_records",
    "whole_text",
    "write_header",
]
