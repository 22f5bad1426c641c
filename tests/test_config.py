"""The configuration: what cannot be is refused by the flag's name, secrets stay inside, every form of a value means the same."""

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadstone.config import RunConfig, load_hyperparameters
from loadstone.errors import UsageError

NAN = math.nan

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("--num-prompts", {"num_prompts": 0}),
    ("--max-concurrency", {"max_concurrency": 0}),
    ("--max-concurrency", {"max_concurrency": -1}),
    ("--request-rate", {"request_rate": 0}),
    ("--request-rate", {"request_rate": -1}),
    ("--request-rate", {"request_rate": NAN}),
    ("--request-rate", {"request_rate": -math.inf}),
    ("--burstiness", {"burstiness": 0}),
    ("--burstiness", {"burstiness": NAN}),
    ("--burstiness", {"burstiness": -math.inf}),
    ("--random-range-ratio", {"random_range_ratio": 1.0}),
    ("--random-range-ratio", {"random_range_ratio": -0.1}),
    ("--random-range-ratio", {"random_range_ratio": NAN}),
    ("--random-input-len", {"random_input_len": 0}),
    ("--random-output-len", {"random_output_len": 0}),
    ("--random-prefix-len", {"random_prefix_len": -1}),
    ("--seed", {"seed": -1}),
    ("--port", {"port": 0}),
    ("--port", {"port": 65536}),
    ("--workers", {"workers": -1}),
    ("--duration", {"duration": 0.0}),
    ("--duration", {"num_prompts": 0, "duration": 5.0}),
    ("--ramp-up-strategy", {"num_prompts": 0, "duration": 5.0, "ramp_up_strategy": "linear", "ramp_up_start_rps": 1.0, "ramp_up_end_rps": 2.0}),
    ("--max-error-rate", {"max_error_rate": 1.5}),
    ("--idle-timeout", {"idle_timeout": -1.0}),
    ("--num-warmups", {"num_warmups": -1}),
    ("--drain-grace", {"drain_grace": -1}),
    ("--drain-grace", {"drain_grace": math.inf}),
    ("--request-timeout", {"request_timeout": 0}),
    ("--connect-timeout", {"connect_timeout": NAN}),
    ("--ready-check-timeout-sec", {"ready_check_timeout_sec": -1}),
    ("--temperature", {"temperature": -0.5}),
    ("--top-p", {"top_p": 0}),
    ("--top-p", {"top_p": 1.5}),
    ("--top-k", {"top_k": -2}),
    ("--min-p", {"min_p": 2}),
    ("--logprobs", {"logprobs": -1}),
    ("--tokenizer-mode", {"tokenizer_mode": "fast"}),
    ("--lora-assignment", {"lora_assignment": "even"}),
    ("--clock", {"clock": "kernel"}),
    ("--model", {"model": ""}),
    ("--lora-modules", {"lora_modules": ["a", ""]}),
    ("--sonnet-prefix-len", {"sonnet_prefix_len": 600}),
    ("--blazedit-min-distance", {"blazedit_min_distance": 0.5, "blazedit_max_distance": 0.25}),
    ("--continuous-usage-stats", {"continuous_usage_stats": True, "no_stream_request": True}),
    ("--endpoint", {"endpoint": "http://h/v1/completions"}),
    ("--endpoint", {"endpoint": "/v1/a b"}),
    ("--base-url", {"base_url": "localhost:8000"}),
    ("--header", {"header": {"X-Tenant": "a\r\nX-Evil: b"}}),
    ("--header", {"header": {"X Tenant": "a"}}),
    ("--header", {"header": {"content-length": "5"}}),
    ("--request-id-prefix", {"request_id_prefix": "a\n"}),
    ("--goodput", {"goodput": {"ttft": -1}}),
    ("--percentile-metrics", {"percentile_metrics": ("ttfb",)}),
    ("--metric-percentiles", {"metric_percentiles": ("101",)}),
    ("--ramp-up-start-rps", {"ramp_up_start_rps": 1}),
    ("--ramp-up-end-rps", {"ramp_up_end_rps": 1}),
    ("--ramp-up-strategy", {"ramp_up_strategy": "quadratic"}),
    ("--ramp-up-end-rps", {"ramp_up_strategy": "linear", "ramp_up_start_rps": 1}),
    ("--ramp-up-start-rps", {"ramp_up_strategy": "linear", "ramp_up_end_rps": 1}),
    ("--ramp-up-start-rps", {"ramp_up_strategy": "linear", "ramp_up_start_rps": -1, "ramp_up_end_rps": 1}),
    ("--ramp-up-start-rps", {"ramp_up_strategy": "linear", "ramp_up_start_rps": 5, "ramp_up_end_rps": 1}),
    ("--ramp-up-end-rps", {"ramp_up_strategy": "linear", "ramp_up_start_rps": 1, "ramp_up_end_rps": 0}),
    ("--ramp-up-start-rps", {"ramp_up_strategy": "linear", "ramp_up_start_rps": 0, "ramp_up_end_rps": 5}),
    ("--ramp-up-start-rps", {"ramp_up_strategy": "exponential", "ramp_up_start_rps": 0, "ramp_up_end_rps": 5}),
    ("--request-rate", {"ramp_up_strategy": "linear", "ramp_up_start_rps": 1, "ramp_up_end_rps": 5, "request_rate": 3}),
]


