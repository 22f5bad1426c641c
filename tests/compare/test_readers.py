"""Files of other tools, in the form that each writes: values in our units, and compared only where the definitions match."""

import json
from pathlib import Path
from typing import Any

import pytest

from compare.conftest import Write, document
from loadstone.compare.read import side
from loadstone.compare.rows import NOT_COMPARABLE, compare
from loadstone.compare.run import Run

VLLM = {
    "date": "20260102-030405", "endpoint_type": "openai", "backend": "openai", "label": None, "model_id": "org/m", "tokenizer_id": "org/m",
    "num_prompts": 3, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 2, "duration": 2.0, "completed": 2, "failed": 1,
    "total_input_tokens": 60, "total_output_tokens": 10, "request_throughput": 1.0, "request_goodput": None, "output_throughput": 5.0,
    "total_token_throughput": 35.0, "mean_ttft_ms": 150.0, "median_ttft_ms": 150.0, "std_ttft_ms": 50.0, "p99_ttft_ms": 199.0,
    "mean_tpot_ms": 25.0, "median_tpot_ms": 25.0, "std_tpot_ms": 0.0, "p99_tpot_ms": 25.0, "mean_itl_ms": 25.0, "median_itl_ms": 25.0,
    "std_itl_ms": 0.0, "p99_itl_ms": 25.0, "ttfts": [0.1, 0.0, 0.2], "itls": [[0.025] * 4, [], [0.025] * 4], "output_lens": [5, 0, 5],
    "errors": ["", "boom", ""],
}  # fmt: skip
SGLANG = {
    "tag": None, "backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "max_concurrency": None, "duration": 5.0, "completed": 20,
    "total_input_tokens": 600, "total_output_tokens": 100, "total_output_tokens_retokenized": 99, "request_throughput": 4.0,
    "output_throughput": 20.0, "total_throughput": 140.0, "mean_e2e_latency_ms": 400.0, "median_e2e_latency_ms": 390.0,
    "p99_e2e_latency_ms": 600.0, "mean_ttft_ms": 100.0, "median_ttft_ms": 99.0, "p99_ttft_ms": 180.0, "mean_tpot_ms": 20.0, "mean_itl_ms": 21.0,
    "p95_itl_ms": 30.0, "server_info": {"model_path": "/models/org/m"},
}  # fmt: skip
AIPERF = {
    "schema_version": "1.3", "aiperf_version": "0.13.0",
    "input_config": {"endpoint": {"model_names": ["org/m"]}, "loadgen": {"concurrency": 8}, "input": {"random_seed": 3}},
    "request_count": {"unit": "requests", "avg": 97.0}, "error_request_count": {"unit": "requests", "avg": 3.0},
    "request_throughput": {"unit": "requests/sec", "avg": 9.7}, "output_token_throughput": {"unit": "tokens/sec", "avg": 2483.2},
    "time_to_first_token": {"unit": "ms", "avg": 120.5, "p50": 110.0, "p99": 250.0, "min": 75.0, "max": 260.0, "std": 30.0},
    "inter_token_latency": {"unit": "ms", "avg": 12.0, "p50": 11.0, "p99": 20.0},
    "request_latency": {"unit": "sec", "avg": 3.2, "p50": 3.1, "p99": 4.5},
    "input_sequence_length": {"unit": "tokens", "avg": 256.0}, "output_sequence_length": {"unit": "tokens", "avg": 64.0},
    "benchmark_duration": {"unit": "sec", "avg": 10.0},
}  # fmt: skip


def guidellm(rate: float, ttft: float) -> dict[str, Any]:
    def of(mean: float) -> dict[str, Any]:
        return {"successful": {"mean": mean, "median": mean, "std_dev": 1.0, "count": 10, "percentiles": {"p001": 1.0, "p50": mean, "p99": 2 * mean}}}

    return {
        "config": {"strategy": {"type_": "poisson", "rate": rate}},
        "duration": 60.0,
        "metrics": {
            "request_totals": {"successful": 9, "incomplete": 0, "errored": 1, "total": 10},
            "time_to_first_token_ms": of(ttft),
            "inter_token_latency_ms": of(10.0),
            "time_per_output_token_ms": of(14.0),
            "request_latency": of(0.5),
            "requests_per_second": of(rate),
            "prompt_token_count": of(256.0),
            "output_token_count": of(64.0),
        },
    }


