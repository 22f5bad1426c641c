"""evalscope perf: benchmark_summary.json, with benchmark_percentile.json and benchmark_args.json beside it where they are.

Two generations of keys: `Average time to first token (s)`, later `TTFT (ms)`; the unit stands in the key. Its first token is the first chunk, its
latency runs to the end of the stream, its ITL is between events. Percentiles are samples, not interpolated, and rounded to a few digits.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from loadstone.compare.readers.keys import Figures, facts, number, put, rate_words
from loadstone.compare.run import Definition, Run

PER_MS = {"ms": 1.0, "s": 1e3}
MEANS = {
    "average time to first token": "ttft", "ttft": "ttft", "average time per output token": "tpot", "tpot": "tpot",
    "average inter-token latency": "itl", "itl": "itl", "average latency": "e2el", "avg latency": "e2el", "latency": "e2el",
}  # fmt: skip
RATES = {
    "request throughput (req/s)": "requests", "req throughput (req/s)": "requests", "output token throughput (tok/s)": "output",
    "output throughput (tok/s)": "output", "total token throughput (tok/s)": "total", "total throughput (tok/s)": "total",
}  # fmt: skip
ROUGH = "its percentiles are not interpolated"


def knows(document: dict[str, Any]) -> bool:
    return any(key in document for key in ("Request throughput (req/s)", "Req Throughput (req/s)"))


def read(document: dict[str, Any], path: Path) -> Run:
    figures: Figures = {}
    _latencies(figures, document, "mean")
    low = {key.lower(): value for key, value in document.items()}
    for key, name in RATES.items():
        put(figures, name, "", low.get(key))
    good = number(low.get("succeed requests", low.get("success requests")))
    bad = number(low.get("failed requests"))
    if good is not None and bad is not None and good + bad > 0:
        put(figures, "errors", "", 100 * bad / (good + bad))
    for row in _beside(path, "benchmark_percentile.json", list):
        if isinstance(row, dict) and (found := re.fullmatch(r"([\d.]+)%", str(row.get("Percentiles", "")))):
            _latencies(figures, row, "median" if float(found[1]) == 50 else f"p{found[1]}")
    args = _beside(path, "benchmark_args.json", dict)
    lengths = tuple(number(low.get(f"average {way} tokens per request", low.get(f"avg {way} tokens"))) for way in ("input", "output"))
    return Run(
        source=str(path),
        tool="evalscope perf",
        figures=figures,
        definitions={
            "ttft": Definition("first chunk, whatever it holds", ROUGH),
            "tpot": Definition("per token after the first chunk", ROUGH),
            "itl": Definition("gap between events and the chunk of the role", ROUGH),
            "e2el": Definition("to the end of the stream", ROUGH),
        },
        facts=facts(
            model=args.get("model"),
            load=_load(low),
            data=args.get("dataset"),
            lengths=lengths if any(lengths) else None,
            seed=None if args.get("seed") is None else str(args["seed"]),
        ),
        seconds=number(low.get("time taken for tests (s)", low.get("test duration (s)"))),
    )


def _latencies(figures: Figures, row: dict[str, Any], statistic: str) -> None:
    for key, value in row.items():
        if (found := re.fullmatch(r"(.*) \((ms|s)\)", key)) and (name := MEANS.get(found[1].lower())):
            put(figures, name, statistic, value, PER_MS[found[2]])


def _load(low: dict[str, Any]) -> str | None:
    cap, rate = number(low.get("number of concurrency", low.get("concurrency"))), number(low.get("request rate (req/s)"))
    if cap is None and rate is None:
        return None
    words = rate_words(rate if rate is not None and rate > 0 else "inf")  # -1 is its infinity
    return f"{words}, at most {cap:g} in flight" if cap else words


def _beside(path: Path, name: str, kind: Any) -> Any:
    """What the file of that name in the same folder holds; nothing where there is none that can be read."""
    try:
        return msgspec.json.decode(path.with_name(name).read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return kind()
