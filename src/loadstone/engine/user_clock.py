"""A connection without kernel stamps."""

import time

from loadstone.engine.connection import READ_BYTES, Connection
from loadstone.engine.poller import IN


class UserClockConnection(Connection):
    """As Connection, but the time is read right after the data."""

    __slots__ = ()

    def readable(self, events: int) -> None:
        try:
            data = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.broke(error)
            return
        now = time.monotonic_ns()
        if not data:
            self.closed()
            return
        self.take(data, now)
        if events != IN or len(data) == READ_BYTES:
            self.more()
