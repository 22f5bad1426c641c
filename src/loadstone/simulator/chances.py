"""What chance decides about a request: its words, its length, and whether and where it goes wrong.

Everything comes from the server's seed and the number of the request in order of arrival. Which client's request is number k depends on the network,
but of the first n requests the same number fail in the same ways on every run.
"""

import math
import random

import msgspec

from loadstone.simulator.asking import Asked
from loadstone.simulator.options import SimulatorOptions
from loadstone.simulator.tokens import WORDS

ERROR, RESET, STALL, TRUNCATE, ERROR_EVENT = "error", "reset", "stall", "truncate", "error_event"
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
    chance = random.Random(options.seed * 1_000_003 + number)
    words = chance.randrange(len(WORDS))
    start, stride = words, chance.randrange(len(WORDS)) | 1
    fault = _fault(chance.random(), options)
    length, reason = _length(chance.random(), asked, options)
    events = math.ceil(length / options.tokens_per_event)
    event = chance.randint(1, events - 1) if events > 1 else 0
    return Fate(length=length, finish_reason=reason, fault=fault, fault_event=event, word_start=start, word_stride=stride)


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
