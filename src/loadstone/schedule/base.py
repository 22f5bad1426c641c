"""When requests are due: an arrival process gives every due time of a run at once, as offsets from its start, before anything is sent."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]  # nanoseconds from the start of the run, ascending


class ArrivalProcess(ABC):
    """One way in which requests arrive. Its formula stands in its own docstring."""

    @abstractmethod
    def offsets(self, count: int, rng: np.random.Generator) -> Offsets:
        """Due times of `count` requests: int64 nanoseconds from the start of the run, ascending."""
