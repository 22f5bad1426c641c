"""Readiness of many sockets, a batch at a time: epoll where there is one, else kqueue.

Python's own epoll in one plain loop costs a third less a read than the callbacks of an event loop: a batch of (fd, events) pairs, and nothing
between the system call and the read. docs/engine.md has the figures.
"""

import select
import sys
from typing import Protocol

IN, OUT = 1, 4  # EPOLLIN, EPOLLOUT
# Told once when data comes, not again and again until it is read: a look less at each socket. A hang-up comes with it, as another bit beside IN, and
# so does urgent data: a read ends before it, and no edge tells of what stands behind.
IN_EDGE = select.EPOLLIN | select.EPOLLET | select.EPOLLRDHUP | select.EPOLLPRI if sys.platform == "linux" else IN


class Poller(Protocol):
    """What select.epoll offers, and what the kqueue form offers likewise."""

    def register(self, fd: int, events: int, /) -> None: ...
    def modify(self, fd: int, events: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...
    def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


def new_poller() -> Poller:
    """The system's own."""
    if sys.platform == "linux":
        return select.epoll()
    else:  # noqa: RET505 (the type checker reads this as the other systems' branch)
        return _Kqueue()


if sys.platform != "linux":

    class _Kqueue:
        def __init__(self) -> None:
            self._queue = select.kqueue()
            self._wanted: dict[int, int] = {}

        def register(self, fd: int, events: int, /) -> None:
            self.modify(fd, events)

        def modify(self, fd: int, events: int, /) -> None:
            had = self._wanted.get(fd, 0)
            changes = [
                select.kevent(fd, kind, select.KQ_EV_ADD if events & bit else select.KQ_EV_DELETE)
                for bit, kind in ((IN, select.KQ_FILTER_READ), (OUT, select.KQ_FILTER_WRITE))
                if (events & bit) != (had & bit)
            ]
            if changes:
                self._queue.control(changes, 0)
            self._wanted[fd] = events

        def unregister(self, fd: int, /) -> None:
            self.modify(fd, 0)
            del self._wanted[fd]

        def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]:
            ready = self._queue.control(None, maxevents, timeout)
            return [(event.ident, IN if event.filter == select.KQ_FILTER_READ else OUT) for event in ready]

        def close(self) -> None:
            self._queue.close()
