"""The command line as a whole: exit codes, what a failure prints, start-up, completion."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import loadstone.bench.serve
from loadstone import __version__
from loadstone.cli.main import COMMANDS, build_parser, main
from loadstone.errors import LoadstoneError, NotReadyError, UsageError

SERVE = ["bench", "serve"]


def raising(error: BaseException) -> object:
    def serve(config: object, command: object) -> int:
        raise error

    return serve


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("no rows in a.json"), 2, "loadstone: error: no rows in a.json\n"),
        (LoadstoneError("full"), 2, "loadstone: error: full\n"),
        (NotReadyError("nobody answers"), 3, "loadstone: error: nobody answers\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            ValueError("two\nlines"),
            70,
            "loadstone: error: unexpected ValueError: two lines; run again with --debug for the traceback\n",
        ),
    ],
)
def test_exit_codes(error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(loadstone.bench.serve, "serve", raising(error))
    assert main(SERVE) == code
    assert capsys.readouterr().err == said


def test_debug_shows_an_unexpected_error_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadstone.bench.serve, "serve", raising(ValueError("inner")))
    with pytest.raises(ValueError, match="inner"):
        main([*SERVE, "--debug"])


def test_every_command_takes_debug() -> None:
    parser = build_parser(tuple(COMMANDS))
    for words in (SERVE, ["simulate"], ["demo"], ["completion", "bash"]):
        assert parser.parse_args([*words, "--debug"]).debug is True


@pytest.mark.parametrize("words", [["--help"], ["bench", "--help"], ["bench", "serve", "--help"], ["simulate", "--help"], ["demo", "--help"]])
def test_help_fits_eighty_columns(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines and max(map(len, lines)) <= 80


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"loadstone {__version__}\n"


@pytest.mark.parametrize("words", [[], ["bench"]])
def test_no_command_is_answered_with_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "COMMAND" in capsys.readouterr().out


def test_an_unknown_command_is_named_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bnch"]) == 2
    assert "invalid choice: 'bnch'" in (said := capsys.readouterr().err)
    assert all(name in said for name in COMMANDS)


def python(*words: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **(environment or {})}
    )


@pytest.mark.parametrize("words", ["--help", "--version", "bench --help", "bench serve --help", "demo --help"])
def test_startup_imports_nothing_heavy(words: str) -> None:
    script = f"import sys; from loadstone.cli.main import main; main({words.split()!r}); print('LOADED', *sys.modules)"
    loaded = python("-c", script).stdout.rpartition("LOADED")[2].split()
    assert "loadstone.cli.main" in loaded
    assert not {"numpy", "msgspec", "asyncio", "rich", "yaml", "uvloop", "argcomplete", "socket", "loadstone.config"} & set(loaded)


def test_it_runs_as_a_module() -> None:
    done = python("-m", "loadstone", "bench", "serve", "--num-prompts", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "loadstone: error: --num-prompts must be at least 1, not 0 (or give --duration)\n"


def test_a_closed_pipe_is_silent() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "loadstone", "completion", "bash"], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("loadstone ", {"bench", "simulate", "demo", "completion"}),
        ("loadstone bench serve --random-in", {"--random-input-len"}),
        ("loadstone bench serve --backend open", {"openai", "openai-chat"}),
        ("loadstone bench serve --dataset-name E", {"EB", "EBChat"}),
        ("loadstone bench serve --ramp-up-strategy ", {"linear", "exponential"}),
        ("loadstone completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_completion(line: str, offered: set[str], tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    environment = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
    }
    python("-m", "loadstone", environment=environment)
    assert offered <= {word.strip() for word in answer.read_text().split("\n")}


@pytest.mark.parametrize(("shell", "sign"), [("bash", "complete "), ("zsh", "compdef"), ("fish", "complete --command loadstone")])
def test_completion_code(shell: str, sign: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert sign in (code := capsys.readouterr().out) and "loadstone" in code
