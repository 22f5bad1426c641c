"""How an exchange can end, as the transport saw it. Whether it was a success is for decoding to say."""

import enum


class End(enum.IntEnum):
    COMPLETE = 0  # the reply's framing ended properly (for a body without length: the connection closed)
    CLOSED = 1  # the server closed before the reply was complete
    RESET = 2  # the connection was reset
    NOT_CONNECTED = 3  # no connection could be made
    CONNECT_TIMEOUT = 4
    REQUEST_TIMEOUT = 5
    IDLE_TIMEOUT = 6
    OPEN_AFTER_DONE = 7  # the stream's end mark came, the body's end never did
    CANCELLED = 8  # interrupted while in flight
    NOT_SENT = 9  # dropped: the run stopped before it was sent
    BAD_HTTP = 10  # the bytes were no HTTP reply
