"""All at once: every request is due at the start of the run (--request-rate inf)."""

from dataclasses import dataclass

import numpy as np

from loadstone.schedule.base import ArrivalProcess, Offsets


@dataclass(frozen=True)
class Immediate(ArrivalProcess):
    def offsets(self, count: int, rng: np.random.Generator) -> Offsets:
        """`count` zeros."""
        return np.zeros(count, np.int64)
