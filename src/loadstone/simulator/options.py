"""What a simulated server can be told: every choice with its default, validated once."""

import msgspec

from loadstone.errors import UsageError

DEFAULT_MODEL_LEN = 131_072
SHARES = ("error_rate", "reset_rate", "stall_rate", "truncate_rate", "error_event_rate")
AT_LEAST_ONE = (
    "default_max_tokens",
    "max_num_seqs",
    "kv_cache_tokens",
    "max_num_batched_tokens",
    "max_model_len",
    "step_us",
    "tokens_per_event",
)
AT_LEAST_ZERO = ("step_base_ms", "step_per_seq_us", "reasoning_tokens", "stall_s", "truth_requests")


class SimulatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated server. The step times are those of a model of 8 billion parameters in bfloat16 on one H100: see docs/simulator.md."""

    # server
    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    model: str = "simulated"
    api_key: str | None = None  # secret: never printed
    max_model_len: int | None = None  # None: DEFAULT_MODEL_LEN, or the KV cache if that is smaller
    until_stdin_closes: bool = False
    seed: int = 0

    # engine
    max_num_seqs: int = 256
    kv_cache_tokens: int = 400_000
    max_num_batched_tokens: int = 2048
    step_base_ms: float = 8.0
    step_per_seq_us: float = 60.0
    prefill_tokens_per_s: float = 20_000.0
    step_us: int | None = None
    prefix_cache: bool = False

    # replies
    default_max_tokens: int = 128
    eos_probability: float = 0.0
    reasoning_tokens: int = 0
    tokens_per_event: int = 1
    server_times: bool = False

    # errors on demand, as shares of all generation requests
    error_rate: float = 0.0
    reset_rate: float = 0.0
    stall_rate: float = 0.0
    truncate_rate: float = 0.0
    error_event_rate: float = 0.0
    stall_s: float = 1.0

    # truth
    truth_requests: int = 100_000
    truth_sends: bool = False

    @property
    def model_len(self) -> int:
        """The longest prompt and reply together, in tokens."""
        return self.max_model_len or min(DEFAULT_MODEL_LEN, self.kv_cache_tokens)

    def validated(self) -> "SimulatorOptions":
        """These options, or UsageError naming the first that cannot be and what to write instead."""
        for name in AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{_flag(name)} must be at least 1, not {value}")
        for name in AT_LEAST_ZERO:
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"{_flag(name)} must be 0 or more, not {getattr(self, name)}")
        for name in (*SHARES, "eos_probability"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{_flag(name)} is a share from 0 to 1, not {getattr(self, name)}")
        if not self.prefill_tokens_per_s > 0:
            raise UsageError(f"--prefill-tokens-per-s must be above 0, not {self.prefill_tokens_per_s}")
        if sum(getattr(self, name) for name in SHARES) > 1 + 1e-9:
            raise UsageError(f"{', '.join(map(_flag, SHARES))} are shares of all requests: together they must not be more than 1")
        if not 0 <= self.port <= 65535:
            raise UsageError(f"--port must be from 0 (any free one) to 65535, not {self.port}")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise UsageError(
                f"--max-num-batched-tokens {self.max_num_batched_tokens} is less than --max-num-seqs {self.max_num_seqs}: "
                "each running sequence takes one token of a step"
            )
        if self.max_model_len and self.max_model_len > self.kv_cache_tokens:
            raise UsageError(
                f"--max-model-len {self.max_model_len} does not fit into --kv-cache-tokens {self.kv_cache_tokens}: "
                "raise the cache or lower the length"
            )
        return self


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
