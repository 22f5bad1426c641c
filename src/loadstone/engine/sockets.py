"""The sockets of a worker, whatever server they lead to: which are watched for what, and who handles it when they are ready."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from loadstone.engine.poller import new_poller

if TYPE_CHECKING:
    from loadstone.engine.connection import Connection

BATCH = 128  # sockets taken at once


class Sockets:
    """`handlers` by descriptor. `ends` are the connections whose reply looks over: what is done about that comes between reads (see worker.py)."""

    def __init__(self) -> None:
        self.poller = new_poller()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.ends: deque[Connection] = deque()
        self._watched: dict[int, int] = {}

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        self.handlers[fd] = handler
        had = self._watched.get(fd)
        if had is None:
            self.poller.register(fd, events)
        elif had != events:
            self.poller.modify(fd, events)
        self._watched[fd] = events

    def unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self.poller.unregister(fd)
            self.handlers[fd] = _nobody  # the batch under way may still hold an event for it

    def turn(self, timeout_s: float) -> None:
        """Take one batch of ready sockets."""
        for fd, events in self.poller.poll(timeout_s, BATCH):
            self.handlers[fd](events)

    def close(self) -> None:
        self.poller.close()


def _nobody(_events: int) -> None:
    """An event for a connection that an earlier one of the same batch has closed."""
