"""The PyTorch benchmark form."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from loadstone.config import RunConfig
from loadstone.metrics.summarise import summarise
from loadstone.records import Records
from loadstone.report.pytorch_benchmark import VARIABLE, write_pytorch_benchmark
from loadstone.report.result_file import result_document


def written(tmp_path: Path, records: list[Any], environment: dict[str, str], **fields: Any) -> Path | None:
    config = RunConfig(model="org/m", metric_percentiles=("90",), save_detailed=True, **fields)
    columns = Records(records)
    summary = summarise(columns, planned=len(records), percentiles=config.metric_percentiles)
    document = result_document(summary, columns, config, date=datetime(2026, 1, 2))
    return write_pytorch_benchmark(tmp_path / "run.json", document, summary, config, environment)


def test_only_when_asked(tmp_path: Path, reply: Any) -> None:
    assert written(tmp_path, [reply(0, tokens=[1, 2])], {}) is None
    assert list(tmp_path.iterdir()) == []


def test_one_record_a_figure(tmp_path: Path, reply: Any) -> None:
    records = [reply(k, tokens=[100 + 100 * k, 300]) for k in range(2)]
    path = written(tmp_path, records, {VARIABLE: "1"}, metadata={"tensor_parallel_size": "8"}, header={"Authorization": "Bearer k-123"})
    assert path == tmp_path / "run.pytorch.json"
    text = path.read_text()
    found = json.loads(text)
    values = {record["metric"]["name"]: record["metric"]["benchmark_values"] for record in found}
    assert set(values) == {f"{statistic}_{metric}_ms" for statistic in ("median", "mean", "std", "p99") for metric in ("ttft", "tpot", "itl")}
    assert (values["mean_ttft_ms"], values["std_ttft_ms"], values["p99_ttft_ms"]) == ([150], [50], [199])
    first = found[0]
    assert first["benchmark"]["name"] and first["model"] == {"name": "org/m"}
    assert first["benchmark"]["extra_info"]["args"]["tensor_parallel_size"] == "8"
    assert first["benchmark"]["extra_info"]["args"]["request_rate"] == "inf"
    assert first["metric"]["extra_info"]["completed"] == 2 and "ttfts" not in first["metric"]["extra_info"]
    assert "k-123" not in text


def test_a_figure_without_sample_has_no_record(tmp_path: Path, reply: Any) -> None:
    path = written(tmp_path, [reply(0, tokens=[150])], {VARIABLE: "1"})
    assert path is not None
    assert {record["metric"]["name"] for record in json.loads(path.read_text())} == {f"{s}_ttft_ms" for s in ("median", "mean", "std", "p99")}
