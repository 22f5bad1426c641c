"""Which arrival process a (validated) configuration asks for."""

import math

from loadstone.config import RunConfig
from loadstone.schedule.base import ArrivalProcess
from loadstone.schedule.gamma import Gamma
from loadstone.schedule.immediate import Immediate
from loadstone.schedule.ramp import Ramp
from loadstone.schedule.shape import shape_of


def arrivals(config: RunConfig) -> ArrivalProcess | None:
    """The arrival process of the run; None is the closed loop, where only --max-concurrency says when to send (and the rate is inf)."""
    if config.load is not None:
        return shape_of(config.load, config.burstiness)
    start, end = config.ramp_up_start_rps, config.ramp_up_end_rps
    if config.ramp_up_strategy is not None and start is not None and end is not None:
        return Ramp(start, end, exponential=config.ramp_up_strategy == "exponential", burstiness=config.burstiness)
    if math.isinf(config.request_rate):
        return Immediate() if config.max_concurrency is None else None
    return Gamma(config.request_rate, config.burstiness)
