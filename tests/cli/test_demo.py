"""`loadstone demo`: what it runs is a configuration that can be, and what it prints of the engine's truth."""

import json
from pathlib import Path

import pytest

from loadstone.cli.demo import RUN, truth_line
from loadstone.cli.main import main
from loadstone.config import RunConfig


def test_its_run_can_be_and_lasts_about_fifteen_seconds() -> None:
    config = RunConfig.from_mapping(RUN)
    assert 10 <= config.num_prompts / config.request_rate <= 20


def test_truth_line() -> None:
    truth = {"ttft_ms": {"mean": 21.256}, "itl_ms": {"mean": 8.5}, "e2el_ms": None, "completed": 200}
    assert truth_line(truth) == "The simulated engine's own clock says, over 200 completed requests:\n  mean TTFT 21.26 ms, mean ITL 8.50 ms"
    nothing = {"ttft_ms": None, "itl_ms": None, "e2el_ms": None, "completed": 0}
    assert truth_line(nothing) == "The simulated engine's own clock says, over 0 completed requests:\n  no latency"


def test_it_runs_writes_its_result_and_agrees_with_the_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-123")  # a real key is not sent to the simulated engine, and not saved
    assert main(["demo", "--num-prompts", "15", "--result-dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "Serving Benchmark Result" in printed
    [file] = tmp_path.glob("demo-*.json")
    result = json.loads(file.read_text())
    assert result["completed"] == 15
    assert "k-123" not in file.read_text() + printed
    assert "over 15 completed requests" in printed
    truth_ms = float(printed.rpartition("mean TTFT ")[2].split()[0])
    assert result["mean_ttft_ms"] == pytest.approx(truth_ms, abs=50)  # other processes share the machine
