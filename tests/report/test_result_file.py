"""The result document: the keys of the contract with right values, strict JSON, and per-request arrays in plan order."""

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from loadstone.config import RunConfig
from loadstone.metrics.summarise import summarise
from loadstone.records import Record, Records
from loadstone.report.details import ARRAYS, NEVER_SENT
from loadstone.report.output import OWN_KEYS, encode
from loadstone.report.result_file import result_document

DATE = datetime(2026, 1, 2, 3, 4, 5)
MS = 1_000_000
DOCS = Path(__file__).parents[2] / "docs"
CONTRACT = (
    "date endpoint_type label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency gpu duration completed total_input_tokens"
    " total_output_tokens request_throughput request_goodput output_throughput total_token_throughput"
)


def document(records: list[Record], config: RunConfig | None = None, planned: int | None = None, **options: Any) -> dict[str, Any]:
    """The document as a strict parser reads it back."""
    config = config or RunConfig(model="org/m")
    planned = len(records) if planned is None else planned
    made = {name: options.pop(name) for name in ("command", "input_texts", "clock") if name in options}
    columns = Records(records)
    summary = summarise(columns, planned=planned, percentiles=config.metric_percentiles, slos_ms=config.goodput, **options)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found: dict[str, Any] = json.loads(encode(result_document(summary, columns, config, date=DATE, **made)), parse_constant=refuse)
    return found


def test_the_contract_in_its_order(reply: Any) -> None:
    found = document([reply(0, tokens=[100, 150])], RunConfig(model="org/m", metadata={"gpu": "H100"}))
    assert [key for key in found if key in CONTRACT.split()] == CONTRACT.split()
    assert found["date"] == "20260102-030405" and found["gpu"] == "H100"
    assert (found["endpoint_type"], found["model_id"], found["tokenizer_id"]) == ("openai-chat", "org/m", "org/m")
    assert (found["request_rate"], found["burstiness"], found["max_concurrency"]) == ("inf", 1.0, None)
    assert found["request_goodput"] is None and "ramp_up_strategy" not in found


def test_what_is_infinite_is_a_word() -> None:
    assert document([], RunConfig(request_rate=5.0, burstiness=math.inf))["burstiness"] == "inf"


def test_a_ramp_is_stated() -> None:
    found = document([], RunConfig(model="m", ramp_up_strategy="linear", ramp_up_start_rps=1, ramp_up_end_rps=9))
    assert (found["ramp_up_strategy"], found["ramp_up_start_rps"], found["ramp_up_end_rps"]) == ("linear", 1, 9)


def test_figures_by_hand(reply: Any) -> None:
    config = RunConfig(
        model="m", percentile_metrics=("ttft", "e2el", "output_len", "s_decode"), metric_percentiles=("99", "99.9"), goodput={"ttft": 150.0}
    )
    records = [reply(k, sent=1000 * k, tokens=[100 + 100 * k, 300], server_ns=[0, 40 * MS], prompt_tokens=9) for k in range(3)]
    found = document(records, config)
    assert (found["mean_ttft_ms"], found["median_ttft_ms"], found["p99_ttft_ms"], found["p99.9_ttft_ms"]) == (200, 200, 298, pytest.approx(299.8))
    assert found["std_ttft_ms"] == pytest.approx((20000 / 3) ** 0.5)
    assert found["n_ttft"] == 3 and found["ci_p99_ttft_ms"][1] is None
    assert found["mean_output_len"] == 2 and "mean_output_len_ms" not in found and found["mean_s_decode"] == 25
    assert "mean_tpot_ms" not in found
    assert found["duration"] == 2.3 and found["request_goodput"] == pytest.approx(1 / 2.3)
    assert found["goodput"] == {"slos_ms": {"ttft": 150.0}, "good": 1, "share": pytest.approx(1 / 3), "missed": {"ttft": 2}}
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (27, 6)


def test_intervals_are_saved(reply: Any) -> None:
    found = document([reply(k, sent=k, tokens=[k + 1, 2000]) for k in range(500)])
    assert found["ci_p99_ttft_ms"] == [490, 500]


def test_what_is_undefined_is_null(reply: Any) -> None:
    """Rate inf, one one-token request, one failure, a model named like a constant."""
    records = [reply(0, tokens=[150]), reply(1, status="failed", error="boom")]
    found = document(records, RunConfig(model="NaNa-Infinity", save_detailed=True))
    assert found["model_id"] == "NaNa-Infinity"
    assert found["mean_ttft_ms"] == 150 and found["mean_tpot_ms"] is None and found["p99_itl_ms"] is None and found["n_tpot"] == 0
    assert found["ci_median_tpot_ms"] is None


def test_open_loops_have_figures_from_planned(reply: Any) -> None:
    records = [reply(k, sent=100 * k + 40, tokens=[100, 200], planned_ns=100 * k * MS) for k in range(4)]
    found = document(records, RunConfig(model="m", request_rate=10.0), open_loop=True)
    assert (found["mean_ttft_ms"], found["mean_response_ttft_ms"], found["mean_response_e2el_ms"], found["mean_queue_delay_ms"]) == (
        100,
        140,
        240,
        40,
    )
    assert (found["planned_rate"], found["sent_rate"], found["request_rate"], found["open_loop"]) == (10, 10, 10.0, True)
    assert not any("response" in key for key in document(records))


