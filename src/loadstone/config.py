"""The configuration of one run: every choice a person can make, validated, serialisable, with the names of the flags.

`RunConfig` is what the command line, a YAML file and the Python API all build. A field's name is its flag's with underscores; its default is the
flag's default. Nothing reads flags after this point.
"""

import math
from typing import Any

import msgspec

from loadstone.errors import UsageError

INFINITE = math.inf


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `loadstone bench serve`. Raises UsageError from `validated()` when the fields contradict each other."""

    # server
    backend: str = "openai-chat"
    base_url: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    endpoint: str | None = None
    header: dict[str, str] = {}  # secret values live here: never printed, never saved
    model: str | None = None
    served_model_name: str | None = None
    ready_check_timeout_sec: float = 600.0
    request_timeout: float = 21600.0  # seconds for one request, from its first byte sent to its end
    connect_timeout: float = 60.0

    # tokenizer
    tokenizer: str | None = None
    tokenizer_mode: str = "auto"
    trust_remote_code: bool = False

    # workload
    dataset_name: str = "random"
    dataset_path: str | None = None
    num_prompts: int = 1000
    seed: int = 0
    shuffle: bool = False
    no_oversample: bool = False
    no_stream: bool = False
    custom_output_len: int = 256
    custom_skip_chat_template: bool = False
    sharegpt_output_len: int | None = None
    sonnet_input_len: int = 550
    sonnet_output_len: int = 150
    sonnet_prefix_len: int = 200
    random_input_len: int = 1024
    random_output_len: int = 128
    random_range_ratio: float = 0.0
    random_prefix_len: int = 0
    random_batch_size: int = 1
    prefix_repetition_prefix_len: int = 256
    prefix_repetition_suffix_len: int = 256
    prefix_repetition_num_prefixes: int = 10
    prefix_repetition_output_len: int = 128
    spec_bench_output_len: int = 256
    spec_bench_category: str | None = None
    blazedit_min_distance: float = 0.0
    blazedit_max_distance: float = 1.0
    hf_name: str | None = None
    hf_subset: str | None = None
    hf_split: str | None = None
    hf_output_len: int | None = None

    # load
    request_rate: float = INFINITE
    burstiness: float = 1.0
    ramp_up_strategy: str | None = None  # linear, exponential
    ramp_up_start_rps: float | None = None
    ramp_up_end_rps: float | None = None
    max_concurrency: int | None = None
    num_warmups: int = 0
    drain_grace: float = 30.0  # seconds that requests in flight get after the first interrupt

    # request
    lora_modules: list[str] = []
    lora_assignment: str = "random"  # random, round-robin
    logprobs: int | None = None
    use_beam_search: bool = False
    ignore_eos: bool = False
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    temperature: float | None = None
    hyperparameter_path: str | None = None
    extra_body: dict[str, Any] = {}
    continuous_usage_stats: bool = False
    no_stream_request: bool = False
    request_id_prefix: str = "benchmark-serving"
    profile: bool = False

    # numbers
    goodput: dict[str, float] = {}  # metric -> limit in milliseconds
    percentile_metrics: tuple[str, ...] = ("ttft", "tpot", "itl")
    metric_percentiles: tuple[str, ...] = ("99",)  # as given: they become key names (p99, p99.9)

    # output
    save_result: bool = False
    save_detailed: bool = False
    append_result: bool = False
    result_dir: str | None = None
    result_filename: str | None = None
    label: str | None = None
    metadata: dict[str, str] = {}
    records: str | None = None
    disable_tqdm: bool = False
    debug: bool = False

    # engine
    clock: str = "auto"  # auto: kernel receive stamps where the system has them; user: read after each read
    workers: int = 1

    def validated(self) -> "RunConfig":
        """This configuration, or UsageError naming the first field that cannot be and what to write instead."""
        if self.num_prompts < 1:
            raise UsageError(f"--num-prompts must be at least 1, not {self.num_prompts}")
        return self
