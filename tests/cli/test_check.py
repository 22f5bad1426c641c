"""`loadstone check`: whole checks of small loads, and what is refused."""

import json
from typing import Any

import pytest

from loadstone.bench import check as checks
from loadstone.cli.main import main

SMALL = ["check", "--concurrency", "8", "--duration", "0.5", "--tokens-per-second", "100", "--limit-ms", "10000"]


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize("clock", ["auto", "user"])
def test_a_small_load_is_checked_request_by_request(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, clock: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-123")
    monkeypatch.setattr(checks, "LATE_SHARE", 1000.0)  # however slow the machine is just now
    monkeypatch.setattr(checks, "BUSY_SHARE", 1000.0)
    monkeypatch.setattr(checks, "PACE_SHARE", 0.0)
    assert main([*SMALL, "--json", "--clock", clock]) == 0
    report = printed(capsys)
    assert report["verdict"] == "within"
    tokens = report["load"]["output_len"] or 12  # a quarter of 0.5 s at 100/s
    found = report["comparison"]
    assert report["completed"] == report["planned"] == found["matched"] == 8 * 4
    assert found["unmatched"] == 0
    assert report["token_events"] == found["every_token"]["count"] == 32 * tokens
    assert found["itl"]["count"] == 32 * (tokens - 1)
    assert found["sending"]["mean_us"] >= 0 and found["server_wait"]["mean_us"] >= 0
    for name in ("ttft", "itl", "e2el"):
        error_ms = report["measured_ms"][name]["mean"] - found["true_ms"][name]["mean"]
        assert error_ms == pytest.approx(found[name]["mean_us"] / 1e3, abs=1e-6)  # the report's figures and the records are of the same requests
    assert report["server"]["peak_streams"] <= 8


def test_an_open_loop_and_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", "--request-rate", "40", "--duration", "1", "--output-len", "4", "--limit-ms", "10000"])
    page = capsys.readouterr().out
    assert code in (0, 99)  # 99 when the machine is too busy for the simulated server
    assert "40 requests/s with 50 tokens/s each" in " ".join(page.split())
    assert "requests/s, as drawn" in page and "sent late, p99 (ms)" in page
    assert max(map(len, page.splitlines())) <= 80


def test_a_limit_that_nothing_meets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL[:-1], "0.0000001"]) == 99
    assert capsys.readouterr().out.lstrip().startswith(("Beyond:", "Undecided:"))


def test_find_stops_when_its_time_is_up(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*SMALL, "--find", "--json", "--budget-time", "0.1"])
    found = printed(capsys)
    assert (len(found["tried"]), found["stopped_by"]) == (1, "time")
    assert code == (0 if found["largest"] == 8 else 99)


@pytest.mark.parametrize(
    ("flags", "word"),
    [(["--concurrency", "0"], "--concurrency"), (["--find", "--request-rate", "4"], "--find"), (["--find", "--budget-time", "0"], "--budget-time")],
)
def test_what_cannot_be_is_refused(capsys: pytest.CaptureFixture[str], flags: list[str], word: str) -> None:
    assert main(["check", *flags]) == 2
    assert word in capsys.readouterr().err
