"""Values as people write them, and what is wrong with those that are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadstone import values
from loadstone.errors import UsageError


@pytest.mark.parametrize(
    ("parse", "written", "meant"),
    [
        (values.headers, ["X-Tenant=t 1=2", "X-Empty="], {"X-Tenant": "t 1=2", "X-Empty": ""}),  # split at the first = only
        (values.headers, "X-A=b c", {"X-A": "b c"}),
        (values.metadata, ["tp=8", "note=a=b"], {"tp": "8", "note": "a=b"}),
        (values.goodput, ["ttft:200", "tpot:50.5", "itl:0", "e2el:5000"], {"ttft": 200.0, "tpot": 50.5, "itl": 0.0, "e2el": 5000.0}),
        (values.goodput, "ttft:200 tpot:50", {"ttft": 200.0, "tpot": 50.0}),
        (values.percentile_metrics, "ttft, e2el,ttft", ("ttft", "e2el")),
        (values.percentile_metrics, ",".join(values.METRICS), values.METRICS),
        (values.metric_percentiles, "50,99.9,0,100", ("50", "99.9", "0", "100")),
        (values.metric_percentiles, 99, ("99",)),
        (values.metric_percentiles, "99.90", ("99.90",)),  # as written: it becomes a key's name
        (values.lora_modules, ["a", "b"], ["a", "b"]),
        (values.extra_body, '{"a": {"b": [1, null]}}', {"a": {"b": [1, None]}}),
        (values.request_rate, "inf", float("inf")),
    ],
)
def test_values(parse: Callable[[Any], Any], written: Any, meant: Any) -> None:
    assert parse(written) == meant
    assert parse(meant) == meant  # what is parsed already stays as it is


@pytest.mark.parametrize(
    ("parse", "written", "said"),
    [
        (values.goodput, ["ttfb:200"], "--goodput 'ttfb': there is no such metric; choose from ttft, tpot, itl, e2el"),
        (values.goodput, ["ttft:-1"], "--goodput ttft: the limit must be a number of milliseconds, at least 0, not -1"),
        (values.goodput, ["ttft:nan"], "at least 0, not nan"),
        (values.goodput, ["ttft:inf"], "at least 0, not inf"),
        (values.goodput, ["ttft:fast"], "'fast' is no number of milliseconds"),
        (values.goodput, ["ttft"], "must be METRIC:MS, for example ttft:200"),
        (values.goodput, ["ttft:200", "ttft:300"], "--goodput gives ttft twice"),
        (values.percentile_metrics, "ttft,e2e", r"'e2e': there is no such metric \(did you mean e2el\?\)"),
        (values.percentile_metrics, "", "names no metric"),
        (values.metric_percentiles, "50,101", "'101' is no percentile"),
        (values.metric_percentiles, "p99", "'p99' is no percentile"),
        (values.metric_percentiles, "-1", "'-1' is no percentile"),
        (values.metric_percentiles, "nan", "'nan' is no percentile"),
        (values.metric_percentiles, ",", "names no percentile"),
        (values.metadata, ["gpu"], "--metadata: 'gpu' is not KEY=VALUE"),
        (values.extra_body, "{top_k: 20}", "--extra-body is not JSON"),
        (values.extra_body, "[1]", "--extra-body must be a mapping"),
        (values.extra_body, '{"a": NaN}', "JSON has no form for"),
        (values.extra_body, '{"a": 1e999}', "JSON has no form for"),
    ],
)
def test_wrong_values_are_named(parse: Callable[[Any], Any], written: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(written)


def test_a_header_that_is_no_pair_is_not_shown() -> None:
    with pytest.raises(UsageError, match="value number 2") as caught:
        values.headers(["Authorization=Bearer", "k-123"])
    assert "k-123" not in str(caught.value)


def test_yaml_reads_numbers_as_json_does_and_an_empty_file_as_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("\ufeffa: 1e-5\nb: -2E3\nc: 1.5e+3\nd: 10\ne: e5\nf: '1e5'\n", "utf-8")
    assert values.read_mapping(str(file), "--config") == {"a": 1e-5, "b": -2000.0, "c": 1500.0, "d": 10, "e": "e5", "f": "1e5"}
    file.write_text("# nothing\n")
    assert values.read_mapping(str(file), "--config") == {}


def test_yaml_runs_no_code(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(UsageError, match=r"--config .*cannot be read as YAML"):
        values.read_mapping(str(file), "--config")
