"""The events of a plain stream as they stand on the wire, before anybody has proven that they are events.

A frame is believed to be one event in one line: `data: `, the payload, two newlines. Whoever takes a payload out of frames has it proven here that
they are just that; many frames at once are proven by putting together again what was taken apart, which costs a comparison of bytes and no look
at each frame.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BEFORE, AFTER = b"data: ", b"\n\n"


class Frames(NamedTuple):
    """`pieces`: the frames in order, at least one; one after the other they are `body`, or its beginning, and `ends` says where in it each ends."""

    pieces: list[bytes]
    ends: NDArray[np.int64]
    body: bytes

    def payload(self, at: int) -> bytes | None:
        """The payload of one frame; None if it is no frame."""
        piece = self.pieces[at]
        payload = piece[len(BEFORE) : -len(AFTER)]
        return payload if self.fits(BEFORE, AFTER, at) and one_line(payload) else None

    def payloads(self, start: int) -> list[bytes] | None:
        """The payloads from frame `start` on; None if any of them is no frame."""
        payloads = self.between(BEFORE, AFTER, start, len(self.pieces))
        return payloads if payloads is not None and one_line(b" ".join(payloads)) else None

    def fits(self, before: bytes, after: bytes, at: int) -> bool:
        """Whether a frame begins with `before` and ends with `after`, neither reaching into the other."""
        piece = self.pieces[at]
        return piece.startswith(before) and piece.endswith(after) and len(piece) >= len(before) + len(after)

    def first_other(self, before: bytes, after: bytes, start: int) -> int:
        """The first frame from `start` on that does not begin with `before` or does not end with `after`; how many frames there are if all do."""
        for at in range(start, len(self.pieces)):
            piece = self.pieces[at]
            if not (piece.startswith(before) and piece.endswith(after)):
                return at
        return len(self.pieces)

    def between(self, before: bytes, after: bytes, start: int, stop: int) -> list[bytes] | None:
        """What the frames from `start` to `stop` (at least one) have between `before` and `after`; None if any of them does not begin and end so."""
        middle = slice(len(before), -len(after))
        middles = [piece[middle] for piece in self.pieces[start:stop]]
        inner = (after + before).join(middles)
        begin, end = int(self.ends[start]) - len(self.pieces[start]) + len(before), int(self.ends[stop - 1]) - len(after)
        # Put together again it must be the body there. A frame too short for both comes out longer, and none comes out shorter: with equal sums
        # each comes out as long as it was, and then as it was.
        alike = len(inner) == end - begin and self.body.startswith(inner, begin)
        return middles if alike and self.body.startswith(before, begin - len(before)) and self.body.startswith(after, end) else None


def one_line(data: bytes) -> bool:
    """Whether no line of an event stream ends in `data`."""
    return b"\n" not in data and b"\r" not in data
