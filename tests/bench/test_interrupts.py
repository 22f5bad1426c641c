"""Interrupts and deaths: what was measured is reported and saved, nothing is left running."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from loadstone.records import CANCELLED, COMPLETED, read_records
from support.scripted import LAST_CHUNK, STREAM_HEAD, Request, Scripted, chat_events, chunk, document, stream

WORDS = ["a", " b"]


@contextlib.contextmanager
def command(folder: Path, server: Scripted, *flags: str) -> Iterator[subprocess.Popen[str]]:
    words = ["bench", "serve", "--base-url", server.url, "--model", "m", "--random-input-len", "4", "--random-output-len", "2"]
    words += ["--ready-check-timeout-sec", "0", "--result-dir", str(folder), "--result-filename", "r.json", "--save-result", *flags]
    with subprocess.Popen(
        [sys.executable, "-m", "loadstone", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    ) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()


def wait_until(true: object, timeout_s: float = 20.0) -> None:
    """Poll a condition of another process; fails after a time that no healthy run needs."""
    until = time.monotonic() + timeout_s
    while not true():  # type: ignore[operator]
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.01)


class Holding:
    """Answers the first `quick` requests at once; holds the others, their first token sent, until `release`."""

    def __init__(self, quick: int) -> None:
        self.quick, self.release, self.held = quick, threading.Event(), 0

    def __call__(self, connection: socket.socket, request: Request) -> bool:
        if request.number < self.quick:
            return stream(WORDS)(connection, request)
        first, *rest = map(chunk, chat_events(WORDS))
        connection.sendall(STREAM_HEAD + first)
        self.held += 1
        self.release.wait(30)
        connection.sendall(b"".join(rest) + LAST_CHUNK)
        return True


def test_the_first_interrupt_drains_and_reports(tmp_path: Path) -> None:
    script = Holding(quick=6)
    with Scripted(script) as server, command(tmp_path, server, "--num-prompts", "50", "--max-concurrency", "2") as child:
        wait_until(lambda: script.held == 2)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        while "interrupted" not in child.stderr.readline():
            pass
        script.release.set()
        out, _ = child.communicate(timeout=20)
    assert child.returncode == 130
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["completed"], result["cancelled"], result["dropped"]) == (8, 0, 42)
    assert "50 planned = 8 sent + 42 dropped" in out


def test_the_second_interrupt_ends_at_once_and_reports(tmp_path: Path) -> None:
    script = Holding(quick=6)
    records = tmp_path / "records.jsonl"
    with (
        Scripted(script) as server,
        command(tmp_path, server, "--num-prompts", "50", "--max-concurrency", "2", "--records", str(records), "--save-detailed") as child,
    ):
        wait_until(lambda: script.held == 2)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        while "interrupted" not in child.stderr.readline():
            pass
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
        script.release.set()
    assert child.returncode == 130
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["completed"], result["cancelled"], result["failed"], result["dropped"]) == (6, 2, 0, 42)
    assert "8 sent = 6 completed + 0 failed + 2 cancelled" in out
    assert len(result["errors"]) == 50
    _, found = read_records(records)
    assert sorted(record.status for record in found) == [CANCELLED] * 2 + [COMPLETED] * 6
    assert all(record.text == "a" and record.first_token_ns for record in found if record.status == CANCELLED)


def test_the_grace_ends(tmp_path: Path) -> None:
    script = Holding(quick=0)
    with Scripted(script) as server, command(tmp_path, server, "--num-prompts", "5", "--max-concurrency", "1", "--drain-grace", "0.2") as child:
        wait_until(lambda: script.held == 1)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=20)
        script.release.set()
    assert child.returncode == 130
    assert json.loads((tmp_path / "r.json").read_text())["cancelled"] == 1


def test_a_killed_run_leaves_its_records_and_no_process(tmp_path: Path) -> None:
    script = Holding(quick=6)
    records = tmp_path / "records.jsonl"
    with (
        Scripted(script) as server,
        command(tmp_path, server, "--num-prompts", "50", "--max-concurrency", "2", "--records", str(records), "--disable-tqdm") as child,
    ):
        wait_until(lambda: records.exists() and records.read_bytes().count(b'"completed"') == 6)
        children = [int(pid) for pid in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()]
        assert len(children) == 2  # a worker and the decoder
        child.kill()
        child.communicate(timeout=20)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
        script.release.set()
    _, found = read_records(records)
    assert len([record for record in found if record.status == COMPLETED]) == 6


def test_a_worker_that_dies_is_reported_with_what_it_had_sent(tmp_path: Path) -> None:
    script = Holding(quick=6)
    with Scripted(script) as server, command(tmp_path, server, "--num-prompts", "50", "--max-concurrency", "2") as child:
        wait_until(lambda: script.held == 2)
        children = [int(pid) for pid in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()]
        worker = max(children)  # started after the decoder
        os.kill(worker, signal.SIGKILL)
        out, _ = child.communicate(timeout=20)
        script.release.set()
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["completed"], result["failed"], result["dropped"]) == (6, 2, 42)
    assert result["failures"] == {"worker died": 2}
    said = " ".join(out.split())
    assert "a worker process died" in said and "1 of its 1 worker processes died" in said
    assert child.returncode == 70


def test_exit_code_when_nothing_succeeds(tmp_path: Path) -> None:
    with Scripted(document("500 X", b"no")) as server, command(tmp_path, server, "--num-prompts", "3") as child:
        out, _ = child.communicate(timeout=20)
    assert child.returncode == 1
    assert "Failed requests:                         3" in out
    assert json.loads((tmp_path / "r.json").read_text())["mean_ttft_ms"] is None


def test_debug_shows_bodies_and_replies(tmp_path: Path) -> None:
    with Scripted(stream(WORDS)) as server, command(tmp_path, server, "--num-prompts", "1", "--debug", "--header", "X-Key=k-9") as child:
        _, err = child.communicate(timeout=20)
    assert child.returncode == 0
    assert '"messages":' in err and "data: [DONE]" in err and "k-9" not in err


def test_an_interrupt_before_the_load_ends_it(tmp_path: Path) -> None:
    """In the ready check of a server that never answers."""
    asked = threading.Event()

    def play(connection: socket.socket, _request: Request) -> bool:
        asked.set()
        connection.recv(1)
        return False

    with Scripted(play) as server:
        words = ["bench", "serve", "--base-url", server.url, "--model", "m", "--num-prompts", "3"]
        with subprocess.Popen([sys.executable, "-m", "loadstone", *words], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert asked.wait(20)
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=20)
    assert child.returncode == 130
