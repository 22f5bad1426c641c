"""What a worker measures of itself while it runs: how late it reads and sends, how long its loop is away from the sockets.

Samples, not every event: a look costs a clock reading, and the hot path has none to spare. All times are nanoseconds.
"""

import resource
import time
from array import array

import msgspec

from loadstone.engine.clock import STAMP

MOST = 1 << 16  # samples kept; from then on every other one is dropped and only every second look is taken, and so on
STALL_NS = 5_000_000  # a turn of the loop longer than this is a stall: events of a fast stream may queue behind it


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of samples, in nanoseconds; None where there are none."""

    samples: int
    p50_ns: int | None = None
    p99_ns: int | None = None
    max_ns: int | None = None


class Samples:
    """A sample that stays bounded and evenly spread over the run; the largest value is exact."""

    def __init__(self) -> None:
        self._values, self._every, self._skipped, self._largest = array("q"), 1, 0, -1

    def add(self, value: int) -> None:
        if value > self._largest:
            self._largest = value
        self._skipped += 1
        if self._skipped >= self._every:
            self._skipped = 0
            self._values.append(value)
            if len(self._values) >= MOST:
                self._values = self._values[::2]
                self._every *= 2

    def spread(self) -> Spread:
        if not self._values:
            return Spread(samples=0)
        ordered = sorted(self._values)
        at = len(ordered) - 1
        return Spread(samples=len(ordered), p50_ns=ordered[at // 2], p99_ns=ordered[at * 99 // 100], max_ns=self._largest)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker says of itself when a phase is over."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    read_late: Spread = Spread(samples=0)  # the kernel had the data - the worker read it; kernel stamps only
    send_late: Spread = Spread(samples=0)  # due - sent, of requests that the cap did not hold back
    turns: Spread = Spread(samples=0)  # time between two looks at the sockets
    stalls: int = 0  # turns longer than STALL_NS
    stood_still_s: float = (
        0.0  # time in which the worker was away from its sockets although it should not have been: stalls, and sleep beyond its end
    )
    held_s: float = 0.0  # time without sending because decoding had fallen behind
    voluntary_switches: int = 0
    involuntary_switches: int = 0


class Gauges:
    """Collects while a phase runs."""

    def __init__(self) -> None:
        self.read_late, self.send_late, self.turns = Samples(), Samples(), Samples()
        self.stalls = self.held_ns = self.still_ns = 0
        self._start_ns = time.monotonic_ns()
        self._start = resource.getrusage(resource.RUSAGE_SELF)

    def turn(self, spent_ns: int) -> None:
        self.turns.add(spent_ns)
        if spent_ns > STALL_NS:
            self.stalls += 1
            self.still_ns += spent_ns

    def overslept(self, late_ns: int) -> None:
        """The system woke the worker so much later than it had asked for."""
        self.stalls += 1
        self.still_ns += late_ns

    def read(self, stamp: bytes) -> None:
        """The newest read had this kernel stamp; it has just been taken."""
        seconds, rest = STAMP.unpack(stamp)
        self.read_late.add(time.time_ns() - seconds * 1_000_000_000 - rest)

    def health(self) -> Health:
        now = resource.getrusage(resource.RUSAGE_SELF)
        start = self._start
        return Health(
            wall_s=(time.monotonic_ns() - self._start_ns) / 1e9,
            cpu_s=now.ru_utime + now.ru_stime - start.ru_utime - start.ru_stime,
            read_late=self.read_late.spread(),
            send_late=self.send_late.spread(),
            turns=self.turns.spread(),
            stalls=self.stalls,
            stood_still_s=self.still_ns / 1e9,
            held_s=self.held_ns / 1e9,
            voluntary_switches=now.ru_nvcsw - start.ru_nvcsw,
            involuntary_switches=now.ru_nivcsw - start.ru_nivcsw,
        )
