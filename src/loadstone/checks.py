"""Which configurations cannot be: ranges of single flags, and flags that contradict each other."""

import math
import re
from typing import TYPE_CHECKING, Any

from loadstone import values
from loadstone.errors import UsageError
from loadstone.proxy import proxy_for
from loadstone.redact import public_url

if TYPE_CHECKING:
    from loadstone.config import RunConfig

LEAST = {
    "num_prompts": 0,
    "max_concurrency": 1,
    "workers": 0,
    "idle_timeout": 0,
    "seed": 0,
    "num_warmups": 0,
    "ready_check_timeout_sec": 0,
    "drain_grace": 0,
    "logprobs": 0,
    "temperature": 0,
    "top_k": -1,
    "sharegpt_output_len": 1,
    "sonnet_input_len": 1,
    "sonnet_output_len": 1,
    "sonnet_prefix_len": 0,
    "random_input_len": 1,
    "random_output_len": 1,
    "random_prefix_len": 0,
    "random_batch_size": 1,
    "prefix_repetition_prefix_len": 0,
    "prefix_repetition_suffix_len": 1,
    "prefix_repetition_num_prefixes": 1,
    "prefix_repetition_output_len": 1,
    "spec_bench_output_len": 1,
    "hf_output_len": 1,
    "retries": 0,
}
ABOVE_ZERO = ("request_timeout", "connect_timeout", "ramp_up_start_rps", "ramp_up_end_rps", "duration")
SHARES = ("min_p", "max_error_rate", "blazedit_min_distance", "blazedit_max_distance")  # from 0 to 1
CHOICES = {
    "tokenizer_mode": ("auto", "slow", "mistral", "custom"),
    "ramp_up_strategy": ("linear", "exponential"),
    "lora_assignment": ("random", "round-robin"),
    "clock": ("auto", "user"),
    "balance": ("round-robin", "least-loaded"),
    "connections": ("reuse", "new"),
    "max_tokens_field": ("max_completion_tokens", "max_tokens"),
}
NOT_EMPTY = (
    *("model", "served_model_name", "tokenizer", "dataset_path", "hyperparameter_path", "records", "result_filename", "keep_wire"),
    *("template", "uds", "isl_osl", "ca_file", "client_cert", "client_key", "server_name", "junit"),
)


def check(config: "RunConfig") -> None:
    """UsageError naming the first flag that cannot be and what to write instead."""
    _check_ranges(config)
    _check_texts(config)
    _check_load(config)
    values.goodput(config.goodput)
    values.percentile_metrics(config.percentile_metrics)
    values.metric_percentiles(config.metric_percentiles)
    values.extra_body(config.extra_body)
    if config.no_stream_request and config.continuous_usage_stats:
        raise UsageError("--continuous-usage-stats asks for usage within a stream: it cannot go with --no-stream-request")
    if config.sonnet_prefix_len > config.sonnet_input_len:
        raise UsageError(f"--sonnet-prefix-len {config.sonnet_prefix_len} must not be above --sonnet-input-len {config.sonnet_input_len}")
    if config.blazedit_min_distance > config.blazedit_max_distance:
        raise UsageError("--blazedit-min-distance must not be above --blazedit-max-distance")


def _check_ranges(config: "RunConfig") -> None:
    for name, least in LEAST.items():
        _require(config, name, lambda value, least=least: least <= value < math.inf, f"at least {least}")
    for name in ABOVE_ZERO:
        _require(config, name, lambda value: 0 < value < math.inf, "a number above 0")
    for name in SHARES:
        _require(config, name, lambda value: 0 <= value <= 1, "from 0 to 1")
    for name, choices in CHOICES.items():
        _require(config, name, lambda value, choices=choices: value in choices, f"one of {', '.join(choices)}")
    _require(config, "request_rate", lambda value: value > 0, "above 0 (requests per second), or inf to send all at once")
    _require(config, "burstiness", lambda value: value > 0, "above 0 (1 is Poisson), or inf for equal gaps")
    _require(config, "random_range_ratio", lambda value: 0 <= value < 1, "at least 0 and below 1")
    _require(config, "top_p", lambda value: 0 < value <= 1, "above 0 and at most 1")


