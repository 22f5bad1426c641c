"""The decoder over one phase, as the parent sees it: given its job, started anew when it dies, given up when it goes on dying.

A decoder that has died (memory ran out, somebody killed it) costs nothing: the next goes on where its records end. One that stands still
though there is work, stopped by a signal or stuck, is told to go on (SIGCONT) after ASK_S, and killed and replaced if that has not helped STUCK_S
later. After MOST_DEATHS deaths no other is started: the load is stopped, and what was not decoded is counted as failed and kept.
"""

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from loadstone.bench.children import Child
from loadstone.bench.decoder import DecoderDone, DecoderJob
from loadstone.bench.earlier import begun
from loadstone.bench.processes import Processes
from loadstone.engine.counters import Count
from loadstone.engine.exchange import Exchange
from loadstone.engine.spool_reader import SpoolReader
from loadstone.errors import LoadstoneError

MOST_DEATHS = 3
ASK_S = 10.0
STUCK_S = 20.0


class Decoding:
    """Runs from the constructor until `over`. `look` must be called now and then."""

    def __init__(self, processes: Processes, job: DecoderJob, tell: Callable[[str], None]) -> None:
        self._processes, self.job, self._tell = processes, job, tell
        self.deaths: list[str] = []  # why
        self.done: DecoderDone | None = None
        self._outs = [job.out]
        self._cpu_s = 0.0  # of the dead
        self._finishing = False
        self._sign: object = None
        self._since = self._asked = time.monotonic()
        processes.decoder.tell(job)

    @property
    def given_up(self) -> bool:
        return len(self.deaths) >= MOST_DEATHS

    @property
    def over(self) -> bool:
        return self.done is not None or self.given_up

    @property
    def children(self) -> list[Child]:
        """What to wait on for news."""
        return [] if self.over else [self._processes.decoder]

    @property
    def folders(self) -> list[Path]:
        """Where the columns are."""
        return begun(map(Path, self._outs))

    @property
    def cpu_s(self) -> float:
        return self._cpu_s + (self.done.cpu_s if self.done else 0.0)

    def finish(self) -> None:
        """Say that nothing more will be captured."""
        self._finishing = True
        self._processes.decoder.tell({"do": "finish"})

    def look(self) -> None:
        """Hear what the decoder says, and see to it that there is one."""
        if self.over:
            return
        decoder = self._processes.decoder
        for line in decoder.answers():
            self.done = msgspec.json.decode(line, type=DecoderDone)
        if self.done is None and (decoder.ended or self._is_stuck(decoder)):
            self._replace()

    def _replace(self) -> None:
        dead = self._processes.renew_decoder()
        self.deaths.append(dead.why)
        self._cpu_s += dead.cpu_s
        if self.given_up:
            self._tell(f"the decoder has died {len(self.deaths)} times ({self._whys()}): it is not started again, and the load is stopped")
            return
        self._tell(f"the decoder died ({dead.why}): a new one goes on")
        job = msgspec.structs.replace(self.job, earlier=list(self._outs), out=f"{self.job.out}/{len(self._outs)}")
        self._outs.append(job.out)
        self._processes.decoder.tell(job)
        if self._finishing:
            self.finish()

    def _is_stuck(self, decoder: Child) -> bool:
        """Whether it has neither decoded nor used the processor for too long, though it has work and was told to go on."""
        counters, now = self._processes.counters, time.monotonic()
        decoded = counters.total(Count.DECODED_BYTES)
        sign = decoded, bytes(counters.row(0)), decoder.cpu_ticks()
        if sign != self._sign or not (self._finishing or counters.total(Count.SPOOLED_BYTES) > decoded):
            self._sign, self._since, self._asked = sign, now, 0.0
        elif self._asked:
            return now - self._asked > STUCK_S
        elif now - self._since > ASK_S:
            self._asked = now
            wake(decoder.pid)
        return False

    # afterwards

    def undecoded(self) -> Iterator[Exchange]:
        """What is in the spool from where the decoders had got to, as far as it can be read; some of it may be in the columns."""
        for worker in range(self.job.workers):
            reader = SpoolReader(Path(self.job.spool), worker)
            reader.resume()
            try:
                yield from reader.rest()
            except LoadstoneError:
                continue

    def notes(self) -> Iterator[str]:
        """What the report says of deaths."""
        if self.deaths and not self.given_up:
            times = "once" if len(self.deaths) == 1 else f"{len(self.deaths)} times"
            yield f"the decoder process died {times} ({self._whys()}) and was started anew: it went on where its records ended, and nothing is lost"
        if self.given_up:
            yield f"the decoder process died {len(self.deaths)} times ({self._whys()}) and was given up, and the load was stopped"

    def _whys(self) -> str:
        return "; ".join(why if count == 1 else f"{count} x {why}" for why, count in Counter(self.deaths).items())


def wake(pid: int) -> None:
    """Let a process go on that a signal had stopped; nothing to one that runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
