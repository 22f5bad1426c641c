"""Frames prove what is taken out of them: the same as looking at each one, whatever the pieces are."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.backends.frames import Frames
from loadstone.decode import sse


def frames(pieces: list[bytes]) -> Frames:
    return Frames(pieces, np.cumsum([len(piece) for piece in pieces]).astype(np.int64), b"".join(pieces) + b"data: [DONE]\n\n")


PARTS = [
    b"data: {}\n\n",
    b"data:  x\n\n",
    b"data: \n\n",
    b"data: a\ndata: b\n\n",
    b"\n",
    b"data:x\n\n",
    b": c\n\n",
    b"data: \r\n\n",
    b"data: y",
    b"\n\n",
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1))
def test_a_payload_is_that_of_the_one_event_in_its_frame(pieces: list[bytes]) -> None:
    given_frames = frames(pieces)
    payloads = []
    for at, piece in enumerate(pieces):
        plain = piece in PARTS[:3]
        payload = given_frames.payload(at)
        assert (payload is not None) == plain
        if payload is not None:
            assert [(event.data, end) for event, end in zip(*sse.parse(piece)[:2], strict=True)] == [(payload, len(piece))]
            payloads.append(payload)
    assert given_frames.payloads(0) == (payloads if len(payloads) == len(pieces) else None)


# few letters, so that what stands before, between and after is easily taken for one another
FEW = st.text("ab", max_size=3).map(str.encode)


@settings(max_examples=700, deadline=None)
@given(FEW.filter(len), FEW.filter(len), st.lists(st.tuples(FEW, st.booleans()), min_size=1, max_size=6), st.data())
def test_what_stands_between_is_found_only_where_all_begin_and_end_so(
    before: bytes, after: bytes, drawn: list[tuple[bytes, bool]], data: st.DataObject
) -> None:
    pieces = [before + middle + after if dressed else middle or b"b" for middle, dressed in drawn]
    start = data.draw(st.integers(0, len(pieces) - 1))
    stop = data.draw(st.integers(start + 1, len(pieces)))
    room = len(before) + len(after)
    alike = all(len(p) >= room and p.startswith(before) and p.endswith(after) for p in pieces[start:stop])
    expected = [p[len(before) : len(p) - len(after)] for p in pieces[start:stop]] if alike else None
    assert frames(pieces).between(before, after, start, stop) == expected
    assert all(frames(pieces).fits(before, after, at) for at in range(start, stop)) == alike


def test_frames_that_are_wrong_in_ways_that_make_up_for_each_other() -> None:
    """One too short for both ends, the next one longer by as much: in all they are as long and begin and end rightly."""
    assert frames([b"<>", b"<>"]).between(b"<", b">", 0, 2) == [b"", b""]
    assert frames([b"<", b"><>"]).between(b"<", b">", 0, 2) is None
    assert frames([b"<a", b"><b>"]).between(b"<", b">", 0, 2) is None
    assert frames([b"<a><", b"b>"]).between(b"<", b">", 0, 2) is None