def _check_texts(config: "RunConfig") -> None:
    _check_servers(config)
    _check_transport(config)
    values.headers(config.header)
    for name in NOT_EMPTY:
        _require(config, name, lambda value: value.strip() != "", "a name, not empty")
    if any(not name.strip() for name in config.lora_modules):
        raise UsageError("--lora-modules names must not be empty")
    values.check_header_text(config.request_id_prefix, "--request-id-prefix")
    endpoint = config.endpoint or ""
    if "://" in endpoint.partition("?")[0] or "#" in endpoint or re.search(r"[\x00-\x20\x7f]", endpoint):
        raise UsageError(f"--endpoint {public_url(endpoint)!r} must be a path such as /v1/chat/completions; the server goes into --base-url")


def _check_servers(config: "RunConfig") -> None:
    if config.ip_list and config.base_url is not None:
        raise UsageError("--ip-list and --base-url both name the servers: give one of them")
    for place in config.ip_list:
        if "/" in place or "@" in place or not re.search(r":\d+$", place):
            raise UsageError(f"--ip-list {public_url(place)!r} must be host:port, for example 10.0.0.1:8000; give a URL with --base-url")
    found: set[str] = set()
    for target in config.targets():
        proxy_for(target, config.proxy, {})  # what the environment names is looked at when it is needed
        place = f"{target.origin}{target.base_path}"
        if place in found:
            raise UsageError(f"{'--ip-list' if config.ip_list else '--base-url'} names the server {place} twice: give each server once")
        found.add(place)


def _check_transport(config: "RunConfig") -> None:
    if config.uds and config.proxy not in (None, "none"):
        raise UsageError("--uds and --proxy cannot go together: a socket file leads straight to the server")
    if config.uds and len(config.base_urls) > 1:
        raise UsageError("--uds leads to one server: give one --base-url, or none, and no --ip-list")
    if config.insecure and config.ca_file:
        raise UsageError("--insecure leaves out the check of the certificate that --ca-file is for: give one of them")
    if config.server_name and not re.fullmatch(r"[A-Za-z0-9_.:-]+", config.server_name):
        raise UsageError(f"--server-name {config.server_name!r} is no host name or address")


def _check_load(config: "RunConfig") -> None:
    _check_end(config)
    if config.load is not None and (config.request_rate != math.inf or config.ramp_up_strategy is not None or config.duration is not None):
        raise UsageError("--load says when requests come and for how long: leave --request-rate, --ramp-up-strategy and --duration out")
    strategy, start, end = config.ramp_up_strategy, config.ramp_up_start_rps, config.ramp_up_end_rps
    if strategy is None:
        if start is not None or end is not None:
            raise UsageError("--ramp-up-start-rps and --ramp-up-end-rps need --ramp-up-strategy linear or exponential")
        return
    if config.request_rate != math.inf:
        raise UsageError("--ramp-up-strategy cannot go with --request-rate: the ramp sets the rate; leave one of them out")
    if start is None or end is None:
        raise UsageError(f"--ramp-up-strategy {strategy} needs both --ramp-up-start-rps and --ramp-up-end-rps")
    if start > end:
        raise UsageError(f"--ramp-up-start-rps {start:g} must not be above --ramp-up-end-rps {end:g}")


def _check_end(config: "RunConfig") -> None:
    """`--num-prompts 0` is what --duration alone means: as many requests as fit. It needs a load that a duration can end."""
    if config.num_prompts or config.load is not None:
        return
    if config.duration is None:
        raise UsageError("--num-prompts must be at least 1, not 0 (or give --duration)")
    if config.ramp_up_strategy is not None:
        raise UsageError("--ramp-up-strategy spreads the ramp over --num-prompts requests: give that too, beside --duration")
    if config.request_rate == math.inf and config.max_concurrency is None:
        raise UsageError("--duration without --num-prompts needs --request-rate or --max-concurrency: all at once would never end")


def _require(config: "RunConfig", name: str, holds: Any, wanted: str) -> None:
    """UsageError unless the field is absent or `holds` (which nan never does)."""
    value = getattr(config, name)
    if value is not None and not holds(value):
        raise UsageError(f"--{name.replace('_', '-')} must be {wanted}, not {value!r}")
