"""One seed, many streams: every kind of draw has a random stream of its own, so that none shifts another.

A stream is PCG64 seeded by SeedSequence((seed, first 8 bytes of SHA-256 of the purpose)): the same on every machine and in every process. Purposes in
use: order (--shuffle), repeat (rows of a small data set), lengths, prompts, prefix, gaps (arrivals), lora.
"""

from hashlib import sha256
from typing import TYPE_CHECKING

from loadstone.errors import UsageError

if TYPE_CHECKING:
    import numpy as np


def rng_for(seed: int, purpose: str) -> "np.random.Generator":
    """The random stream of `purpose` in a run with `seed`. Raises UsageError for a negative seed."""
    import numpy as np

    if seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {seed}")
    key = int.from_bytes(sha256(purpose.encode()).digest()[:8], "big")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, key))))
