"""The flags of `loadstone bench serve`, by topic. A flag's name is its field's in RunConfig, and so is the default shown (a test holds them equal).

Nothing here may import the configuration or a room: help and completion must be quick.
"""

from typing import NamedTuple

BACKENDS = (
    "openai-chat",
    "openai",
    "vllm",
    "lmdeploy",
    "scalellm",
    "sglang",
    "fastdeploy",
    "fastdeploy-completions",
    "ollama",
    "ollama-generate",
    "llamacpp",
    "openai-responses",
    "openai-audio",
    "anthropic",
    "openai-embeddings",
    "embeddings",
    "infinity-embeddings",
    "openai-embeddings-chat",
    "openai-embeddings-clip",
    "vllm-pooling",
    "rerank",
    "vllm-rerank",
    "template",
)  # those that work
DATASETS = ("random", "custom", "sharegpt", "EB", "EBChat", "sonnet", "prefix_repetition", "spec_bench")


class Flag(NamedTuple):
    """One flag. `kind`: str, int, float, switch, or list (one or more words; the flag may stand several times). `meta`: its value's name in help."""

    name: str
    kind: str
    meta: str
    help: str
    default: str = ""
    choices: tuple[str, ...] = ()


class Group(NamedTuple):
    """A topic. The flags of a data set that does not work yet are accepted and not listed."""

    title: str
    flags: tuple[Flag, ...]
    dataset: str | None = None

    @property
    def listed(self) -> bool:
        return self.dataset is None or self.dataset in DATASETS


