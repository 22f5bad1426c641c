"""A request on its way: to a connection, on one, or back from a try that failed."""

from typing import NamedTuple

from loadstone.engine.ends import End
from loadstone.engine.redirect import Moved


class Attempt(NamedTuple):
    """A try after which the request was sent again (--retries). Times are CLOCK_MONOTONIC nanoseconds."""

    server: int  # number in the run's list of servers
    end: End
    status: int  # HTTP status of the reply; 0: none came
    began_ns: int  # before its first byte went out, or before a connection was looked for that was not found
    end_ns: int


class Errand(NamedTuple):
    """`began_ns`: when this try was handed to the connections of its server. `sent_ns`: when the first try of the request began, if there was one."""

    number: int
    planned_ns: int
    began_ns: int
    tries: int = 1  # connections that this try has seen: a second one where the first was stale
    sent_ns: int | None = None
    moved: Moved | None = None  # it has been redirected
    retried: tuple[Attempt, ...] = ()
