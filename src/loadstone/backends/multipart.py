"""Forms with a file in them (multipart/form-data, RFC 7578), written whole."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

BOUNDARY = "loadstone-7d3f1c9ae25b40868e64"  # the same for all requests, so that the same seed sends the same bytes
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
MEDIA_TYPES = {
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".mpga": "audio/mpeg",
    ".mpeg": "audio/mpeg",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
    ".m4a": "audio/mp4",
    ".mp4": "audio/mp4",
    ".webm": "audio/webm",
    ".aac": "audio/aac",
}


class File(NamedTuple):
    """A file of a form: its name for the server, which tells its kind, and what is in it."""

    name: str
    data: bytes


def form(fields: Mapping[str, Any], files: Mapping[str, File]) -> bytes:
    """The form as bytes: `fields`, then `files`, each a part. A list is a part for each of its items; None is no part; numbers, truth values and
    objects are written as JSON. Raises ValueError should the boundary stand in a file.
    """
    parts = []
    for name, value in fields.items():
        parts += [_part(f'name="{_quoted(name)}"', "", line.encode("utf-8", "replace")) for line in _values(value)]
    for name, file in files.items():
        if BOUNDARY.encode() in file.data:
            raise ValueError(f"{file.name} holds the boundary of the form, {BOUNDARY}")
        kind = MEDIA_TYPES.get(Path(file.name).suffix.lower(), "application/octet-stream")
        parts.append(_part(f'name="{_quoted(name)}"; filename="{_quoted(file.name)}"', f"Content-Type: {kind}\r\n", file.data))
    return b"".join([*parts, f"--{BOUNDARY}--\r\n".encode()])


def _part(disposition: str, more: str, data: bytes) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n{more}\r\n"
    return b"%b%b\r\n" % (head.encode("utf-8", "replace"), data)


def _values(value: Any) -> Iterator[str]:
    items: Iterable[Any] = value if isinstance(value, list) else [value]
    for item in items:
        if item is not None:
            yield item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


def _quoted(name: str) -> str:
    """A name as browsers write it between quotes."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
