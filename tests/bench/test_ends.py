"""Runs that end before their plan does: by a duration, by a rate of failures; and the bytes that a run keeps."""

import gzip
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone import Result, RunConfig, run
from loadstone.bench.redecode import redecode
from loadstone.bench.serve import exit_code
from loadstone.errors import UsageError
from loadstone.records import CANCELLED, COMPLETED
from support.scripted import LAST_CHUNK, STREAM_HEAD, Request, Scripted, chat_events, chunk, document, stream

WORDS = ["one", " two", " three"]


def config(server: Scripted, **fields: Any) -> RunConfig:
    chosen: dict[str, Any] = {"model": "m", "random_input_len": 8, "random_output_len": 3, "ready_check_timeout_sec": 0, "base_url": server.url}
    return RunConfig.from_mapping(chosen | fields)


def test_a_closed_loop_for_a_time() -> None:
    with Scripted(stream(WORDS, gap_s=0.001)) as server:
        result = run(config(server, duration=0.5, max_concurrency=2))
    summary = result.summary
    assert summary.sent == summary.planned == summary.completed > 10
    assert (result.records.sent_ns - result.records.sent_ns.min()).max() < 0.5e9
    assert result.config.num_prompts == summary.sent
    assert exit_code(result) == 0


def test_an_open_loop_for_a_time_plans_what_is_due_in_it() -> None:
    with Scripted(stream(WORDS)) as server:
        result = run(config(server, duration=0.5, request_rate=100))
        longer = run(config(server, duration=0.6, request_rate=100, num_prompts=10))
    assert result.summary.planned == result.summary.completed
    assert 20 < result.summary.planned < 90  # 50 expected, Poisson
    offsets = result.records.planned_ns - result.records.planned_ns[0]
    assert np.array_equal(longer.records.planned_ns - longer.records.planned_ns[0], offsets[:10])
    assert longer.summary.planned == 10


def test_requests_in_flight_get_a_grace_and_are_then_cancelled() -> None:
    release = threading.Event()

    def play(connection: socket.socket, _request: Request) -> bool:
        first, *rest = map(chunk, chat_events(WORDS))
        connection.sendall(STREAM_HEAD + first)
        release.wait(20)
        connection.sendall(b"".join(rest) + LAST_CHUNK)
        return True

    with Scripted(play) as server:
        result = run(config(server, duration=0.2, drain_grace=0.2, max_concurrency=3))
        release.set()
    assert (result.summary.sent, result.summary.cancelled) == (3, 3)
    assert set(result.records.status) == {CANCELLED}


def test_a_run_in_which_too_much_fails_is_given_up() -> None:
    def play(connection: socket.socket, request: Request) -> bool:
        time.sleep(0.01)
        if request.number % 2:
            return document("503 Busy", b"busy")(connection, request)
        return stream(WORDS)(connection, request)

    with Scripted(play) as server:
        result = run(config(server, num_prompts=5000, max_concurrency=4, max_error_rate=0.3))
        kept = run(config(server, num_prompts=60, max_concurrency=4, max_error_rate=0.9))
    assert result.stopped == "error rate" and exit_code(result) == 99
    assert 20 <= result.summary.sent < 5000
    assert result.summary.completed > 0 and result.summary.failed > 0
    assert kept.stopped == "" and kept.summary.sent == 60


def numbers(result: Result) -> dict[str, Any]:
    distributions = {name: (d.count, d.mean, d.percentiles) for name, d in result.summary.distributions.items()}
    return {"completed": result.summary.completed, "failed": result.summary.failed, **distributions}


def test_kept_bytes_give_the_same_numbers_again(tmp_path: Path) -> None:
    """And others, when others are asked for."""
    kept = tmp_path / "kept"

    def play(connection: socket.socket, request: Request) -> bool:
        if request.number == 3:
            return document("500 X", b"oops")(connection, request)
        return stream(WORDS, gap_s=0.001)(connection, request)

    with Scripted(play) as server:
        first = run(config(server, num_prompts=20, max_concurrency=4, keep_wire=str(kept), api_key="k-123", save_detailed=True))
    (tmp_path / "scratch").mkdir()
    again = redecode(kept, tmp_path / "scratch", {})
    assert numbers(again) == numbers(first)
    assert again.summary.client == first.summary.client
    assert np.array_equal(again.records.token_ns, first.records.token_ns)
    assert sorted(path.name for path in kept.iterdir()) == ["plan", "run.json", "spool"]
    assert all("k-123" not in path.read_text(errors="replace") for path in kept.rglob("*") if path.is_file())
    (tmp_path / "second").mkdir()
    changes = {"goodput": {"ttft": 1e9}, "metric_percentiles": ("50",), "records": str(tmp_path / "r.jsonl"), "save_detailed": True}
    other = redecode(kept, tmp_path / "second", changes)
    assert other.summary.goodput is not None and other.summary.goodput.good == 19
    assert list(other.records.text) == list(first.records.text) and other.input_texts == first.input_texts
    assert (tmp_path / "r.jsonl").read_text().count("\n") == 21


def test_a_run_that_was_killed_can_be_decoded(tmp_path: Path) -> None:
    """Without its last manifest, and with the last frame of its spool cut."""
    kept = tmp_path / "kept"
    with Scripted(stream(WORDS)) as server:
        run(config(server, num_prompts=12, max_concurrency=2, keep_wire=str(kept)))
    manifest = json.loads((kept / "run.json").read_text())
    manifest |= {"sent": None, "client": {}}
    (kept / "run.json").write_text(json.dumps(manifest))
    (packed,) = (kept / "spool").glob("*.gz")
    blob = gzip.decompress(packed.read_bytes())
    packed.unlink()
    packed.with_suffix("").write_bytes(blob[: blob.rindex(b"LSX1", 0, len(blob) - 40) + 50])
    (tmp_path / "scratch").mkdir()
    result = redecode(kept, tmp_path / "scratch", {})
    assert result.summary.completed == 11 and result.summary.dropped == 1
    assert set(result.records.status) == {COMPLETED}
    assert any("did not come to its end" in note for note in result.summary.notes)


def test_a_records_file_that_cannot_be_written_costs_no_result() -> None:
    """A full disk under --records: the numbers are there all the same, and the report says where the file ends."""
    with Scripted(stream(WORDS)) as server:
        result = run(config(server, num_prompts=5, max_concurrency=1, records="/dev/full"))
    assert result.summary.completed == 5
    assert any("--records: the file ends early" in note for note in result.summary.notes)


def test_a_folder_that_is_no_kept_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--keep-wire"):
        redecode(tmp_path, tmp_path, {})


def test_a_folder_that_holds_something_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with Scripted(stream(WORDS)) as server, pytest.raises(UsageError, match="not empty"):
        run(config(server, num_prompts=2, keep_wire=str(tmp_path)))
    assert not server.seen
