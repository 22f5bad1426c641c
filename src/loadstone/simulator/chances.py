"""What chance decides about a request: its words, its length, and whether and where it goes wrong.

Everything comes from the server's seed and the number of the request in order of arrival. Which client's request is number k depends on the network,
but of the first n requests the same number fail in the same ways on every run.
"""

import math
from collections.abc import Iterator

import msgspec

from loadstone.simulator.asking import Asked
from loadstone.simulator.options import SimulatorOptions
from loadstone.simulator.tokens import WORDS

ERROR, RESET, STALL, TRUNCATE, ERROR_EVENT = "error", "reset", "stall", "truncate", "error_event"
_GOLDEN, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
KINDS = (ERROR, RESET, STALL, TRUNCATE, ERROR_EVENT)


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """How one request will go.

    `fault` befalls it in place of token event `fault_event` (counted from 0), which is never the first unless it is the only one; a stall comes
    after that many events and the stream then goes on.
    """

    length: int  # output tokens
    finish_reason: str  # "length" if the request's own limit ended it, else "stop"
    fault: str | None
    fault_event: int
    word_start: int
    word_stride: int  # odd: the walk visits every word


def fate(number: int, asked: Asked, options: SimulatorOptions) -> Fate:
    """The fate of the request that arrived as the `number`-th, counted from 0."""
    chance = _draws(options.seed, number)
    start, stride = int(next(chance) * len(WORDS)), int(next(chance) * len(WORDS)) | 1
    fault = _fault(next(chance), options)
    length, reason = _length(next(chance), asked, options)
    events = math.ceil(length / options.tokens_per_event)
    event = 1 + int(next(chance) * (events - 1)) if events > 1 else 0
    return Fate(length=length, finish_reason=reason, fault=fault, fault_event=event, word_start=start, word_stride=stride)


def _draws(seed: int, number: int) -> Iterator[float]:
    """Uniform numbers in [0, 1): SplitMix64, started from a hash of seed and number. A tenth of the cost of seeding Python's own generator."""
    state = _mixed(((seed << 40) + number + _GOLDEN) & _MASK)
    while True:
        state = (state + _GOLDEN) & _MASK
        yield (_mixed(state) >> 11) / (1 << 53)


def _mixed(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _fault(draw: float, options: SimulatorOptions) -> str | None:
    for kind, share in zip(
        KINDS, (options.error_rate, options.reset_rate, options.stall_rate, options.truncate_rate, options.error_event_rate), strict=True
    ):
        if draw < share:
            return kind
        draw -= share
    return None


def _length(draw: float, asked: Asked, options: SimulatorOptions) -> tuple[int, str]:
    """Output tokens and why the reply ends there.

    Without an end-of-sequence probability p a reply is as long as asked. With it, each token from `min_tokens` on is the last with probability p:
    the length is least - 1 + Geometric(p) with least at least 1, cut at the limit.
    """
    most = options.model_len - asked.prompt_tokens
    if asked.limit is None:
        natural = min(max(options.default_max_tokens, asked.least), most)
    else:
        natural = min(asked.limit, most)
    ends = "stop" if asked.limit is None and not asked.ignore_eos else "length"
    if options.eos_probability == 0 or asked.ignore_eos:
        return natural, ends
    if options.eos_probability == 1:
        drawn = 1
    else:
        drawn = 1 + int(math.log1p(-draw) / math.log1p(-options.eos_probability))
    drawn += max(asked.least - 1, 0)
    return (drawn, "stop") if drawn <= natural else (natural, ends)
