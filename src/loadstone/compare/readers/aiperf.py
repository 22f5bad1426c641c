"""AIPerf's profile_export_aiperf.json: one object a metric with its unit, `avg`, `min`, `max` and percentiles.

Its inter_token_latency is one value a request, (last - first) / (tokens - 1): TPOT here. It keeps no gaps between tokens in this file.
"""

from pathlib import Path
from typing import Any

from loadstone.compare.readers.keys import Figures, facts, number, put, rate_words
from loadstone.compare.run import Definition, Run

LATENCIES = {"time_to_first_token": "ttft", "inter_token_latency": "tpot", "request_latency": "e2el", "time_to_first_output_token": "ttfot"}
RATES = {"request_throughput": "requests", "output_token_throughput": "output", "total_token_throughput": "total", "goodput": "goodput"}
PER_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3}


def _metrics(document: dict[str, Any]) -> dict[str, Any]:
    """Older versions have the metrics one level deeper."""
    return document["records"] if isinstance(document.get("records"), dict) else document


def knows(document: dict[str, Any]) -> bool:
    found = _metrics(document)
    return any(isinstance(found.get(key), dict) and "avg" in found[key] for key in ("request_throughput", "request_latency"))


def read(document: dict[str, Any], path: Path) -> Run:
    metrics = _metrics(document)
    figures: Figures = {}
    for key, name in LATENCIES.items():
        found = metrics.get(key)
        if isinstance(found, dict) and (per_ms := PER_MS.get(found.get("unit", "ms"))) is not None:
            put(figures, name, "mean", found.get("avg"), per_ms)
            put(figures, name, "median", found.get("p50"), per_ms)
            for statistic, value in found.items():
                if statistic in ("min", "max") or (statistic[:1] == "p" and statistic[1:].replace(".", "").isdigit() and statistic != "p50"):
                    put(figures, name, statistic, value, per_ms)
    for key, name in RATES.items():
        put(figures, name, "", _average(metrics, key))
    good, bad = _average(metrics, "request_count"), _average(metrics, "error_request_count")
    if good is not None and good + (bad or 0) > 0:
        put(figures, "errors", "", 100 * (bad or 0) / (good + (bad or 0)))
    lengths = (_average(metrics, "input_sequence_length"), _average(metrics, "output_sequence_length"))
    return Run(
        source=str(path),
        tool=f"AIPerf {document.get('aiperf_version', '')}".strip(),
        figures=figures,
        definitions={
            "ttft": Definition("first token"),
            "tpot": Definition("per token after the first"),
            "e2el": Definition("to the last token"),
        },
        facts=facts(model=_model(document), load=_load(document), lengths=lengths if any(lengths) else None, seed=_seed(document)),
        seconds=_average(metrics, "benchmark_duration"),
    )


def _average(metrics: dict[str, Any], key: str) -> float | None:
    found = metrics.get(key)
    return number(found.get("avg")) if isinstance(found, dict) else None


def _section(document: dict[str, Any], name: str) -> dict[str, Any]:
    config = document.get("input_config")
    found = config.get(name) if isinstance(config, dict) else None
    return found if isinstance(found, dict) else {}


def _model(document: dict[str, Any]) -> str | None:
    names = _section(document, "endpoint").get("model_names")
    return str(names[0]) if isinstance(names, list) and len(names) == 1 else None


def _load(document: dict[str, Any]) -> str | None:
    asked = _section(document, "loadgen")
    rate, cap = number(asked.get("request_rate")), number(asked.get("concurrency"))
    if rate is None and cap is None:
        return None
    words = rate_words(rate if rate is not None else "inf")
    return f"{words}, at most {cap:g} in flight" if cap else words


def _seed(document: dict[str, Any]) -> str | None:
    found = _section(document, "input").get("random_seed")
    return None if found is None else str(found)
