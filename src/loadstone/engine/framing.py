"""Where a reply ends, by HTTP's own framing and nothing else: no payload can fake it.

A thin reading of httptools' parser: it sees every byte of a reply, reads by reads or joined, and says whether the message is complete. Interim
replies (1xx) are passed over. What the bytes mean is for decoding to say.
"""

import re

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_INTERIM = re.compile(rb"HTTP/\d\.\d 1\d\d\b")


def final_head(reply: bytes) -> bytes:
    """The head of a reply, without its empty line; those of interim replies (1xx) before it are passed over."""
    head, found, rest = reply.partition(b"\r\n\r\n")
    while found and _INTERIM.match(head):
        head, found, rest = rest.partition(b"\r\n\r\n")
    return head


class Framing:
    """The framing of one reply. `complete`: its message has ended; `broken`: the bytes are no HTTP, in words; `surplus`: bytes came after the end."""

    __slots__ = ("_interim", "_keep_alive", "broken", "complete", "has_head", "parser", "status", "surplus")

    def __init__(self) -> None:
        self.parser = HttpResponseParser(self)
        self.parser.set_dangerous_leniencies(lenient_spaces_after_chunk_size=True)  # as old servers pad it; other clients take it too
        self.complete = self.has_head = self.surplus = self._interim = self._keep_alive = False
        self.broken = ""
        self.status = 0  # of the reply, once its head is there

    def feed(self, data: bytes) -> bool:
        """Take the next bytes of the reply. True once the message is complete (or broken)."""
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:
            self.complete = True
        except HttpParserError as error:
            if self.complete:
                self.surplus = True
            else:
                self.broken = str(error) or type(error).__name__
                return True
        return self.complete

    def ends_by_close(self, reply: bytes) -> bool:
        """Whether the reply, not complete, has a body that only the closing of the connection ends."""
        if not self.has_head:
            return False
        names = {line.partition(b":")[0].strip().lower() for line in final_head(reply).split(b"\r\n")[1:]}
        return not names & {b"content-length", b"transfer-encoding"}

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self.complete and not self.surplus and self._keep_alive

    def close(self) -> None:
        """Let go of the parser, which refers back to this: with garbage collection off, the two would stay in memory for ever."""
        del self.parser

    # called by the parser
    def on_message_begin(self) -> None:
        if self.complete:
            self.surplus = True

    def on_headers_complete(self) -> None:
        if not self.complete:
            self.status = self.parser.get_status_code()
            self._interim = 100 <= self.status < 200
            self.has_head = not self._interim

    def on_message_complete(self) -> None:
        if not self._interim:
            self.complete = True
            self._keep_alive = bool(self.parser.should_keep_alive())  # asked now: the parser forgets
