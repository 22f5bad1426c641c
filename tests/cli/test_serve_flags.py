"""Every flag of `bench serve` is read and reaches its field; what help shows is true."""

import argparse
import inspect
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from loadstone import backends, values, workload
from loadstone.cli import bench_serve
from loadstone.cli.main import build_parser
from loadstone.cli.serve_flags import BACKENDS, DATASETS, FLAGS, LISTED
from loadstone.config import RunConfig

DEFAULTS = RunConfig()

# every flag of the contract with vLLM's and FastDeploy's scripts: what is written, and what its field must then be (never the default)
CONTRACT: dict[str, tuple[str, Any]] = {
    "backend": ("openai", "openai"),
    "base-url": ("https://h:1/v2", "https://h:1/v2"),
    "host": ("::1", "::1"),
    "port": ("8001", 8001),
    "endpoint": ("v1/x", "v1/x"),
    "header": ("A=b=c D=", {"A": "b=c", "D": ""}),
    "model": ("m", "m"),
    "served-model-name": ("s", "s"),
    "tokenizer": ("t", "t"),
    "tokenizer-mode": ("slow", "slow"),
    "trust-remote-code": ("", True),
    "dataset-name": ("sharegpt", "sharegpt"),
    "dataset-path": ("p.json", "p.json"),
    "num-prompts": ("5", 5),
    "seed": ("6", 6),
    "shuffle": ("", True),
    "no-oversample": ("", True),
    "no-stream": ("", True),
    "request-rate": ("2.5", 2.5),
    "burstiness": ("0.5", 0.5),
    "ramp-up-strategy": ("linear", "linear"),
    "ramp-up-start-rps": ("1", 1.0),
    "ramp-up-end-rps": ("9", 9.0),
    "max-concurrency": ("4", 4),
    "ready-check-timeout-sec": ("0", 0.0),
    "lora-modules": ("a b", ["a", "b"]),
    "profile": ("", True),
    "logprobs": ("3", 3),
    "use-beam-search": ("", True),
    "ignore-eos": ("", True),
    "top-p": ("0.9", 0.9),
    "top-k": ("20", 20),
    "min-p": ("0.1", 0.1),
    "temperature": ("0.7", 0.7),
    "hyperparameter-path": ("h.yaml", "h.yaml"),
    "extra-body": ('{"a":[1]}', {"a": [1]}),
    "request-id-prefix": ("run-", "run-"),
    "goodput": ("ttft:200 e2el:9000", {"ttft": 200.0, "e2el": 9000.0}),
    "percentile-metrics": ("ttft,e2el", ("ttft", "e2el")),
    "metric-percentiles": ("50,99.9", ("50", "99.9")),
    "save-result": ("", True),
    "save-detailed": ("", True),
    "append-result": ("", True),
    "result-dir": ("out", "out"),
    "result-filename": ("r.json", "r.json"),
    "label": ("l", "l"),
    "metadata": ("gpu=H100 tp=8", {"gpu": "H100", "tp": "8"}),
    "disable-tqdm": ("", True),
    "debug": ("", True),
    "custom-output-len": ("7", 7),
    "custom-skip-chat-template": ("", True),
    "sharegpt-output-len": ("8", 8),
    "sonnet-input-len": ("551", 551),
    "sonnet-output-len": ("151", 151),
    "sonnet-prefix-len": ("201", 201),
    "random-input-len": ("10", 10),
    "random-output-len": ("11", 11),
    "random-range-ratio": ("0.5", 0.5),
    "random-prefix-len": ("12", 12),
    "random-batch-size": ("2", 2),
    "prefix-repetition-prefix-len": ("13", 13),
    "prefix-repetition-suffix-len": ("14", 14),
    "prefix-repetition-num-prefixes": ("15", 15),
    "prefix-repetition-output-len": ("16", 16),
    "spec-bench-output-len": ("17", 17),
    "spec-bench-category": ("math", "math"),
    "blazedit-min-distance": ("0.1", 0.1),
    "blazedit-max-distance": ("0.9", 0.9),
    "hf-name": ("n", "n"),
    "hf-subset": ("u", "u"),
    "hf-split": ("test", "test"),
    "hf-output-len": ("18", 18),
    "continuous-usage-stats": ("", True),
}
OWN: dict[str, tuple[str, Any]] = {
    "cache-bust": ("", True),
    "isl-osl": ("10:1@70,20:2@30", "10:1@70,20:2@30"),
    "api-key": ("k", "k"),
    "request-timeout": ("9.5", 9.5),
    "connect-timeout": ("3", 3.0),
    "num-warmups": ("2", 2),
    "drain-grace": ("1", 1.0),
    "lora-assignment": ("round-robin", "round-robin"),
    "no-stream-request": ("", True),
    "records": ("r.jsonl", "r.jsonl"),
    "clock": ("user", "user"),
    "workers": ("2", 2),
    "idle-timeout": ("2", 2.0),
    "duration": ("8", 8.0),
    "max-error-rate": ("0.1", 0.1),
    "keep-wire": ("kept", "kept"),
    "template": ("t.yaml", "t.yaml"),
    "ip-list": ("a:1,b:2", ("a:1", "b:2")),
    "balance": ("least-loaded", "least-loaded"),
    "uds": ("s.sock", "s.sock"),
    "connections": ("new", "new"),
    "retries": ("3", 3),
    "proxy": ("http://127.0.0.1:3128", "http://127.0.0.1:3128"),
    "insecure": ("", True),
    "ca-file": ("ca.pem", "ca.pem"),
    "client-cert": ("c.pem", "c.pem"),
    "client-key": ("k.pem", "k.pem"),
    "server-name": ("llm.example", "llm.example"),
    "max-tokens-field": ("max_tokens", "max_tokens"),
    "pd-metrics": ("", True),
    "slo": ("fast", ["fast"]),  # likewise
    "junit": ("slo.xml", "slo.xml"),
    "load": ("burst", "burst"),  # what it may say is another test's
}
NEEDS = {  # flags that cannot stand alone
    "client-key": "--client-cert c.pem",
    "duration": "--max-concurrency 3",
    "ramp-up-strategy": "--ramp-up-start-rps 1 --ramp-up-end-rps 2",
    "ramp-up-start-rps": "--ramp-up-strategy linear --ramp-up-end-rps 2",
    "ramp-up-end-rps": "--ramp-up-strategy linear --ramp-up-start-rps 2",
}


