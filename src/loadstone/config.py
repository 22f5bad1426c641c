"""The configuration of one run: every choice a person can make, validated, serialisable, with the names of the flags.

`RunConfig` is what the command line, a YAML file and the Python API all build. A field's name is its flag's with underscores; its default is the
flag's default. Nothing reads flags after this point.
"""

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from loadstone.checks import check
from loadstone.errors import UsageError
from loadstone.redact import MASK, public_proxy, public_url
from loadstone.target import Target, basic_credentials, target_of
from loadstone.values import PARSERS, check_header_text, json_mapping, nearest, read_mapping

INFINITE = math.inf
API_KEY_VARIABLE = "OPENAI_API_KEY"


def bearer(key: str) -> dict[str, str]:
    """The header by which most APIs take a key."""
    return {"authorization": f"Bearer {key}"} if key else {}


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `loadstone bench serve`. Raises UsageError from `validated()` when the fields contradict each other."""

    # server
    backend: str = "openai-chat"
    template: str | None = None  # file that describes the API, for backend template
    base_url: str | list[str] | None = None  # several: requests are shared out among them
    ip_list: tuple[str, ...] = ()  # host:port of several servers, FastDeploy's way of naming them
    balance: str = "round-robin"  # round-robin, least-loaded
    uds: str | None = None  # socket file to connect to instead of host and port
    host: str = "127.0.0.1"
    port: int = 8000
    endpoint: str | None = None
    header: dict[str, str] = {}  # secret values live here: never printed, never saved
    api_key: str | None = None  # a secret too; None: the environment's OPENAI_API_KEY
    model: str | None = None
    served_model_name: str | None = None
    ready_check_timeout_sec: float = 600.0
    request_timeout: float = 21600.0  # seconds for one request, from its first byte sent to its end
    connect_timeout: float = 60.0
    idle_timeout: float = 0.0  # seconds without a byte of the reply; 0: none
    connections: str = "reuse"  # reuse: kept alive; new: one for each request
    retries: int = 0  # further tries of a request (docs/servers.md)
    proxy: str | None = None  # None: as HTTP_PROXY, HTTPS_PROXY and NO_PROXY say; "none": none
    insecure: bool = False  # do not check certificates
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    server_name: str | None = None  # name in the TLS handshake and in the check of the certificate; None: the host's

    # tokenizer
    tokenizer: str | None = None
    tokenizer_mode: str = "auto"
    trust_remote_code: bool = False

    # workload
    dataset_name: str = "random"
    dataset_path: str | None = None
    num_prompts: int = 1000  # 0, with a duration: as many as fit
    seed: int = 0
    shuffle: bool = False
    no_oversample: bool = False
    cache_bust: bool = False  # a mark in front of each prompt that no other one has
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
    isl_osl: str | None = None  # a mixture of lengths: "1024:128@70,8192:1024@30"
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
    load: str | None = None  # a rate that changes with time: "10/s for 60s, ramp to 50/s over 2m"
    ramp_up_strategy: str | None = None  # linear, exponential
    ramp_up_start_rps: float | None = None
    ramp_up_end_rps: float | None = None
    max_concurrency: int | None = None
    num_warmups: int = 0
    duration: float | None = None  # seconds after which nothing more is sent
    max_error_rate: float | None = None  # give up when more than this share of the requests that are over has failed
    drain_grace: float = 30.0  # seconds that requests in flight get after the first interrupt, or after `duration`

    # request
    lora_modules: list[str] = []
    lora_assignment: str = "random"  # random, round-robin
    logprobs: int | None = None
    use_beam_search: bool = False
    max_tokens_field: str | None = None
    pd_metrics: bool = False  # FastDeploy's times of prefill and decoding apart
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
    slo: list[str] = []  # thresholds in words: "p99 ttft <= 200ms"
    junit: str | None = None
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
    workers: int = 0  # 0: by cores and load, one for a small load
    keep_wire: str | None = None  # folder to keep the captured bytes in, for `loadstone decode`

    def validated(self) -> "RunConfig":
        """This configuration with its types made exact (5 becomes 5.0 in a rate), or UsageError naming the first flag that cannot be and what to
        write instead.
        """
        config = _converted(msgspec.structs.asdict(self), "the configuration")
        check(config)
        return config

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], source: str = "the configuration", overrides: Mapping[str, Any] | None = None) -> "RunConfig":
        """The validated configuration that `mapping` describes: keys are names of flags with - or _; `overrides` (flags) win, key by key.

        Raises UsageError, naming `source` where a key or a type is wrong.
        """
        fields = {**_fields(mapping, source), **_fields(overrides or {}, "the command line")}
        if fields.get("duration") is not None or fields.get("load") is not None:
            fields.setdefault("num_prompts", 0)  # --duration or --load instead of --num-prompts
        return _converted(fields, source).validated()

    @property
    def base_urls(self) -> list[str]:
        """The base URLs of the servers, as --base-url or --ip-list gave them: none (--host and --port name the one server) or several."""
        if self.ip_list:
            return [f"http://{place}" for place in self.ip_list]
        return [] if self.base_url is None else [self.base_url] if isinstance(self.base_url, str) else self.base_url

    def targets(self) -> list[Target]:
        """The servers that are tested, in the order in which they were given."""
        urls: list[str | None] = [*self.base_urls]
        return [target_of(url, self.host, self.port) for url in urls or [None]]

    def request_headers(
        self,
        headers_for: Callable[[str], dict[str, str]] = bearer,
        key_variable: str = API_KEY_VARIABLE,
        environment: Mapping[str, str] = os.environ,
        base_url: str | None = None,
    ) -> dict[str, str]:
        """The headers that a person asked for, for every call of the run. The credential is the first of --header Authorization, --api-key, user and
        password in `base_url` (None: the first server's), `key_variable` of the environment; an empty key sends none. `headers_for(key)` are the
        headers that the API wants.
        """
        if any(name.lower() == "authorization" for name in self.header):
            return {**headers_for(""), **self.header}
        credentials = basic_credentials(base_url or next(iter(self.base_urls), None)) if self.api_key is None else None
        key = (environment.get(key_variable, "") if self.api_key is None else self.api_key).strip()
        check_header_text(key, key_variable if self.api_key is None else "--api-key")
        own = {**headers_for(""), "authorization": credentials} if credentials else headers_for(key)
        return {**own, **self.header}

    def public(self) -> dict[str, Any]:
        """The configuration for printing and saving: secrets masked, no infinity (JSON has none; it reads "inf")."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        fields["header"] = dict.fromkeys(self.header, MASK)
        fields["api_key"] = self.api_key and MASK
        for name in ("host", "endpoint"):
            fields[name] = fields[name] and public_url(fields[name])
        fields["proxy"] = self.proxy and public_proxy(self.proxy)
        urls = [] if self.ip_list else [public_url(url) for url in self.base_urls]
        fields["base_url"] = urls if len(urls) > 1 else urls[0] if urls else None
        return {name: "inf" if value == INFINITE else value for name, value in fields.items()}

    def __repr__(self) -> str:
        """Without secrets: a configuration may end up in a log or a traceback."""
        return f"RunConfig({', '.join(f'{name}={value!r}' for name, value in self.public().items())})"


def load_hyperparameters(config: RunConfig) -> dict[str, Any]:
    """What has the last word over every request's JSON body: the mapping in --hyperparameter-path and, over it, --extra-body."""
    if config.hyperparameter_path is None:
        return dict(config.extra_body)
    flag = "--hyperparameter-path"
    mapping = read_mapping(config.hyperparameter_path, flag)
    return {**json_mapping(mapping, f"{flag} {config.hyperparameter_path}"), **config.extra_body}


def _fields(mapping: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Field values by field name. Raises UsageError for a key that is no flag or stands twice."""
    fields: dict[str, Any] = {}
    for key, value in mapping.items():
        name = str(key).replace("-", "_")
        if name not in RunConfig.__struct_fields__:
            raise UsageError(f"{source}: {key!r} is no flag of bench serve{nearest(name, RunConfig.__struct_fields__)}".replace("_", "-"))
        if name in fields:
            raise UsageError(f"{source} gives {key!r} twice, once with - and once with _")
        fields[name] = PARSERS[name](value) if name in PARSERS else value
    return fields


def _converted(fields: dict[str, Any], source: str) -> RunConfig:
    try:
        return msgspec.convert(fields, RunConfig)
    except msgspec.ValidationError as error:  # "Expected `int`, got `str` - at `$.num_prompts`"
        fault, _, place = str(error).partition(" - at `$.")
        raise UsageError(f"{source}: {place.rstrip('`').replace('_', '-')}: {fault[:1].lower()}{fault[1:]}") from None
