"""The PyTorch benchmark form: with SAVE_TO_PYTORCH_BENCHMARK_FORMAT set, `NAME.pytorch.json` beside the result, a list with one record a metric."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadstone.config import RunConfig
from loadstone.metrics.summary import Distribution, Summary
from loadstone.report.details import ARRAYS
from loadstone.report.output import write_result

VARIABLE = "SAVE_TO_PYTORCH_BENCHMARK_FORMAT"
METRICS = ("ttft", "tpot", "itl")


def write_pytorch_benchmark(
    result_path: Path, document: Mapping[str, Any], summary: Summary, config: RunConfig, environment: Mapping[str, str] = os.environ
) -> Path | None:
    """Write the records beside the result if the environment asks for it, and return where; else None."""
    if not environment.get(VARIABLE):
        return None
    return write_result(result_path.with_suffix(".pytorch.json"), pytorch_records(document, summary, config))


def pytorch_records(document: Mapping[str, Any], summary: Summary, config: RunConfig) -> list[dict[str, Any]]:
    """One record for median, mean, std and p99 of TTFT, TPOT and ITL in ms; a figure without a sample has none. Header values are masked."""
    args = config.public()
    if "tensor_parallel_size" in config.metadata:
        args["tensor_parallel_size"] = config.metadata["tensor_parallel_size"]
    figures = {key: value for name in METRICS for key, value in _figures(summary.distributions[name]).items()}
    extra = {key: value for key, value in document.items() if key not in ARRAYS and key not in figures}
    return [
        {
            "benchmark": {"name": "loadstone benchmark", "extra_info": {"args": args}},
            "model": {"name": config.model},
            "metric": {"name": name, "benchmark_values": [value], "extra_info": extra},
        }
        for name, value in figures.items()
    ]


def _figures(found: Distribution) -> dict[str, float]:
    if found.mean is None or found.median is None or found.std is None:
        return {}
    figures = {"median": found.median.value, "mean": found.mean, "std": found.std, "p99": found.percentiles["99"].value}
    return {f"{statistic}_{found.name}_ms": value for statistic, value in figures.items()}
