"""Content codings: gzip and deflate undone read by read, so that it stays known which read brought which byte of the text.

A few coded bytes can stand for any number of plain ones, by accident or by malice. What inflates to more than LARGEST is not read; and before
anything is kept, what may be large at all is inflated once and thrown away, so that a bomb costs time and no memory.
"""

import zlib
from collections.abc import Iterator

import numpy as np

from loadstone.decode.body import Offsets

LARGEST = 256 << 20  # bytes of a plain body
_WINDOW = {"gzip": 31, "x-gzip": 31, "deflate": 15}  # zlib's numbers: gzip and zlib wrappers
_PIECE = 1 << 18  # plain bytes that are made at a time
_COPIED = 1 << 16  # coded bytes that are fed at once: zlib copies what it has not used, for each piece and each member
_HARMLESS = 1 << 14  # coded bytes that make at most 17 MB: deflate shortens by 1,032 at best


def decoded(body: bytes, ends: Offsets, coding: str) -> tuple[bytes, Offsets, bool, str]:
    """The plain body, how much of it was there after each read, whether the coding came to its proper end, and what is wrong with it ("" if nothing).

    A byte belongs to the first read after which it could be known. `ends` are those of the coded body.
    """
    if coding not in _WINDOW:
        return b"", np.zeros_like(ends), False, f"content-encoding {coding} is not read here: have the server or proxy send it plain or as gzip"
    window = _WINDOW[coding]
    if coding == "deflate" and body[:1] and (body[0] & 15 != 8 or int.from_bytes(body[:2], "big") % 31):
        window = -15  # "deflate" without its wrapper, as some servers send it
    if len(body) > _HARMLESS and _inflates_to_more(body, window):
        fault = f"the {coding} body inflates to more than {LARGEST >> 20} MiB ({len(body):,} bytes came), which is no reply of a language model"
        return b"", np.zeros_like(ends), False, fault
    inflate, pieces, fault = _Inflate(window), [], ""
    plain_ends = np.zeros_like(ends)
    start = length = 0
    for index, end in enumerate(ends.tolist()):
        try:
            for piece in inflate.feed(body[start:end]) if not fault else ():
                pieces.append(piece)
                length += len(piece)
        except zlib.error as error:
            fault = f"broken {coding} body: {error}"
        plain_ends[index], start = length, end
    return b"".join(pieces), plain_ends, inflate.ended and not fault, fault


class _Inflate:
    """Undoes a coding, some plain bytes at a time."""

    def __init__(self, window: int) -> None:
        self._window, self._inflate = window, zlib.decompressobj(window)

    @property
    def ended(self) -> bool:
        return self._inflate.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What becomes plain with `data`, in pieces of at most _PIECE. Raises zlib.error for what is broken."""
        for first in range(0, len(data), _COPIED):
            yield from self._feed(data[first : first + _COPIED])

    def _feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            piece = self._inflate.decompress(data, _PIECE)
            if piece:
                yield piece
            if self._inflate.eof:
                data = self._inflate.unused_data
                if not data or self._window != 31:
                    return
                self._inflate = zlib.decompressobj(self._window)  # gzip members may follow each other
            else:
                data = self._inflate.unconsumed_tail
                if not data and len(piece) < _PIECE:
                    return


def _inflates_to_more(body: bytes, window: int) -> bool:
    """Whether `body` makes more than LARGEST. One that breaks before is left to who keeps it."""
    length = 0
    try:
        for piece in _Inflate(window).feed(body):
            length += len(piece)
            if length > LARGEST:
                return True
    except zlib.error:
        return False
    return False