GUIDELLM = {"metadata": {"version": 2}, "benchmarks": [guidellm(2.0, 100.0), guidellm(4.0, 120.0)]}
EVALSCOPE_OLD = {
    "Time taken for tests (s)": 84.7, "Number of concurrency": 64, "Total requests": 10, "Succeed requests": 9, "Failed requests": 1,
    "Output token throughput (tok/s)": 144.8, "Total token throughput (tok/s)": 146.3, "Request throughput (req/s)": 0.118,
    "Average latency (s)": 65.0, "Average time to first token (s)": 0.5, "Average time per output token (s)": 0.05,
    "Average input tokens per request": 13.0, "Average output tokens per request": 1226.6,
}  # fmt: skip
EVALSCOPE_NEW = {
    "Test Duration (s)": 84.7, "Concurrency": 64, "Request Rate (req/s)": -1, "Success Requests": 9, "Failed Requests": 1,
    "Req Throughput (req/s)": 0.118, "Avg Latency (s)": 65.0, "Avg Input Tokens": 13.0, "Avg Output Tokens": 1226.6,
    "Output Throughput (tok/s)": 144.8, "Total Throughput (tok/s)": 146.3, "TTFT (ms)": 500.0, "TPOT (ms)": 50.0,
}  # fmt: skip


def one(path: Path) -> Run:
    (run,) = side(str(path))
    return run


def test_vllm(write: Write) -> None:
    run = one(write("v.json", VLLM))
    assert run.tool == "vllm bench serve" and run.figures["ttft"] == {"mean": 150.0, "median": 150.0, "p99": 199.0}
    assert run.figures["requests"] == {"": 1.0} and run.figures["errors"][""] == pytest.approx(100 / 3)
    assert run.facts == {"model": "org/m", "load": "all at once, at most 2 in flight", "lengths": (30.0, 5.0)}
    assert run.samples["ttft"].values.tolist() == [100.0, 200.0]  # the failed one, which vLLM counts with 0, is no sample
    assert run.samples["e2el"].values == pytest.approx([200.0, 300.0]) and run.samples["tpot"].values == pytest.approx([25.0, 25.0])
    assert run.samples["errors"].values.tolist() == [0.0, 100.0, 0.0]


def test_vllm_writes_infinity_and_zeros(write: Write, tmp_path: Path) -> None:
    """Its appended lines may hold what is no JSON, and a run without a sample 0 for every figure."""
    path = tmp_path / "v.jsonl"
    none = {"mean_tpot_ms": 0.0, "median_tpot_ms": 0.0, "p99_tpot_ms": 0.0}
    path.write_text(json.dumps(VLLM) + "\n" + json.dumps({**VLLM, **none, "request_rate": float("inf")}) + "\n")
    run = one(path)
    assert "tpot" not in run.figures and run.facts["load"] == "all at once, at most 2 in flight"


def test_the_first_chunk_of_a_chat_is_not_the_first_token(write: Write) -> None:
    ours = document(request_rate="inf", max_concurrency=2, total_input_tokens=30000)
    chat = {**VLLM, "endpoint_type": "openai-chat", "backend": "openai-chat"}
    names = [str(write("ours.json", ours)), str(write("chat.json", chat)), str(write("text.json", VLLM))]
    with_chat, with_text = compare([side(name) for name in names])
    verdicts = [{f"{row.statistic} {row.metric}": row for row in pair.rows} for pair in (with_chat, with_text)]
    assert verdicts[0]["mean ttft"].verdict == NOT_COMPARABLE and "whatever it holds" in verdicts[0]["mean ttft"].why
    assert verdicts[1]["mean ttft"].verdict != NOT_COMPARABLE and "empty first chunk" in verdicts[1]["mean ttft"].remark


