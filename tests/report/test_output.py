"""Where the result goes: names, the check before the load, appending, atomic writing and the fallback."""

import json
import os
import resource
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.config import RunConfig
from loadstone.errors import LoadstoneError, UsageError
from loadstone.report import output
from loadstone.report.output import encode, prepare_output, result_name, unused_output, write_result

DATE = datetime(2026, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "openai-chat-infqps-Llama-3.1-8B-20260102-030405.json"),
        ({"label": "try", "request_rate": 10.0}, "try-10.0qps-Llama-3.1-8B-20260102-030405.json"),
        ({"max_concurrency": 64}, "openai-chat-infqps-concurrency64-Llama-3.1-8B-20260102-030405.json"),
        ({"model": "/models/qwen/"}, "openai-chat-infqps-qwen-20260102-030405.json"),
        ({"label": "a/b"}, "a_b-infqps-Llama-3.1-8B-20260102-030405.json"),
        (
            {"ramp_up_strategy": "linear", "ramp_up_start_rps": 1.0, "ramp_up_end_rps": 9.5, "max_concurrency": 8},
            "openai-chat-ramp-up-linear-1qps-9.5qps-concurrency8-Llama-3.1-8B-20260102-030405.json",
        ),
    ],
)
def test_default_name(fields: dict[str, Any], name: str) -> None:
    assert result_name(RunConfig(**{"model": "meta/Llama-3.1-8B", **fields}), DATE) == name


def prepare(**fields: Any) -> Path | None:
    return prepare_output(RunConfig(model="m", **fields), DATE)


def test_nothing_to_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert prepare(result_dir="out") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("switch", ["save_result", "save_detailed", "append_result"])
def test_folders_are_made_before_the_load_and_nothing_else(switch: str, tmp_path: Path) -> None:
    path = prepare(result_dir=str(tmp_path / "out/new/deep"), result_filename="sub/run.json", **{switch: True})
    assert path == tmp_path / "out/new/deep/sub/run.json"
    assert path.parent.is_dir() and list(path.parent.iterdir()) == []


def test_the_check_leaves_an_old_result_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"old": 1}\n')
    prepare(save_result=True, result_dir=str(tmp_path), result_filename="run.json")
    assert (tmp_path / "run.json").read_text() == '{"old": 1}\n' and len(list(tmp_path.iterdir())) == 1


def test_places_that_cannot_be_written_are_refused_before_the_load(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for fields in (
        {"save_result": True, "result_dir": str(tmp_path / "file")},
        {"save_result": True, "result_dir": "/proc/none"},
        {"save_result": True, "result_filename": str(tmp_path)},
        {"save_result": True, "result_dir": str(tmp_path), "result_filename": "x" * 300},
        {"records": str(tmp_path / "file" / "r.jsonl")},
        {"records": str(tmp_path)},
    ):
        with pytest.raises(UsageError, match="--re"):
            prepare(**fields)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        prepare(save_result=True, result_dir=str(tmp_path))


@pytest.mark.parametrize("key", ["duration", "mean_ttft_ms", "p99.9_itl_ms", "errors", "ci_p99_response_ttft_ms", "n_s_itl", "median_s_input_len"])
def test_metadata_never_hides_a_measured_number(key: str) -> None:
    with pytest.raises(UsageError, match="--metadata"):
        prepare(metadata={key: "1"})


def test_other_metadata_is_welcome() -> None:
    assert prepare(metadata={"tensor_parallel_size": "8", "version": "1", "mean": "x", "gpu": "H100"}) is None


def test_appending_makes_json_lines(tmp_path: Path) -> None:
    """Two runs into a file that holds one record without a newline: three lines, the first unchanged."""
    path = tmp_path / "out.jsonl"
    path.write_text('{"first": 1}')
    for number in (2, 3):
        assert prepare(append_result=True, result_dir=str(tmp_path), result_filename="out.jsonl") == path
        assert write_result(path, {"number": number}, append=True) == path
    text = path.read_text()
    assert text.startswith('{"first": 1}\n') and text.endswith("\n")
    assert [json.loads(line) for line in text.splitlines()] == [{"first": 1}, {"number": 2}, {"number": 3}]


def test_a_saved_result_can_be_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_result(path, {"a": {"b": [1]}})
    write_result(path, {"a": 2}, append=True)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"a": {"b": [1]}}, {"a": 2}]


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit on the size of files here")
def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for half of it. The file is as it was, and nothing is lost: the result is somewhere else."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "out.jsonl"
    path.write_text('{"first": 1}')
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(LoadstoneError, match="could not be written"):
            write_result(path, {"text": "x" * 2000}, append=True)
        left = path.read_text()
        written = write_result(path, {"text": "x" * 200}, append=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert left == '{"first": 1}' and written == path
    assert [len(line) for line in path.read_text().splitlines()] == [12, 211]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"result_filename": "out.json"}, "--result-filename has no effect: --save-result"),
        ({"label": "a", "result_dir": "x", "metadata": {"a": "b"}}, "--result-dir and --label and --metadata"),
        ({"label": "a", "junit": "j.xml"}, ""),
        ({"label": "a", "append_result": True}, ""),
        ({}, ""),
    ],
)
def test_names_of_a_file_that_is_not_written_are_noted(fields: dict[str, Any], says: str) -> None:
    notes = unused_output(RunConfig(model="m", **fields))
    assert bool(notes) == bool(says) and all(says in note for note in notes)


def test_appending_to_something_else_is_refused_before_the_load(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text('{\n  "indented": 1\n}\n')
    with pytest.raises(UsageError, match="line 1"):
        prepare(append_result=True, result_dir=str(tmp_path), result_filename="out.json")


def test_a_result_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_result(path, {"long": "x" * 1000})
    assert write_result(path, {"new": 1}) == path
    assert path.read_text() == '{"new":1}\n' and len(list(tmp_path.iterdir())) == 1


def test_a_failed_write_leaves_the_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    write_result(path, {"old": 1})
    monkeypatch.chdir(tmp_path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(output.LoadstoneError, match="No space left"):
        patch.setattr(os, "fsync", full)
        write_result(path, {"new": 1})
    assert path.read_text() == '{"old":1}\n' and len(list(tmp_path.iterdir())) == 1


def test_a_place_gone_during_the_run_does_not_lose_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").write_text("now a file")
    monkeypatch.chdir(tmp_path)
    spare = write_result(tmp_path / "gone" / "run.json", {"number": 1})
    assert spare.parent == tmp_path and json.loads(spare.read_text()) == {"number": 1}


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.json").symlink_to(tmp_path / "real" / "run.json")
    write_result(tmp_path / "link.json", {"a": 1})
    assert (tmp_path / "link.json").is_symlink() and (tmp_path / "real" / "run.json").read_text() == '{"a":1}\n'
    assert prepare(save_result=True, result_filename="/dev/null") == write_result(Path("/dev/null"), {"a": 1}) == Path("/dev/null")
    assert not Path("/dev/null").is_file()


def test_strict_json_of_anything_numpy() -> None:
    found = encode({"nan": float("nan"), "inf": np.float64("inf"), "int": np.int64(3), "array": np.array([1.5, np.nan]), "text": "NaN Infinity"})
    assert json.loads(found) == {"nan": None, "inf": None, "int": 3, "array": [1.5, None], "text": "NaN Infinity"}
    assert b"\n" not in found
