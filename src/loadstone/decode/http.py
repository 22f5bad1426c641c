"""HTTP/1.1: the bytes of one reply in, a `Response` out. Any framing: chunked (with extensions and trailers), length, until close; interim 1xx
replies are skipped; gzip and deflate codings are undone.

Two ways to the same `Response`. The quick one parses all reads joined and works out from the chunks' sizes where each read ended in the body; it
holds only for plain chunked replies, which it proves by the sum of the sizes. The other feeds the parser read by read.
"""

from typing import Any

import httptools
import numpy as np

from loadstone.decode.body import Chunks, Offsets, Response
from loadstone.decode.coding import decoded
from loadstone.engine.exchange import Exchange

_SIZES = np.array([16**n for n in range(1, 16)], np.int64)  # a chunk size below the n-th has n hex digits


class _Message:
    """httptools' callbacks for one reply. Interim replies are forgotten when the next begins; what comes after the reply is no part of it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []  # of the body, and of whatever follows the reply
        self.headers: list[tuple[bytes, bytes]] = []
        self.phrase = b""
        self.status: int | None = None
        self.began = False  # in what was fed last
        self.interim = False  # an interim reply came before
        self.complete = False
        self.length = 0  # pieces of the body, once complete
        self.on_body = self.pieces.append
        self.parser: Any = httptools.HttpResponseParser(self)
        self.parser.set_dangerous_leniencies(lenient_spaces_after_chunk_size=True)  # as old servers pad it; other clients take it too

    def on_message_begin(self) -> None:
        if not self.complete:
            self.headers, self.phrase, self.status, self.began = [], b"", None, True

    def on_status(self, phrase: bytes) -> None:
        if not self.complete:
            self.phrase += phrase

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.complete and self.status is None:  # after the head come trailers
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if not self.complete:
            self.status = self.parser.get_status_code()

    def on_message_complete(self) -> None:
        if self.complete or self.status is None:
            return
        if 100 <= self.status < 200 and self.status != 101:
            self.interim = True
            return
        self.complete, self.length = True, len(self.pieces)

    def feed(self, data: bytes) -> str:
        """What is wrong with the bytes, "" if nothing."""
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            return "" if self.complete else str(error) or type(error).__name__
        return ""

    def close(self) -> None:
        """Nothing more is fed. The parser refers to this object: unless that circle is broken, each reply stays in memory till a garbage collection,
        and the next one is decoded in memory that the processor has not seen for long.
        """
        self.parser = None

    def body(self) -> list[bytes]:
        return self.pieces[: self.length] if self.complete else self.pieces


def parse(raw: bytes, read_ends: Offsets) -> Response:
    """The reply in `raw`, whose reads ended at the offsets `read_ends` (ascending, the last one len(raw)). Never raises."""
    response = _plain_chunked(raw, read_ends)
    return response if response is not None else _read_by_read(raw, read_ends)


def read_reply(exchange: Exchange) -> Response:
    """The HTTP reply of an exchange, for who wants to know no more than that."""
    return parse(exchange.raw, exchange.read_ends)


def _plain_chunked(raw: bytes, read_ends: Offsets) -> Response | None:
    """None unless the reply is one complete message of chunks without extensions, trailers and coding, and nothing more."""
    message = _Message()
    fault = message.feed(raw)
    message.close()
    chunks = message.pieces
    if fault or not message.complete or message.interim or len(chunks) != message.length:  # more came than one reply
        return None
    head = raw.find(b"\r\n\r\n") + 4
    sizes = np.fromiter(map(len, chunks), np.int64, len(chunks))
    # of each chunk on the wire: its size in hex, CR LF, its data, CR LF; after the last one 0, CR LF, CR LF
    wire_ends = (sizes + (_SIZES.searchsorted(sizes, "right") + (1 + 2 + 2))).cumsum() + head
    # every deviation (extension, leading zero, trailer, interim reply, other framing) makes the message longer or shorter than this
    if (int(wire_ends[-1]) if chunks else head) + 5 != len(raw):
        return None
    response = _response(message, "")
    if "chunked" not in response.headers.get("transfer-encoding", "") or response.headers.get("content-encoding", "identity") != "identity":
        return None
    if chunks:
        ends = sizes.cumsum()
        response.chunks = Chunks(chunks, ends)
        data_ends = wire_ends - 2
        chunk = np.minimum(data_ends.searchsorted(read_ends), len(chunks) - 1)  # the chunk in or before which each read ended
        missing = np.minimum(np.maximum(data_ends[chunk] - read_ends, 0), sizes[chunk])  # bytes of it that had not come
        response.body_ends = ends[chunk] - missing
    else:
        response.body_ends = np.zeros(len(read_ends), np.int64)
    return response


def _read_by_read(raw: bytes, read_ends: Offsets) -> Response:
    message = _Message()
    ends = np.zeros(len(read_ends), np.int64)
    start = seen = length = first_read = 0
    fault = ""
    for index, end in enumerate(read_ends.tolist()):
        if not fault and not message.complete:
            message.began = False
            fault = message.feed(raw[start:end])
            if message.began:
                first_read = index
            pieces = message.body()
            length += sum(map(len, pieces[seen:]))
            seen = len(pieces)
        ends[index] = length
        start = end
    message.close()
    response = _response(message, fault)
    response.body_ends, response.first_read = ends, first_read
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", ""):
        response.body, response.body_ends, ended, coding_fault = decoded(response.body, ends, coding)
        response.fault = response.fault or coding_fault
        response.complete = response.complete and ended
        response.until_close = response.until_close and ended
    return response


def _response(message: _Message, fault: str) -> Response:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message.headers}
    framed = "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()
    return Response(
        status=message.status,
        phrase=message.phrase.decode("latin-1").strip(),
        headers=headers,
        body=b"".join(message.body()),
        body_ends=np.zeros(0, np.int64),
        complete=message.complete,
        until_close=message.status is not None and not framed and not message.complete,
        fault=fault,
    )