def test_fastdeploy_has_a_colon_in_its_key(write: Write) -> None:
    made = {key: value for key, value in VLLM.items() if key not in ("request_goodput", "failed")}
    run = one(write("f.json", {**made, "request_goodput:": 0.5, "mean_s_ttft_ms": 90.0, "endpoint_type": "openai-chat"}))
    assert run.tool == "fastdeploy bench serve" and run.figures["goodput"] == {"": 0.5} and run.figures["s_ttft"] == {"mean": 90.0}


def test_sglang(write: Write) -> None:
    run = one(write("s.jsonl", {**SGLANG, "duration": 9.0}, SGLANG))
    assert run.tool == "SGLang bench_serving" and run.seconds == 5.0
    assert run.figures["e2el"] == {"mean": 400.0, "median": 390.0, "p99": 600.0} and run.figures["total"] == {"": 140.0}
    assert run.definitions["itl"].kind == "gap between tokens" and run.facts["model"] == "/models/org/m" and run.facts["load"] == "4 req/s"


@pytest.mark.parametrize("deeper", [False, True])
def test_aiperf(write: Write, deeper: bool) -> None:
    """Its ITL is our TPOT; seconds become ms; older files have the metrics one level deeper."""
    run = one(write("profile_export_aiperf.json", {"records": AIPERF, "input_config": AIPERF["input_config"]} if deeper else AIPERF))
    assert run.figures["ttft"] == {"mean": 120.5, "median": 110.0, "p99": 250.0, "min": 75.0, "max": 260.0}
    assert run.figures["tpot"]["mean"] == 12.0 and "itl" not in run.figures
    assert run.figures["e2el"]["p99"] == pytest.approx(4500.0) and run.figures["errors"] == {"": 3.0} and run.seconds == 10.0
    assert run.facts == {"model": "org/m", "load": "all at once, at most 8 in flight", "lengths": (256.0, 64.0), "seed": "3"}


def test_guidellm(write: Write) -> None:
    path = write("benchmarks.json", GUIDELLM)
    run = one(path)
    assert side(f"{path}#1")[0].figures["ttft"]["mean"] == 100.0 and len(side(f"{path}#all")) == 2
    assert run.figures["ttft"] == {"mean": 120.0, "median": 120.0, "p0.1": 1.0, "p99": 240.0}
    assert run.figures["e2el"]["mean"] == 500.0 and run.figures["errors"] == {"": 10.0} and run.facts["load"] == "4 req/s"
    assert run.definitions["tpot"].kind == "per token, TTFT included"


@pytest.mark.parametrize(("summary", "ttft"), [(EVALSCOPE_OLD, {"TTFT (s)": 0.9}), (EVALSCOPE_NEW, {"TTFT (ms)": 900.0})])
def test_evalscope(write: Write, summary: dict[str, Any], ttft: dict[str, float]) -> None:
    """Two generations of keys; the folder of a run is one run."""
    row = {**ttft, "Latency (s)": 90.0}
    write("run/benchmark_percentile.json", [{"Percentiles": "50%", **row}, {"Percentiles": "99%", **row}])
    write("run/benchmark_args.json", {"model": "m", "dataset": "random", "seed": 7})
    run = one(write("run/benchmark_summary.json", summary).parent)
    assert run.figures["ttft"] == {"mean": 500.0, "median": 900.0, "p99": 900.0} and run.figures["tpot"]["mean"] == 50.0
    assert run.figures["e2el"] == {"mean": 65000.0, "median": 90000.0, "p99": 90000.0} and run.figures["errors"] == {"": 10.0}
    assert run.facts == {"model": "m", "load": "all at once, at most 64 in flight", "data": "random", "lengths": (13.0, 1226.6), "seed": "7"}
    assert run.seconds == 84.7