GROUPS = (
    Group(
        "server",
        (
            Flag("backend", "str", "NAME", f"API family: {', '.join(BACKENDS)}", "openai-chat", BACKENDS),
            Flag("template", "str", "FILE", "YAML file that describes the API, for --backend template"),
            Flag("base-url", "list", "URL", "address of the server, https too; else http://HOST:PORT. Several servers share the requests out"),
            Flag("ip-list", "str", "HOSTS", "several servers as host:port,host:port"),
            Flag(
                "balance",
                "str",
                "HOW",
                "which of several servers gets a request: round-robin or least-loaded",
                "round-robin",
                ("round-robin", "least-loaded"),
            ),
            Flag("uds", "str", "PATH", "connect to this unix-domain socket"),
            Flag("host", "str", "NAME", "name or address, IPv6 with or without brackets", "127.0.0.1"),
            Flag("port", "int", "N", "port", "8000"),
            Flag(
                "endpoint",
                "str",
                "PATH",
                "path of the API, joined to the base by one slash (default: by backend, /v1/chat/completions for openai-chat)",
            ),
            Flag("header", "list", "KEY=VALUE", "headers sent with every call of the run; never printed or saved"),
            Flag(
                "api-key",
                "str",
                "KEY",
                "sent as Authorization: Bearer KEY, or as the API has it; other users of the machine can see it here (default: $OPENAI_API_KEY)",
            ),
            Flag("model", "str", "NAME", "model field of the request (default: the one model that the server lists)"),
            Flag("served-model-name", "str", "NAME", "model field of the request, where it differs from --model"),
            Flag("ready-check-timeout-sec", "float", "S", "before the run, try one request for so many seconds; 0: do not", "600"),
            Flag("request-timeout", "float", "S", "seconds that one request may take", "21600"),
            Flag("connect-timeout", "float", "S", "seconds that a connection may take to be made", "60"),
            Flag("idle-timeout", "float", "S", "seconds that a reply may pause; 0: any time", "0"),
            Flag("connections", "str", "HOW", "reuse: kept alive; new: one for each request, its making timed apart", "reuse", ("reuse", "new")),
            Flag("retries", "int", "N", "further tries of a request that got no reply, or 429, 502, 503, 504, 529; Retry-After is kept to", "0"),
            Flag("proxy", "str", "URL", "proxy for every call; none: no proxy (default: HTTP_PROXY, HTTPS_PROXY, NO_PROXY)"),
            Flag("insecure", "switch", "", "do not check the server's certificate"),
            Flag("ca-file", "str", "FILE", "certificates of the authorities to trust, PEM"),
            Flag("client-cert", "str", "FILE", "certificate to show to the server, PEM"),
            Flag("client-key", "str", "FILE", "its key, where it is in another file"),
            Flag("server-name", "str", "NAME", "name for TLS (SNI, certificate), where it is not the host's"),
        ),
    ),
    Group(
        "tokenizer",
        (
            Flag("tokenizer", "str", "NAME", "hub id or path; for prompt lengths, and to count where the server does not (default: --model)"),
            Flag(
                "tokenizer-mode", "str", "MODE", "auto (fast), slow (transformers'), mistral, custom", "auto", ("auto", "slow", "mistral", "custom")
            ),
            Flag("trust-remote-code", "switch", "", "run a tokenizer's own code"),
        ),
    ),
    Group(
        "workload",
        (
            Flag("dataset-name", "str", "NAME", f"{', '.join(DATASETS)}", "random", DATASETS),
            Flag("dataset-path", "str", "PATH", "file of the data set"),
            Flag("num-prompts", "int", "N", "requests of the run", "1000"),
            Flag("seed", "int", "N", "every random draw comes from it", "0"),
            Flag("shuffle", "switch", "", "shuffle the data set before sampling"),
            Flag("no-oversample", "switch", "", "do not repeat a data set that is smaller than --num-prompts"),
            Flag("cache-bust", "switch", "", "begin each prompt with a mark of its own, drawn from the seed, that no prefix cache can know"),
        ),
    ),
    Group(
        "data set random",
        (
            Flag("random-input-len", "int", "N", "prompt tokens", "1024"),
            Flag("random-output-len", "int", "N", "output tokens", "128"),
            Flag("random-range-ratio", "float", "R", "lengths are drawn from len * (1 - R) to len * (1 + R); R below 1", "0"),
            Flag("random-prefix-len", "int", "N", "tokens of a prefix that all prompts share, on top", "0"),
            Flag(
                "isl-osl",
                "str",
                "MIX",
                "a mixture of lengths in place of those above: '1024:128@70,normal(8000,500):1024@30', or a CSV file of pairs",
            ),
            Flag("random-batch-size", "int", "N", "texts of one request, for embeddings and the like; documents, for rerank", "1"),
        ),
        "random",
    ),
    Group(
        "data set custom (JSON lines with prompt and, if wanted, output_tokens)",
        (
            Flag("custom-output-len", "int", "N", "output tokens of rows that do not say; -1: every row must", "256"),
            Flag("custom-skip-chat-template", "switch", "", "send the prompts of a completions run as they are"),
        ),
        "custom",
    ),
    Group("data set sharegpt", (Flag("sharegpt-output-len", "int", "N", "output tokens (default: those of the conversation's answer)"),), "sharegpt"),
    Group(
        "data set sonnet",
        (
            Flag("sonnet-input-len", "int", "N", "prompt tokens", "550"),
            Flag("sonnet-output-len", "int", "N", "output tokens", "150"),
            Flag("sonnet-prefix-len", "int", "N", "tokens of the shared prefix", "200"),
        ),
        "sonnet",
    ),
    Group(
        "data set prefix_repetition",
        (
            Flag("prefix-repetition-prefix-len", "int", "N", "tokens of a prefix", "256"),
            Flag("prefix-repetition-suffix-len", "int", "N", "tokens of a suffix", "256"),
            Flag("prefix-repetition-num-prefixes", "int", "N", "number of prefixes", "10"),
            Flag("prefix-repetition-output-len", "int", "N", "output tokens", "128"),
        ),
        "prefix_repetition",
    ),
    Group(
        "data set spec_bench",
        (
            Flag("spec-bench-output-len", "int", "N", "output tokens", "256"),
            Flag("spec-bench-category", "str", "NAME", "only this category"),
        ),
        "spec_bench",
    ),
    Group(
        "data set blazedit",
        (
            Flag("blazedit-min-distance", "float", "D", "least edit distance, 0 to 1", "0"),
            Flag("blazedit-max-distance", "float", "D", "most edit distance, 0 to 1", "1"),
        ),
        "blazedit",
    ),
    Group(
        "data set hf",
        (
            Flag("hf-name", "str", "NAME", "name of the data set on the hub, where --dataset-path is a folder"),
            Flag("hf-subset", "str", "NAME", "subset"),
            Flag("hf-split", "str", "NAME", "split"),
            Flag("hf-output-len", "int", "N", "output tokens (default: those of the data set)"),
            Flag("no-stream", "switch", "", "read the data set whole, not in streaming mode"),
        ),
        "hf",
    ),
    Group(
        "load",
        (
            Flag("request-rate", "float", "RPS", "mean arrivals per second; inf: all at once", "inf"),
            Flag(
                "burstiness", "float", "B", "shape of the gamma distribution of gaps: 1 is Poisson, below burstier, above more even, inf equal", "1"
            ),
            Flag("load", "str", "TEXT", "a rate that changes, such as '10/s for 60s, ramp to 50/s over 2m'; it sets the number of requests"),
            Flag("max-concurrency", "int", "N", "most requests in flight at once"),
            Flag(
                "ramp-up-strategy",
                "str",
                "NAME",
                "linear or exponential: the rate goes from start to end over the run",
                "",
                ("linear", "exponential"),
            ),
            Flag("ramp-up-start-rps", "float", "RPS", "rate at the start of the ramp"),
            Flag("ramp-up-end-rps", "float", "RPS", "rate at its end"),
            Flag("num-warmups", "int", "N", "requests sent to each server before the run and not counted", "0"),
            Flag("duration", "float", "S", "send nothing later than this; without --num-prompts, as many requests as fit, the data set repeated"),
            Flag("max-error-rate", "float", "X", "give up when more than this share of the requests that are over has failed"),
            Flag("drain-grace", "float", "S", "seconds that requests in flight get after the first Ctrl-C or --duration; then cancelled", "30"),
        ),
    ),
    Group(
        "request",
        (
            Flag("temperature", "float", "T", "sampling field (default: 0, greedy, for OpenAI-compatible backends)"),
            Flag("top-p", "float", "P", "sampling field"),
            Flag("top-k", "int", "K", "sampling field"),
            Flag("min-p", "float", "P", "sampling field"),
            Flag("logprobs", "int", "N", "logprobs field"),
            Flag("use-beam-search", "switch", "", "beam search, where the backend has it"),
            Flag(
                "max-tokens-field",
                "str",
                "NAME",
                "spelling of the wanted length: max_completion_tokens or max_tokens (default: by backend)",
                "",
                ("max_completion_tokens", "max_tokens"),
            ),
            Flag("pd-metrics", "switch", "", "the server's times of prefill and decoding apart (FastDeploy)"),
            Flag("ignore-eos", "switch", "", "generate to the full length"),
            Flag("hyperparameter-path", "str", "FILE", "YAML mapping merged over each request's body"),
            Flag("extra-body", "str", "JSON", "the same inline; wins over the file"),
            Flag("lora-modules", "list", "NAME", "each request gets one adapter as its model"),
            Flag("lora-assignment", "str", "HOW", "random (seeded) or round-robin", "random", ("random", "round-robin")),
            Flag("continuous-usage-stats", "switch", "", "ask for usage in every event; some servers refuse"),
            Flag("no-stream-request", "switch", "", "ask for replies in one piece: only E2EL is measured"),
            Flag("request-id-prefix", "str", "TEXT", "x-request-id is this and the request's number; '' sends none", "benchmark-serving"),
            Flag("profile", "switch", "", "POST start_profile before and stop_profile after the run"),
        ),
    ),
    Group(
        "numbers",
        (
            Flag(
                "percentile-metrics",
                "str",
                "NAMES",
                "comma-separated, of ttft, s_ttft, ttfot, tpot, itl, icl, s_itl, e2el, s_e2el, s_decode, input_len, s_input_len, output_len",
                "ttft,tpot,itl",
            ),
            Flag("metric-percentiles", "str", "P", "comma-separated, such as 50,99,99.9", "99"),
            Flag("goodput", "list", "METRIC:MS", "SLOs in milliseconds, of ttft, tpot, itl, e2el"),
            Flag("slo", "list", "TEXT", "what the run must reach, such as 'p99 ttft <= 200ms' or 'error rate < 1%'; exit code 99 on a miss"),
            Flag("junit", "str", "FILE", "write what became of each --slo as JUnit XML"),
        ),
    ),
    Group(
        "output",
        (
            Flag("save-result", "switch", "", "write the result as JSON"),
            Flag("save-detailed", "switch", "", "with arrays of one entry a request"),
            Flag("append-result", "switch", "", "append it to the file as one more line"),
            Flag("result-dir", "str", "DIR", "where the result goes, made if missing (default: here)"),
            Flag("result-filename", "str", "NAME", "name of the result's file (default: from label or backend, rate, model, time)"),
            Flag("label", "str", "TEXT", "stands in the result and in its file's name"),
            Flag("metadata", "list", "KEY=VALUE", "added to the result's top level"),
            Flag("records", "str", "FILE", "one line of JSON a request, written as requests finish"),
            Flag("disable-tqdm", "switch", "", "no progress display"),
            Flag("debug", "switch", "", "print each request's body and reply; tracebacks"),
        ),
    ),
    Group(
        "engine",
        (
            Flag(
                "clock",
                "str",
                "WHICH",
                "auto: the kernel's receive stamps where there are any; user: the time after each read",
                "auto",
                ("auto", "user"),
            ),
            Flag("workers", "int", "N", "processes that send and receive; 0: by cores and load, one for a small load", "0"),
            Flag("keep-wire", "str", "DIR", "keep the captured bytes there, for `loadstone decode DIR`"),
        ),
    ),
)

FLAGS = tuple(flag for group in GROUPS for flag in group.flags)
LISTED = tuple(flag for group in GROUPS if group.listed for flag in group.flags)