def test_outcomes_and_sources(reply: Any) -> None:
    records = [reply(0, tokens=[1, 2]), reply(1, status="failed", reason="reset", error="reset by peer"), reply(2, status="cancelled")]
    found = document(records, planned=4, dropped=1, client={"late": 0.5}, clock="kernel", notes=["n"])
    assert [found[key] for key in ("planned", "sent", "dropped", "completed", "failed", "cancelled")] == [4, 3, 1, 1, 1, 1]
    assert found["failures"] == {"reset": 1, "cancelled": 1} and found["failure_examples"]["reset"] == "reset by peer"
    assert (found["token_source"], found["itl_basis"], found["clock"], found["client"]) == ({"usage": 1}, "event", "kernel", {"late": 0.5})
    assert found["notes"] == ["n"] and any("cut off" in text for text in found["warnings"])


def test_arrays_have_one_entry_a_planned_request_in_plan_order(reply: Any) -> None:
    records = [
        reply(3, tokens=[400], streamed=False, output_tokens=7, text="whole"),
        reply(0, tokens=[100, 150, 200], prompt_tokens=33, cached_tokens=16, text="a", reasoning="r"),
        reply(1, tokens=[50, 60], prompt_tokens=33, status="failed", error="boom", text="part"),
    ]
    found = document(records, RunConfig(model="m", save_detailed=True), planned=4, dropped=1, input_texts=["p0", "p1", "p2", "p3"])
    assert {len(found[key]) for key in ARRAYS} == {4}
    assert found["ttfts"] == [0.1, None, None, None]
    assert found["itls"] == [[0.05, 0.05], None, None, []]
    assert found["output_lens"] == [3, None, None, 7]
    assert found["input_lens"] == [16, None, None, None] and found["infer_input_lens"] == [33, None, None, None]
    assert found["input_texts"] == ["p0", "p1", "p2", "p3"]
    assert found["generated_texts"] == ["a", "part", "", "whole"] and found["reasoning_contents"] == ["r", "", "", ""]
    assert found["errors"] == ["", "boom", NEVER_SENT, ""]
    assert not set(ARRAYS) & set(document(records, planned=4, dropped=1))


def test_a_failure_always_says_something(reply: Any) -> None:
    assert document([reply(0, status="failed")], RunConfig(model="m", save_detailed=True))["errors"] == ["failed"]


def test_gaps_per_token_where_running_usage_tells(reply: Any) -> None:
    record = reply(tokens=[100, 160, 220, 240], token_counts=[1, 2, 3, 1], output_tokens=7)
    found = document([record], RunConfig(model="m", save_detailed=True))
    assert found["itls"] == [pytest.approx([0.03, 0.03, 0.02, 0.02, 0.02, 0.02])] and found["itl_basis"] == "token"


def test_records_of_another_plan_are_refused(reply: Any) -> None:
    with pytest.raises(ValueError, match="plan of 1"):
        document([reply(5, tokens=[1])], RunConfig(model="m", save_detailed=True))


def test_no_secret_is_saved(reply: Any) -> None:
    config = RunConfig(model="m", header={"Authorization": "Bearer k-123"}, save_detailed=True)
    failed = reply(0, status="failed", reason="http 401", error="wrong key k-123")
    found = document([failed], config, command=["loadstone", "bench", "serve", "--header", "Authorization=Bearer k-123"], notes=["k-123"])
    assert "k-123" not in json.dumps(found)
    assert found["command"][:4] == ["loadstone", "bench", "serve", "--header"] and found["errors"] == ["wrong key ***"]


def test_text_that_utf8_cannot_hold_does_not_lose_the_file(reply: Any) -> None:
    found = document([reply(0, tokens=[1], text="x\ud83d")], RunConfig(model="m", save_detailed=True), input_texts=["\udc80"], notes=["\ud83c\udf0a"])
    assert (found["generated_texts"], found["input_texts"], found["notes"]) == (["x\ufffd"], ["\ufffd"], ["🌊"])


def test_every_key_is_reserved_and_documented(reply: Any) -> None:
    """Metadata may take no key of the result, and docs/result-file.md explains every one."""
    from loadstone.report.output import _FIGURE

    metrics = ("ttft", "s_ttft", "ttfot", "tpot", "itl", "icl", "s_itl", "e2el", "s_e2el", "s_decode", "input_len", "s_input_len", "output_len")
    config = RunConfig(
        model="m",
        save_detailed=True,
        percentile_metrics=metrics,
        metric_percentiles=("99.9",),
        ramp_up_strategy="linear",
        ramp_up_start_rps=1,
        ramp_up_end_rps=2,
    )
    page = (DOCS / "result-file.md").read_text()
    for key in document([reply(0, tokens=[1, 2], planned_ns=0)], config, open_loop=True):
        assert key in OWN_KEYS or _FIGURE.fullmatch(key), key
        assert f"`{key}`" in page or key not in OWN_KEYS, key
    for name in (*metrics, "response_ttft", "response_e2el", "queue_delay"):
        assert f"`{name}`" in page, name


def test_every_record_field_and_metric_is_documented() -> None:
    from loadstone.metrics.catalogue import METRICS
    from loadstone.records import RunHeader

    records_page, metrics_page = (DOCS / "records.md").read_text(), (DOCS / "metrics.md").read_text()
    for name in (*Record.__struct_fields__, *RunHeader.__struct_fields__):
        assert f"`{name}`" in records_page, name
    for name in METRICS:
        assert f"`{name}`" in metrics_page, name


def test_spans_of_the_server_by_hand(reply: Any) -> None:
    records = [reply(index, tokens=[10, 20], server_spans={"load": ms * MS, "s_ttft": MS}) for index, ms in enumerate((2, 4, 12))]
    records.append(reply(3, tokens=[10, 20]))
    found = document(records)
    assert found["server_spans"] == {
        "load": {"count": 3, "mean": 6.0, "median": 4.0, "std": pytest.approx(4.3205, abs=1e-4), "min": 2.0, "max": 12.0, "p99": 11.84}
    }
    assert document([reply(tokens=[10, 20])])["server_spans"] == {}
