"""Which request is next, and when: due times are absolute, fixed before the run, never re-based and never slept relative to the last send."""

import fcntl
import time
from pathlib import Path
from typing import Protocol

from loadstone.plan import NONE, Plan

NEVER = 1 << 62
LATE_NS = 100_000_000  # what was due before the end may still go so long after it


class Feed(Protocol):
    """Hands out the plan's request numbers in order, each to one worker."""

    def take(self) -> int | None:
        """The next number for this worker, or None when there is none left."""


class Stripe:
    """Worker w of W takes the requests k with k mod W = w: no word passes between workers."""

    def __init__(self, worker: int, workers: int, requests: int) -> None:
        self._numbers = iter(range(worker, requests, workers))

    def take(self) -> int | None:
        return next(self._numbers, None)


class SharedQueue:
    """All workers take the next number from one counter in a file, under a lock: the plan's order, whoever is free."""

    def __init__(self, path: Path, requests: int) -> None:
        self._file = path.open("r+b", buffering=0)
        self._requests = requests

    def take(self) -> int | None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self._file.seek(0)
            number = int.from_bytes(self._file.read(8), "little")
            if number >= self._requests:
                return None
            self._file.seek(0)
            self._file.write((number + 1).to_bytes(8, "little"))
            return number
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


class Pacer:
    """The next request of this worker and the absolute time it is due (NONE in a closed loop: at once).

    A number is taken only when it is asked for, and it is asked for only when there is a slot for it: a worker that is full holds none back from
    the others. `duration_ns` after the start there is no next request any more; 0: no such end. A feed that hands out more numbers than the plan
    has requests repeats the plan.
    """

    def __init__(self, plan: Plan, feed: Feed, start_ns: int, duration_ns: int = 0) -> None:
        self._plan, self._feed, self._start_ns = plan, feed, start_ns
        self._end_ns = start_ns + duration_ns if duration_ns else NEVER
        self.index = 0
        self.planned_ns = NONE
        self._held = self._stopped = False

    def has_next(self) -> bool:
        """Whether there is a next request: `index` and `planned_ns` are then its."""
        if self._held:
            return True
        number = None if self._stopped else self._feed.take()
        if number is None:
            self._stopped = True
            return False
        due = self._plan.due_ns(number % len(self._plan))
        self.index, self.planned_ns, self._held = number, NONE if due == NONE else self._start_ns + due, True
        if self.planned_ns >= self._end_ns or time.monotonic_ns() >= self._end_ns + (0 if due == NONE else LATE_NS):
            self.stop()
        return self._held

    def sent(self) -> None:
        """The next request is on its way: another may be asked for."""
        self._held = False

    def stop(self) -> None:
        """There shall be no next request."""
        self._held, self._stopped = False, True
