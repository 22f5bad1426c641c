"""Which of several servers gets a request.

Round-robin: request k goes to server k mod S, whatever worker sends it and however many there are, so the shares are exact and the same in every run.
Least-loaded: the server that has the fewest requests of this worker in flight; of equals, the one after that which was last chosen. A server that
could not be connected to within the last second comes last: else the one that fails at once would get them all.
Requests of one conversation go to one server, by its number: what the server has cached of it is of use nowhere else.
"""

import time
from typing import TYPE_CHECKING

from loadstone.plan import NONE, Plan

if TYPE_CHECKING:
    from loadstone.engine.pool import Pool

ROUND_ROBIN, LEAST_LOADED = "round-robin", "least-loaded"
AVOIDED_NS = 1_000_000_000  # how long a server that could not be connected to comes last


def server_of(number: int, conversation: int, servers: int) -> int:
    """The server of request `number` by round-robin. `conversation`: its number, NONE if the request is none's."""
    return (number if conversation == NONE else conversation) % servers


class Balance:
    """Chooses among the pools of a worker, one a server."""

    def __init__(self, how: str, plan: Plan, pools: "list[Pool]") -> None:
        self._plan, self._pools = plan, pools
        self._by_load = how == LEAST_LOADED
        self._last = -1  # the pool that was chosen last

    def pick(self, number: int) -> "Pool":
        """The pool for the first try of a request."""
        pools = self._pools
        if len(pools) == 1:
            return pools[0]
        conversation = self._plan.conversation(number % len(self._plan))
        if self._by_load and conversation == NONE:
            return self._least(None)
        return pools[server_of(number, conversation, len(pools))]

    def another(self, number: int, failed: "Pool") -> "Pool":
        """The pool for a further try, after one on the server of `failed`: the next one, or the least loaded of the others."""
        pools = self._pools
        if len(pools) == 1 or self._plan.conversation(number % len(self._plan)) != NONE:
            return failed
        return self._least(failed.number) if self._by_load else pools[(failed.number + 1) % len(pools)]

    def _least(self, without: int | None) -> "Pool":
        count, since_ns = len(self._pools), time.monotonic_ns() - AVOIDED_NS
        in_turn = [(self._last + step) % count for step in range(1, count + 1)]
        found = min((at for at in in_turn if at != without), key=lambda at: (self._pools[at].refused_ns > since_ns, self._pools[at].in_flight))
        self._last = found
        return self._pools[found]
