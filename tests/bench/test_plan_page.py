"""What `loadstone plan` shows: numbers of a plan worked out by hand, and a page that fits a terminal."""

import json
from pathlib import Path

import numpy as np
import pytest

from loadstone.bench.plan_page import _bins, shared_prefix
from loadstone.cli.main import main

ROWS = [
    {"prompt": "abcd", "output_tokens": 3},
    {"prompt": "abXY", "output_tokens": 3},
    {"prompt": "zz", "output_tokens": 5},
]


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return str(path)


def plan(*words: str) -> int:
    return main(["plan", "--model", "m", "--dataset-name", "custom", *words])


def test_shared_prefix_is_what_an_endless_prefix_cache_would_know() -> None:
    assert shared_prefix([row["prompt"] for row in ROWS if isinstance(row["prompt"], str)]) == 2 / 10  # "ab" of ten characters, once
    assert shared_prefix(["same", "same", "same"]) == 8 / 12
    assert shared_prefix(["abc", "abd", "ab"]) == pytest.approx(4 / 8)
    assert shared_prefix([]) is None


def test_bins_of_whole_numbers_are_whole_and_hold_every_value() -> None:
    bins = _bins(np.array([1, 1, 2, 12]))
    assert [count for count, _, _ in bins] == [3, 0, 0, 0, 0, 1]
    assert bins[0] == (3, 1, 2) and bins[-1] == (1, 11, 12)


def test_figures_as_json(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--dataset-path", rows, "--num-prompts", "3", "--load", "1/s for 60s", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["requests"], found["output_tokens"], found["models"]) == (3, 11, {"m": 3})
    assert found["shared_prefix"] == 0.2
    assert found["prompt_tokens"] is None  # nobody counted


def test_page_fits_a_terminal_and_sends_nothing(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("--dataset-path", rows, "--num-prompts", "3", "--max-concurrency", "2", "--port", "1") == 0
    printed = capsys.readouterr().out
    assert "3 requests for backend openai-chat, data set custom, seed 0." in printed
    assert "11 at most" in printed
    assert "closed loop, at most 2 in flight" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_same_flags_write_the_same_file(rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one.plan", "two.plan"):
        assert plan("--dataset-path", rows, "--num-prompts", "7", "--request-rate", "10", "--out", str(tmp_path / name)) == 0
    assert (tmp_path / "one.plan").read_bytes() == (tmp_path / "two.plan").read_bytes()
    assert not list(tmp_path.glob("*.partial"))


def test_a_plan_file_needs_a_model(rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--dataset-name", "custom", "--dataset-path", rows, "--out", str(tmp_path / "x")]) == 2
    assert "--out needs --model" in capsys.readouterr().err
