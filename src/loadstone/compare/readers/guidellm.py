"""GuideLLM's benchmarks.json. One file holds the benchmarks of a sweep: FILE#2 is the second.

Figures are of its successful requests. Its ITL is a mean a request, counted once a token, and its TPOT has TTFT in it: neither is anyone else's.
Request latency is in seconds. Its rates are means over its window.
"""

from pathlib import Path
from typing import Any

from loadstone.compare.readers.keys import Figures, facts, number, put, rate_words
from loadstone.compare.run import Definition, Run

LATENCIES = {
    "time_to_first_token_ms": ("ttft", 1.0),
    "inter_token_latency_ms": ("itl", 1.0),
    "time_per_output_token_ms": ("tpot", 1.0),
    "request_latency": ("e2el", 1e3),
}
RATES = {"requests_per_second": "requests", "output_tokens_per_second": "output", "tokens_per_second": "total"}
WINDOW = Definition("mean over a window")


def knows(document: dict[str, Any]) -> bool:
    """A file, or one benchmark of it."""
    metrics = document.get("metrics")
    return (isinstance(metrics, dict) and "request_latency" in metrics) or _benchmarks(document) != []


def _benchmarks(document: dict[str, Any]) -> list[dict[str, Any]]:
    found = document.get("benchmarks")
    return [each for each in found if isinstance(each, dict) and knows(each)] if isinstance(found, list) else []


def several(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The benchmarks of a file, each as a document of its own."""
    return _benchmarks(document) if "metrics" not in document else [document]


def read(document: dict[str, Any], path: Path) -> Run:
    metrics = document["metrics"]
    figures: Figures = {}
    for key, (name, per_unit) in LATENCIES.items():
        found = _successful(metrics, key)
        for statistic in ("mean", "median", "min", "max"):
            put(figures, name, statistic, found.get(statistic), per_unit)
        for statistic, value in (found.get("percentiles") or {}).items():
            if statistic != "p50":  # p001 is p0.1
                put(
                    figures,
                    name,
                    "p0.1" if statistic == "p001" else "p99.9" if statistic == "p999" else f"p{float(statistic[1:]):g}",
                    value,
                    per_unit,
                )
    for key, name in RATES.items():
        put(figures, name, "", _successful(metrics, key).get("mean"))
    totals = metrics.get("request_totals")
    if isinstance(totals, dict):
        good, bad = number(totals.get("successful")) or 0.0, number(totals.get("errored")) or 0.0
        if good + bad:
            put(figures, "errors", "", 100 * bad / (good + bad))
    lengths = tuple(number(_successful(metrics, key).get("mean")) for key in ("prompt_token_count", "output_token_count"))
    return Run(
        source=str(path),
        tool="GuideLLM",
        figures=figures,
        definitions={
            "ttft": Definition("first token"),
            "tpot": Definition("per token, TTFT included"),
            "itl": Definition("mean a request, weighted by tokens"),
            "e2el": Definition("to the end of the stream"),
            **dict.fromkeys(("requests", "output", "total"), WINDOW),
        },
        facts=facts(load=_load(document), lengths=lengths if any(lengths) else None),
        seconds=number(document.get("duration")),
    )


def _successful(metrics: dict[str, Any], key: str) -> dict[str, Any]:
    found = metrics.get(key)
    good = found.get("successful") if isinstance(found, dict) else None
    return good if isinstance(good, dict) else {}


def _load(document: dict[str, Any]) -> str | None:
    config = document.get("config")
    strategy = config.get("strategy") if isinstance(config, dict) else None
    if not isinstance(strategy, dict):
        return None
    rate, streams = number(strategy.get("rate")), number(strategy.get("streams"))
    if rate is not None:
        return rate_words(rate) if strategy.get("type_") == "poisson" else f"{rate_words(rate)}, {strategy.get('type_', 'constant')}"
    return f"all at once, at most {streams:g} in flight" if streams else None