def parsed(words: Sequence[str]) -> argparse.Namespace:
    return build_parser(("bench",)).parse_args(["bench", "serve", *words])


def config_of(words: Sequence[str]) -> RunConfig:
    return RunConfig.from_mapping(bench_serve.given_flags(parsed(words)))


@pytest.mark.parametrize("name", [*CONTRACT, *OWN])
def test_every_flag_reaches_its_field(name: str) -> None:
    written, meant = (CONTRACT | OWN)[name]
    field = name.replace("-", "_")
    config = config_of([f"--{name}", *written.split(), *NEEDS.get(name, "").split()])
    assert getattr(config, field) == meant
    assert type(getattr(config, field)) is type(meant)
    assert getattr(DEFAULTS, field) != meant, "a test of a flag must change something"


def test_the_flags_are_those_of_the_contract_and_ours_and_each_has_a_field() -> None:
    names = [flag.name for flag in FLAGS]
    assert sorted(names) == sorted([*CONTRACT, *OWN])
    assert {name.replace("-", "_") for name in names} == set(RunConfig.__struct_fields__)


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.default], ids=lambda flag: flag.name)
def test_defaults_in_help_are_the_configurations(flag: Any) -> None:
    default = getattr(DEFAULTS, flag.name.replace("-", "_"))
    shown = values.PARSERS.get(flag.name.replace("-", "_"), type(default))(flag.default)
    assert shown == default


def test_flags_with_a_default_show_it() -> None:
    silent = [flag.name for flag in FLAGS if not flag.default and flag.kind in ("int", "float", "str")]
    assert all(getattr(DEFAULTS, name.replace("-", "_")) is None or name in ("extra-body", "ip-list") for name in silent)


def test_without_flags_the_configuration_is_the_default() -> None:
    assert config_of([]) == DEFAULTS
    assert math.isinf(DEFAULTS.request_rate)


def test_list_flags_may_stand_several_times() -> None:
    config = config_of(["--header", "A=1", "--seed", "1", "--header", "B=2", "C=3"])
    assert config.header == {"A": "1", "B": "2", "C": "3"}


def test_help_fits_eighty_columns_and_lists_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # whatever the terminal
    text = parsed([]).parser.format_help()
    assert max(map(len, text.splitlines())) <= 80
    listed = {flag.name for flag in LISTED}
    shown = {line.split()[0].removeprefix("--") for line in text.splitlines() if line.startswith("  --")}
    assert shown == listed | {"config"}
    assert "blazedit" not in text


def test_names_shown_are_those_that_work() -> None:
    assert set(BACKENDS) == set(backends.names())
    assert set(DATASETS) == set(workload.names())


def test_metrics_shown_are_those_that_can_be_chosen() -> None:
    shown = next(flag.help for flag in FLAGS if flag.name == "percentile-metrics")
    assert shown.removeprefix("comma-separated, of ").split(", ") == list(values.METRICS)


def test_the_flags_need_nothing_heavy() -> None:
    for module in (bench_serve, inspect.getmodule(FLAGS[0])):
        assert not {"msgspec", "numpy", "RunConfig"} & set(vars(module))
    assert msgspec  # what this test itself loads says nothing about start-up: see test_startup
