"""Records as JSON lines (`--records FILE`): a first line that describes the run, then one record a line as requests finish."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from loadstone.errors import UsageError
from loadstone.records.record import SCHEMA, Record, RunHeader


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
