"""Which arrival process a configuration asks for."""

import math

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.schedule.base import ArrivalProcess
from loadstone.schedule.gamma import Gamma
from loadstone.schedule.immediate import Immediate
from loadstone.schedule.ramp import Ramp

STRATEGIES = ("linear", "exponential")


def arrivals(config: RunConfig) -> ArrivalProcess | None:
    """The arrival process of the run; None is the closed loop, where only --max-concurrency says when to send (and the rate is inf).

    Raises UsageError, with the flag's name, for rates and shapes that no process can have.
    """
    if not config.burstiness > 0:
        raise UsageError(f"--burstiness must be above 0, not {config.burstiness} (1 is Poisson, inf equal gaps)")
    if config.ramp_up_strategy is not None:
        return _ramp(config, config.ramp_up_strategy)
    for flag, value in (("--ramp-up-start-rps", config.ramp_up_start_rps), ("--ramp-up-end-rps", config.ramp_up_end_rps)):
        if value is not None:
            raise UsageError(f"{flag} needs --ramp-up-strategy ({' or '.join(STRATEGIES)})")
    if not config.request_rate > 0:
        raise UsageError(f"--request-rate must be above 0, not {config.request_rate} (inf sends all at once)")
    if math.isinf(config.request_rate):
        return Immediate() if config.max_concurrency is None else None
    return Gamma(config.request_rate, config.burstiness)


def _ramp(config: RunConfig, strategy: str) -> Ramp:
    if strategy not in STRATEGIES:
        raise UsageError(f"--ramp-up-strategy {strategy} is unknown: give {' or '.join(STRATEGIES)}")
    if not math.isinf(config.request_rate):
        raise UsageError("--ramp-up-strategy and --request-rate contradict each other: give one of them")
    start, end = config.ramp_up_start_rps, config.ramp_up_end_rps
    for flag, value in (("--ramp-up-start-rps", start), ("--ramp-up-end-rps", end)):
        if value is None:
            raise UsageError(f"--ramp-up-strategy {strategy} needs {flag}")
        if not value > 0 or math.isinf(value):
            raise UsageError(f"{flag} must be above 0 and finite, not {value}: at a rate of 0 the first request would never come")
    assert start is not None and end is not None
    if start > end:
        raise UsageError(f"--ramp-up-start-rps {start:g} must not be above --ramp-up-end-rps {end:g}")
    return Ramp(start, end, exponential=strategy == "exponential", burstiness=config.burstiness)
