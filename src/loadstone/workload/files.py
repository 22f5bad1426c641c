"""Reading a data set's file: JSON lines or one JSON list, with every fault told by file and line."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from loadstone.config import RunConfig
from loadstone.errors import UsageError

BOM = b"\xef\xbb\xbf"


class Row(NamedTuple):
    """One object of a data set and where it stands, for messages: "file, line 3"."""

    place: str
    fields: dict[str, Any]


def json_lines(config: RunConfig) -> list[Row]:
    """The objects of --dataset-path, one a line. Blank lines, CRLF and a leading BOM are fine; UsageError names the line of what is
    no JSON object.
    """
    path, data = _read(config)
    rows = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line := line.strip():
            place = f"{path}, line {number}"
            fields = _decoded(line, place)
            if not isinstance(fields, dict):
                raise UsageError(f"{place}: each line must be a JSON object, this one is a {_kind(fields)}")
            rows.append(Row(place, fields))
    return rows


def json_list(config: RunConfig) -> list[Any]:
    """The entries of --dataset-path, which is one JSON list."""
    path, data = _read(config)
    entries = _decoded(data, str(path))
    if not isinstance(entries, list):
        raise UsageError(f"{path}: --dataset-name {config.dataset_name} wants one JSON list of conversations, this is a {_kind(entries)}")
    return entries


def read_text(config: RunConfig) -> tuple[Path, str]:
    """--dataset-path as text, in UTF-8."""
    path, data = _read(config)
    try:
        return path, data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the data set {path} (--dataset-path) is no UTF-8 text: {error.reason} at byte {error.start}") from None


def _read(config: RunConfig) -> tuple[Path, bytes]:
    if not config.dataset_path:
        raise UsageError(f"--dataset-name {config.dataset_name} needs --dataset-path FILE")
    path = Path(config.dataset_path).expanduser()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the data set {path} (--dataset-path): {error.strerror or error}") from None
    data = data.removeprefix(BOM)
    if not data.strip():
        raise UsageError(f"the data set {path} (--dataset-path) is empty")
    return path, data


def _decoded(data: bytes, place: str) -> Any:
    """`data` from JSON. Escaped halves of surrogate pairs, which data sets do hold and no request can, become U+FFFD."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        fault = str(error)
    try:
        whole = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return msgspec.json.decode(whole)
    except (ValueError, RecursionError):
        raise UsageError(f"{place}: not JSON ({fault})") from None


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
