"""`bench serve` from the command line: flags, file, what the run is given, and what a person reads when it cannot be."""

from pathlib import Path
from typing import Any

import pytest

import loadstone.bench.serve
from loadstone.cli.main import main
from loadstone.config import RunConfig


class Runs(list[tuple[RunConfig, list[str]]]):
    """What the run was given, instead of running it."""

    def __call__(self, config: RunConfig, command: list[str]) -> int:
        self.append((config, command))
        return 0


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    runs = Runs()
    monkeypatch.setattr(loadstone.bench.serve, "serve", runs)
    return runs


def serve(*words: Any) -> int:
    return main(["bench", "serve", *map(str, words)])


def test_the_run_gets_the_configuration_and_the_command_without_secrets(runs: Runs) -> None:
    assert serve("--num-prompts", 3, "--header", "Authorization=Bearer k-1", "--base-url", "http://me:k-2@h:1") == 0
    [(config, command)] = runs
    assert config.num_prompts == 3 and config.header == {"Authorization": "Bearer k-1"}
    assert " ".join(command) == "loadstone bench serve --num-prompts 3 --header Authorization=*** --base-url http://***@h:1"


def test_the_exit_code_is_the_runs(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    for code in (0, 1, 99, 130):
        monkeypatch.setattr(loadstone.bench.serve, "serve", lambda config, command, code=code: code)
        assert serve() == code


def test_flags_may_be_written_with_underscores(runs: Runs) -> None:
    assert serve("--dataset_name", "custom", "--num_prompts=4", "--metadata", "a_b=c_d") == 0
    config = runs[0][0]
    assert (config.dataset_name, config.num_prompts, config.metadata) == ("custom", 4, {"a_b": "c_d"})


def test_a_file_gives_values_and_flags_win(runs: Runs, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        "# a run\nmodel: m\nnum-prompts: 50\nrequest_rate: 4\nsave-result: true\n"
        "goodput:\n  ttft: 200\nheader:\n  X-A: '1'\nmetric-percentiles: 50,99.9\n"
    )
    assert serve("--config", file, "--num-prompts", 60, "--goodput", "tpot:50") == 0
    config = runs[0][0]
    assert (config.model, config.num_prompts, config.request_rate, config.save_result) == ("m", 60, 4.0, True)
    assert config.goodput == {"tpot": 50.0}
    assert config.header == {"X-A": "1"}
    assert config.metric_percentiles == ("50", "99.9")


def test_an_empty_file_gives_nothing(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("")
    assert serve("--config", tmp_path / "run.yaml") == 0
    assert runs[0][0] == RunConfig()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("num-promts: 3\n", "run.yaml: 'num-promts' is no flag of bench serve (did you mean num-prompts?)"),
        ("num-prompts: many\n", "run.yaml: num-prompts: expected `int`, got `str`"),
        ("num-prompts: 3\nnum-prompts: 4\n", "'num-prompts' stands twice"),
        ("num-prompts: 0\n", "--num-prompts must be at least 1, not 0"),
        ("- 3\n", "run.yaml must hold a mapping of names to values, not a list"),
        ("a: [\n", "run.yaml cannot be read as YAML"),
        (None, "run.yaml: No such file or directory"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(runs: Runs, tmp_path: Path, text: str | None, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.yaml"
    if text is not None:
        file.write_text(text)
    assert serve("--config", file) == 2
    assert said in capsys.readouterr().err
    assert runs == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--num-promts 3", "unknown flag --num-promts (did you mean --num-prompts?) (see loadstone bench serve --help)"),
        ("--num-prompt 3", "unknown flag --num-prompt (did you mean --num-prompts?)"),  # never abbreviated
        ("--num-prompts x", "--num-prompts: invalid int value: 'x'"),
        ("--num-prompts", "--num-prompts: expected one argument"),
        ("--num-prompts 0", "--num-prompts must be at least 1, not 0"),
        ("--request-rate nan", "--request-rate must be above 0"),
        ("--request-rate -1", "--request-rate must be above 0 (requests per second), or inf to send all at once, not -1.0"),
        ("--max-concurrency 0", "--max-concurrency must be at least 1, not 0"),
        ("--max-concurrency -1", "--max-concurrency must be at least 1, not -1"),
        ("--goodput ttfb:200", "--goodput 'ttfb': there is no such metric; choose from ttft, tpot, itl, e2el"),
        ("--ramp-up-strategy linear --ramp-up-start-rps 1", "--ramp-up-strategy linear needs both"),
        ("--base-url localhost:8000", "--base-url 'localhost:8000' must start with http:// or https://"),
        ("--extra-body {a}", "--extra-body is not JSON"),
        ("--header k-123", "--header: value number 1 (not shown: it may be a secret) is not KEY=VALUE"),
        ("--header Authorization=Bearer k-123", "value number 2 (not shown"),
        ("--seed 1 k-123", "'***' belongs to no flag"),
    ],
)
def test_wrong_flags_are_one_line_and_exit_code_2(runs: Runs, words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(*words.split()) == 2
    output = capsys.readouterr()
    assert output.err.startswith("loadstone: error: ") and said in output.err
    assert output.err.count("\n") == 1 and output.out == ""
    assert "k-123" not in output.err
    assert runs == []
