"""Whole runs against servers that reply as real ones do (tests/cases): what the records say, against the right values and the server's own clock."""

from pathlib import Path
from typing import Any

import pytest

from loadstone import RunConfig, run
from loadstone.records import ABSENT, FAILED, Records
from support.replay import Replay, cases

TOLERANCE_MS = 25.0
ALL = cases()


def config_of(case: dict[str, Any], folder: Path, port: int) -> RunConfig:
    asked = case["expect"].get("run", {"requests": 1})["requests"]
    prompts = folder / "prompts.jsonl"
    prompts.write_text('{"prompt": "Say something."}\n' * asked)
    return RunConfig(
        backend=case["backend"],
        port=port,
        model="m",
        dataset_name="custom",
        dataset_path=str(prompts),
        custom_output_len=case["request"].get("max_tokens", 64),
        num_prompts=asked,
        max_concurrency=1,
        ready_check_timeout_sec=0,
        request_timeout=case["request"].get("timeout_s", 20),
        extra_body=case["request"].get("extra_body", {}),
        save_detailed=True,
    )


@pytest.mark.parametrize("case", ALL, ids=[case["id"] for case in ALL])
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    expect = case["expect"]
    asked = expect.get("run", {"requests": 1})
    with Replay(case) as server:
        result = run(config_of(case, tmp_path, server.port))
        if "requests_seen" in expect:
            assert len(server.seen) == expect["requests_seen"]
    records = result.records
    assert result.summary.completed == (asked.get("successes", asked["requests"]) if expect["success"] else 0), records.error
    if not expect["success"]:
        assert records.status[0] == FAILED
        wanted = expect.get("error_contains_any") or [expect.get("error_contains", "")]
        assert any(word.lower() in records.error[0].lower() for word in wanted), records.error[0]
        assert result.summary.total_output_tokens == 0 and result.summary.distributions["ttft"].count == 0
        return
    if expect.get("generated_text") is not None and "reasoning_text" not in expect:
        assert records.text[0] == expect["generated_text"]
    if "generated_text_len" in expect:
        assert len(records.text[0] or "") == expect["generated_text_len"]
    if expect.get("output_tokens") is not None:
        assert records.output_tokens[0] == expect["output_tokens"]
    if expect.get("prompt_tokens") is not None:
        assert records.prompt_tokens[0] == expect["prompt_tokens"]
    check_times(expect, records, server)


def check_times(expect: dict[str, Any], records: Records, server: Replay) -> None:
    def close(time_ns: int, planned_ms: float) -> None:
        assert abs(time_ns - server.real_ns(planned_ms)) / 1e6 < expect.get("tol_ms", TOLERANCE_MS)

    assert records.sent_ns[0] <= server.seen[0].read_ns

    if "ttft_ms" in expect:
        if expect["ttft_ms"] is None:
            assert records.first_token_ns[0] == ABSENT
        else:
            close(int(records.first_token_ns[0]), expect["ttft_ms"])
    if expect.get("itl_ms") and expect.get("ttft_ms") is not None:
        offsets = records.token_ns[records.token_rows[0] : records.token_rows[1]]
        at = expect["ttft_ms"]
        assert len(offsets) == len(expect["itl_ms"]) + 1
        for offset, gap in zip(offsets[1:], expect["itl_ms"], strict=True):
            at += gap
            close(int(records.sent_ns[0] + offset), at)
