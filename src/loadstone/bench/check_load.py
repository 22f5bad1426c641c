"""The load of a self-check: what is asked, and the simulated server and the run that it becomes."""

import math
import os
import resource
import sys
from pathlib import Path
from typing import Any

import msgspec

from loadstone.config import RunConfig
from loadstone.errors import UsageError

DEFAULT_STREAMS, DEFAULT_OUTPUT_LEN = 100, 128
PROMPT_TOKENS = 16
MODEL = "simulated"
MOST_IN_ENGINE = 200_000  # the simulated engine never queues: what is checked is the client
RESERVED_FILES, SPARE_PORTS = 100, 1000  # left to the client's own files, and to other programs


class CheckLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One load. `concurrency` streams without pause (a closed loop), or `request_rate` arrivals per second (Poisson, then `concurrency` is a cap).

    Every stream gets a token each 1 / `tokens_per_second` s, all streams at the same instant, as from a real engine's batch.
    """

    concurrency: int | None = None
    request_rate: float | None = None
    tokens_per_second: float = 50.0  # of each stream
    output_len: int | None = None  # None: DEFAULT_OUTPUT_LEN, or less where the duration would not hold four such replies
    duration_s: float = 10.0
    workers: int | None = None  # None: as many as a run chooses by itself
    clock: str = "auto"
    limit_ms: float = 1.0  # of the error of p99 TTFT

    def validated(self) -> "CheckLoad":
        """This load, or UsageError naming the first flag that cannot be. Neither concurrency nor rate given: DEFAULT_STREAMS streams."""
        for flag, value, least in (("--concurrency", self.concurrency, 1), ("--output-len", self.output_len, 2), ("--workers", self.workers, 1)):
            if value is not None and value < least:
                raise UsageError(f"{flag} must be at least {least}, not {value}")
        numbers = {"--request-rate": self.request_rate, "--duration": self.duration_s, "--limit-ms": self.limit_ms}
        for flag, number in numbers.items():
            if number is not None and not 0 < number < math.inf:
                raise UsageError(f"{flag} must be a number above 0, not {number:g}")
        if not 0 < self.tokens_per_second <= 10_000:
            raise UsageError(f"--tokens-per-second must be above 0 and at most 10000, not {self.tokens_per_second:g}")
        if self.output_tokens > 100_000:
            raise UsageError(f"--output-len must be at most 100000, not {self.output_len}")
        if self.clock not in ("auto", "user"):
            raise UsageError(f"--clock must be auto or user, not {self.clock!r}")
        most = most_streams()
        if self.concurrency is not None and self.concurrency > most:
            raise UsageError(
                f"--concurrency {self.concurrency} needs more connections than this machine lets a process open: at most {most} "
                "(ulimit -Hn, net.ipv4.ip_local_port_range)"
            )
        if self.concurrency is None and self.request_rate is None:
            return msgspec.structs.replace(self, concurrency=DEFAULT_STREAMS)
        return self

    @property
    def output_tokens(self) -> int:
        """Tokens of each reply."""
        if self.output_len is not None:
            return self.output_len
        return min(DEFAULT_OUTPUT_LEN, max(2, round(self.duration_s * self.tokens_per_second / 4)))

    @property
    def step_us(self) -> int:
        return max(round(1e6 / self.tokens_per_second), 1)

    @property
    def reply_s(self) -> float:
        """How long a reply takes: half a step until the engine's next one, then a step a token."""
        return (self.output_tokens - 0.5) * self.step_us / 1e6

    @property
    def requests(self) -> int:
        """As many as fill the duration: in a closed loop whole rounds, one at least."""
        if self.request_rate is not None:
            return max(round(self.request_rate * self.duration_s), 2)
        return (self.concurrency or DEFAULT_STREAMS) * max(round(self.duration_s / self.reply_s), 1)

    @property
    def streams(self) -> float:
        """Streams in flight: the concurrency, or in an open loop the mean that Little's law gives, under the cap."""
        if self.request_rate is None:
            return float(self.concurrency or DEFAULT_STREAMS)
        return min(self.request_rate * self.reply_s, float(self.concurrency or math.inf))

    def simulator_options(self) -> dict[str, Any]:
        """A server that gives each stream a token every step, keeps the time of each, and never lets a request queue."""
        return {
            "model": MODEL,
            "step_us": self.step_us,
            "max_num_seqs": MOST_IN_ENGINE,
            "max_num_batched_tokens": MOST_IN_ENGINE,
            "kv_cache_tokens": MOST_IN_ENGINE * (PROMPT_TOKENS + self.output_tokens + 1000),
            "truth_requests": self.requests,
            "truth_sends": True,
        }

    def config(self, url: str) -> RunConfig:
        """The run: the same that `bench serve` would make. No key and no header of the environment goes to the simulated server."""
        chosen: dict[str, Any] = {} if self.workers is None else {"workers": self.workers}
        if self.request_rate is not None:
            chosen["request_rate"] = self.request_rate
        if self.concurrency is not None:
            chosen["max_concurrency"] = min(self.concurrency, self.requests)
        return RunConfig(
            base_url=url,
            api_key="",
            model=MODEL,
            num_prompts=self.requests,
            random_input_len=PROMPT_TOKENS,
            random_output_len=self.output_tokens,
            ready_check_timeout_sec=0,  # the server is known to be up, and its truth then covers the measured requests alone
            request_timeout=60 + 10 * self.reply_s,
            percentile_metrics=("ttft", "itl", "e2el"),
            metric_percentiles=("50", "99"),
            clock=self.clock,
            **chosen,
        )


def most_streams() -> int:
    """Streams that the limits on open files and on local ports allow here."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files: int = (1 << 20 if hard == resource.RLIM_INFINITY else hard) - RESERVED_FILES
    ports = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if sys.platform == "linux" and ports.exists():
        low, high = (int(word) for word in ports.read_text().split())
        return max(min(files, high - low - SPARE_PORTS), 1)
    return max(files, 1)


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
