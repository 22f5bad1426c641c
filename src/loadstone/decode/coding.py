"""Content codings: gzip and deflate undone read by read, so that it stays known which read brought which byte of the text."""

import zlib

import numpy as np

from loadstone.decode.body import Offsets

_WINDOW = {"gzip": 31, "x-gzip": 31, "deflate": 15}  # zlib's numbers: gzip and zlib wrappers


def decoded(body: bytes, ends: Offsets, coding: str) -> tuple[bytes, Offsets, bool, str]:
    """The plain body, how much of it was there after each read, whether the coding came to its proper end, and what is wrong with it ("" if nothing).

    A byte belongs to the first read after which it could be known. `ends` are those of the coded body.
    """
    if coding not in _WINDOW:
        return b"", np.zeros_like(ends), False, f"content-encoding {coding} is not read here: have the server or proxy send it plain or as gzip"
    window = _WINDOW[coding]
    if coding == "deflate" and body[:1] and (body[0] & 15 != 8 or int.from_bytes(body[:2], "big") % 31):
        window = -15  # "deflate" without its wrapper, as some servers send it
    inflate, pieces, fault = zlib.decompressobj(window), [], ""
    plain_ends = np.zeros_like(ends)
    start = length = 0
    for index, end in enumerate(ends.tolist()):
        data = body[start:end]
        while data and not fault:
            try:
                piece = inflate.decompress(data)
            except zlib.error as error:
                fault = f"broken {coding} body: {error}"
                break
            pieces.append(piece)
            length += len(piece)
            data = inflate.unused_data
            if data and window == 31:
                inflate = zlib.decompressobj(window)  # gzip members may follow each other
            else:
                data = b""
        plain_ends[index], start = length, end
    return b"".join(pieces), plain_ends, inflate.eof and not fault, fault