@pytest.mark.parametrize(("flag", "fields"), REFUSED, ids=lambda value: str(value))
def test_what_cannot_be_is_refused_by_its_flag(flag: str, fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=flag):
        RunConfig(**fields).validated()


ACCEPTED: list[dict[str, Any]] = [
    {},
    {"request_rate": math.inf},
    {"request_rate": 0.01, "burstiness": 0.1, "max_concurrency": 1},
    {"random_range_ratio": 0.999},
    {"burstiness": math.inf, "custom_output_len": -1},
    {"ready_check_timeout_sec": 0, "num_warmups": 0, "drain_grace": 0},
    {"ramp_up_strategy": "exponential", "ramp_up_start_rps": 1, "ramp_up_end_rps": 1},
    {"host": "::1"},
    {"host": "[::1]"},
    {"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 0, "logprobs": 0},
    {"goodput": {"ttft": 0}},
    {"metric_percentiles": ("0", "100", "99.9")},
    {"model": None, "endpoint": "/openai/chat?api-version=2024-10-21"},
]


@pytest.mark.parametrize("fields", ACCEPTED, ids=str)
def test_what_can_be_is_accepted(fields: dict[str, Any]) -> None:
    config = RunConfig(**fields).validated()
    assert {name: getattr(config, name) for name in fields} == fields


def test_types_become_exact_or_are_refused() -> None:
    rate = RunConfig(request_rate=5).validated().request_rate
    assert isinstance(rate, float) and rate == 5
    with pytest.raises(UsageError, match=r"num-prompts: expected `int`, got `str`"):
        RunConfig(num_prompts="5").validated()  # type: ignore[arg-type]


def test_a_mapping_may_spell_names_with_dashes_or_underscores_and_values_as_people_do() -> None:
    config = RunConfig.from_mapping(
        {
            "num-prompts": 7,
            "request_rate": "inf",
            "goodput": {"ttft": 200},
            "metric-percentiles": [50, 99.9],
            "percentile-metrics": ["ttft", "e2el"],
            "metadata": {"tensor_parallel_size": 8, "fast": True},
            "header": {"X-Run": 1},
            "lora-modules": "a b",
            "extra-body": '{"top_k": 20}',
            "max-concurrency": None,
        }
    )
    assert (config.num_prompts, config.request_rate, config.max_concurrency) == (7, math.inf, None)
    assert config.goodput == {"ttft": 200.0}
    assert config.metric_percentiles == ("50", "99.9")
    assert config.percentile_metrics == ("ttft", "e2el")
    assert config.metadata == {"tensor_parallel_size": "8", "fast": "true"}
    assert config.header == {"X-Run": "1"}
    assert config.lora_modules == ["a", "b"]
    assert config.extra_body == {"top_k": 20}


def test_overrides_win_key_by_key_whatever_the_spelling() -> None:
    config = RunConfig.from_mapping({"num_prompts": 7, "seed": 3}, overrides={"num-prompts": 9})
    assert (config.num_prompts, config.seed) == (9, 3)


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"num-promts": 7}, r"run\.yaml: 'num-promts' is no flag of bench serve \(did you mean num-prompts\?\)"),
        ({"num-prompts": 7, "num_prompts": 8}, "run.yaml gives 'num_prompts' twice"),
        ({"num-prompts": "many"}, "run.yaml: num-prompts: expected `int`, got `str`"),
        ({"num-prompts": None}, "run.yaml: num-prompts: expected `int`, got `null`"),
        ({"request-rate": "fast"}, "--request-rate must be a number or inf, not 'fast'"),
        ({"goodput": 5}, "--goodput '5' must be METRIC:MS"),
        ({"header": [1, {}]}, "--header must be a text, not a mapping"),
        ({1: 2}, "run.yaml: 1 is no flag"),
    ],
)
def test_errors_of_a_mapping_name_the_source_and_the_key(mapping: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        RunConfig.from_mapping(mapping, "run.yaml")


SECRETS = RunConfig(
    base_url="https://me:hunter2@h:1/v1", header={"Authorization": "Bearer k-123"}, api_key="k-456", endpoint="/v1/chat?api-key=k-789&version=1"
)


def test_public_form_holds_no_secret_and_is_strict_json() -> None:
    public = SECRETS.public()
    text = json.dumps(public, allow_nan=False)
    assert not any(secret in text for secret in ("hunter2", "k-123", "k-456", "k-789"))
    assert public["header"] == {"Authorization": "***"}
    assert public["base_url"] == "https://***@h:1/v1"
    assert public["endpoint"] == "/v1/chat?api-key=***&version=1"
    assert public["request_rate"] == "inf"
    assert list(public) == list(RunConfig.__struct_fields__)


def test_repr_holds_no_secret() -> None:
    assert not any(secret in repr(SECRETS) for secret in ("hunter2", "k-123", "k-456", "k-789"))
    assert "num_prompts=1000" in repr(SECRETS)


@pytest.mark.parametrize(
    ("fields", "environment", "headers"),
    [
        ({}, {}, {}),
        ({}, {"OPENAI_API_KEY": ""}, {}),
        ({}, {"OPENAI_API_KEY": "k-1\n"}, {"authorization": "Bearer k-1"}),
        ({"api_key": "k-2"}, {"OPENAI_API_KEY": "k-1"}, {"authorization": "Bearer k-2"}),
        ({"api_key": ""}, {"OPENAI_API_KEY": "k-1"}, {}),
        ({"header": {"authorization": "Token t", "X-A": "1"}}, {"OPENAI_API_KEY": "k-1"}, {"authorization": "Token t", "X-A": "1"}),
        ({"header": {"X-A": "1"}}, {"OPENAI_API_KEY": "k-1"}, {"authorization": "Bearer k-1", "X-A": "1"}),
        ({"base_url": "http://me:p%40ss@h"}, {"OPENAI_API_KEY": "k-1"}, {"authorization": "Basic bWU6cEBzcw=="}),  # me:p@ss
    ],
)
def test_the_key_goes_into_one_authorization_header(fields: dict[str, Any], environment: dict[str, str], headers: dict[str, str]) -> None:
    assert RunConfig(**fields).request_headers(environment=environment) == headers


def test_a_key_that_is_no_header_value_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        RunConfig().request_headers(environment={"OPENAI_API_KEY": "k-1\nk-2"})
    assert "k-1" not in str(caught.value)


def test_hyperparameters_are_the_file_and_over_it_the_extra_body(tmp_path: Path) -> None:
    file = tmp_path / "hyper.yaml"
    file.write_text("temperature: 1e-5\ntop_p: 0.8\nmetadata:\n  enable_thinking: false\n")
    config = RunConfig(hyperparameter_path=str(file), extra_body={"top_p": 0.5})
    assert load_hyperparameters(config) == {"temperature": 0.00001, "top_p": 0.5, "metadata": {"enable_thinking": False}}
    assert load_hyperparameters(RunConfig(extra_body={"a": 1})) == {"a": 1}
    assert load_hyperparameters(RunConfig()) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n- b\n", "must hold a mapping of names to values, not a list"),
        ("plain\n", "must hold a mapping of names to values, not a text"),
        ("a: [1\n", "cannot be read as YAML"),
        ("a: 1\na: 2\n", "'a' stands twice"),
        ("a: .nan\n", "holds a value that JSON has no form for"),
        ("a: 2024-01-01\n", "holds a value that JSON has no form for"),
        (None, "No such file"),
    ],
)
def test_bad_hyperparameter_files_are_named(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "hyper.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        load_hyperparameters(RunConfig(hyperparameter_path=str(file)))
    assert str(file) in str(caught.value) and "--hyperparameter-path" in str(caught.value)


def test_a_config_survives_its_file_form() -> None:
    config = RunConfig(num_prompts=3, burstiness=math.inf, goodput={"ttft": 200.0}, metric_percentiles=("50", "99.9")).validated()
    assert RunConfig.from_mapping(json.loads(json.dumps(config.public()))) == config
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(config), type=RunConfig) == config


def test_a_duration_without_a_number_means_as_many_as_fit() -> None:
    """On the command line and in a file --duration stands instead of --num-prompts, or with it."""
    assert RunConfig.from_mapping({"duration": 5, "request_rate": 2}).num_prompts == 0
    assert RunConfig.from_mapping({"duration": 5, "request_rate": 2, "num_prompts": 7}).num_prompts == 7
    assert RunConfig.from_mapping({"request_rate": 2}).num_prompts == 1000
