"""The reply as HTTP made it out: status, headers, and the body together with how much of it was there after each read."""

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]


class Chunks(NamedTuple):
    """A body in the pieces in which its server wrote it, and where each ends in it. At least one, none of them empty."""

    pieces: list[bytes]
    ends: Offsets


class Response(msgspec.Struct, kw_only=True):
    """One HTTP reply. `body_ends[i]` is how many bytes of `body` were there after read i: the read that completed byte n - 1 is the first whose end
    is at least n. `complete`: the message ended by its own framing; a body that only closing ends is `until_close`, and never complete by itself.
    """

    status: int | None = None  # None: no status line came
    phrase: str = ""
    headers: dict[str, str] = {}  # names in lower case; the last of a name stands
    body: bytes = b""
    body_ends: Offsets
    chunks: Chunks | None = None  # where known
    first_read: int = 0  # the read with the first byte of the status line
    complete: bool = False
    until_close: bool = False
    fault: str = ""  # what is wrong with the bytes as HTTP, or with the body's coding

    def reads_of(self, ends: Offsets) -> Offsets:
        """The index of the read that completed the first `end` bytes of the body, for each of `ends` (each 1 ... len(body))."""
        return self.body_ends.searchsorted(ends, "left")
