"""A decoder that is killed, or stopped, in the middle of a run: every request is in the result exactly once all the same."""

import functools
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone import Result, RunConfig, run
from loadstone.bench import decoder, decoding
from loadstone.bench.children import Child
from loadstone.bench.processes import Processes
from loadstone.bench.redecode import redecode
from loadstone.bench.serve import exit_code
from loadstone.engine.counters import Count, Decoded
from loadstone.engine.exchange import Exchange
from loadstone.engine.settings import Phase
from loadstone.records import Record, read_records
from support.scripted import Request, Scripted, stream

WORDS = ["one", " two", " three"]
REQUESTS = 120
PATIENCE_S = 30.0


class Handle:
    """The processes of the run under test, and what is done to its decoder."""

    def __init__(self) -> None:
        self.decoders: list[Child] = []
        self.processes: Processes | None = None

    def wait(self, until: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not until():
            assert time.monotonic() < end
            time.sleep(0.005)

    def decoded(self) -> int:
        assert self.processes is not None
        row = self.processes.counters.row(0)
        return row[Decoded.COMPLETED] + row[Decoded.FAILED]

    def signal_number(self, which: int, number: int, records: int = 1) -> None:
        """Send the `which`-th decoder a signal, once it has made so many records of the run (those of decoders before it included)."""
        self.wait(lambda: len(self.decoders) == which + 1 and self.decoded() >= records)
        os.kill(self.decoders[which].pid, number)


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Handle:
    """Segments of a few replies each, so that some are gone before the decoder dies."""
    found = Handle()
    born, made = Child.__init__, Processes.__init__

    def child(self: Child, module: str) -> None:
        born(self, module)
        if module.endswith("decoder"):
            found.decoders.append(self)

    def processes(self: Processes, *arguments: Any) -> None:
        found.processes = self
        made(self, *arguments)

    monkeypatch.setattr(Child, "__init__", child)
    monkeypatch.setattr(Processes, "__init__", processes)
    monkeypatch.setattr("loadstone.bench.run.Phase", functools.partial(Phase, segment_bytes=5000))
    return found


def config(server: Scripted, **fields: Any) -> RunConfig:
    chosen: dict[str, Any] = {"model": "m", "random_input_len": 8, "random_output_len": 3, "ready_check_timeout_sec": 0, "base_url": server.url}
    number = {} if "duration" in fields else {"num_prompts": REQUESTS}
    return RunConfig.from_mapping({**chosen, **number, "max_concurrency": 4, **fields})


def at(acts: dict[int, Callable[[], None]]) -> Callable[[socket.socket, Request], bool]:
    """Streams three words; some requests do something first, while nobody else is answered."""
    lock = threading.Lock()

    def play(connection: socket.socket, request: Request) -> bool:
        with lock:
            if act := acts.pop(request.number, None):
                act()
        return stream(WORDS)(connection, request)

    return play


def check_whole(result: Result) -> None:
    """All requests, each once, each with its three tokens; and the counts add up."""
    assert result.records.index.tolist() == list(range(REQUESTS))
    assert set(result.records.status) == {"completed"} and set(np.diff(result.records.token_rows).tolist()) == {3}
    summary = result.summary
    assert summary.planned == summary.sent == summary.completed == REQUESTS and summary.failed == summary.dropped == 0
    assert (result.records.first_token_ns >= result.records.sent_ns).all()


def check_file(path: Path, result: Result) -> None:
    """Each request on one whole line, and as it is in the result."""
    assert path.read_bytes().endswith(b"\n")
    _, records = read_records(path)
    assert sorted(record.index for record in records) == result.records.index.tolist()
    for record in records:
        assert record.status == result.records.status[record.index] and record.sent_ns == result.records.sent_ns[record.index]
        assert record.request_id == f"benchmark-serving{record.index}" and record.model == "m"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kept", [False, True])
def test_a_killed_decoder_costs_nothing(handle: Handle, tmp_path: Path, workers: int, kept: bool) -> None:
    path, wire = tmp_path / "r.jsonl", tmp_path / "wire"
    acts = {
        40: lambda: handle.signal_number(0, signal.SIGKILL, 20),
        90: lambda: handle.signal_number(1, signal.SIGKILL, 60),
    }
    with Scripted(at(acts)) as server:
        result = run(config(server, workers=workers, records=str(path), keep_wire=str(wire) if kept else None))
    assert not acts
    check_whole(result)
    check_file(path, result)
    (note,) = (note for note in result.summary.notes if "decoder process died" in note)
    assert "2 times (2 x ended by SIGKILL" in note and "nothing is lost" in note
    assert exit_code(result) == 0 and result.summary.client["decoder_died"] is False
    if kept:
        assert sorted(each.name for each in wire.iterdir()) == ["plan", "run.json", "spool"]
        assert {each.suffix for each in (wire / "spool").iterdir() if each.name != "next"} == {".gz"}
        (tmp_path / "scratch").mkdir()
        again = redecode(wire, tmp_path / "scratch", {})
        check_whole(again)
        assert np.array_equal(again.records.token_ns, result.records.token_ns) and np.array_equal(again.records.end_ns, result.records.end_ns)


def test_a_decoder_that_dies_before_its_first_record(handle: Handle, tmp_path: Path) -> None:
    """And leaves the file of an older run where its own was to be."""
    path = tmp_path / "r.jsonl"
    path.write_text('{"schema":"loadstone.records/1"}\n{"index":3}\n')
    with Scripted(at({0: lambda: handle.signal_number(0, signal.SIGKILL, 0)})) as server:
        result = run(config(server, records=str(path)))
    check_whole(result)
    check_file(path, result)


def test_the_live_counters_are_those_of_the_records(handle: Handle) -> None:
    with Scripted(at({60: lambda: handle.signal_number(0, signal.SIGKILL, 30)})) as server:
        check_whole(run(config(server)))
    assert handle.processes is not None and handle.decoded() == REQUESTS
    counters = handle.processes.counters
    assert counters.row(0)[Decoded.OUTPUT_TOKENS] == 3 * REQUESTS
    assert counters.total(Count.DECODED_BYTES) == counters.total(Count.SPOOLED_BYTES)


def test_a_repeated_plan_goes_on_counting(handle: Handle) -> None:
    """For a duration, with a plan of five requests: indices go on beyond it."""
    with Scripted(at({40: lambda: handle.signal_number(0, signal.SIGKILL, 20)})) as server:
        result = run(config(server, duration=1.5, max_concurrency=2))
    sent = result.summary.sent
    assert sent == result.summary.completed == len(server.seen) > 40
    assert result.records.index.tolist() == list(range(sent))


def kill_all(handle: Handle) -> dict[int, Callable[[], None]]:
    """The acts that kill three decoders, one after the other."""
    return {number: functools.partial(handle.signal_number, which, signal.SIGKILL, 20) for which, number in enumerate((40, 50, 60))}


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_decoder_that_goes_on_dying_is_given_up_and_the_sums_hold(
    handle: Handle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, kept: bool
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path, wire = tmp_path / "r.jsonl", tmp_path / "wire"
    with Scripted(at(kill_all(handle))) as server:
        result = run(config(server, workers=workers, records=str(path), keep_wire=str(wire) if kept else None))
    summary = result.summary
    assert summary.planned == REQUESTS == summary.sent + summary.dropped
    assert summary.sent == len(server.seen) == summary.completed + summary.failed + summary.cancelled
    assert summary.failures == {"decoder died": summary.failed} and summary.failed >= 1
    lost = np.array([status == "failed" for status in result.records.status])
    assert (result.records.sent_ns[lost] > 0).all() and (result.records.end_ns[lost] > result.records.sent_ns[lost]).all()
    sent = {int(request.headers["x-request-id"].removeprefix("benchmark-serving")) for request in server.seen}
    assert set(result.records.index.tolist()) == sent
    check_file(path, result)
    assert result.stopped == "decoder died" and exit_code(result) == 70
    assert "decoder process died" in summary.client["verdict"]
    (note,) = (note for note in summary.notes if "loadstone decode" in note)
    folder = Path(note.split("`loadstone decode ")[1].split("`")[0])
    assert folder == wire if kept else folder.parent == tmp_path
    assert sorted(each.name for each in folder.iterdir()) == ["plan", "run.json", "spool"]
    (tmp_path / "scratch").mkdir()
    again = redecode(folder, tmp_path / "scratch", {})
    assert set(again.records.status) == {"completed"} and set(result.records.index[lost].tolist()) <= set(again.records.index.tolist())
    assert not any("counted as failed" in note for note in again.summary.notes)
    if kept:
        assert again.records.index.tolist() == sorted(sent)


def test_a_decoder_that_is_stopped_is_told_to_go_on(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGSTOP, near the end of the run: it neither hangs nor loses anything."""
    monkeypatch.setattr(decoding, "ASK_S", 0.3)
    with Scripted(at({REQUESTS - 5: lambda: handle.signal_number(0, signal.SIGSTOP, 20)})) as server:
        result = run(config(server))
    check_whole(result)
    assert len(handle.decoders) == 1


def test_a_decoder_that_stands_still_all_the_same_is_replaced(handle: Handle, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGCONT is kept from it, as it would be from a process that is stuck or traced."""
    monkeypatch.setattr(decoding, "ASK_S", 0.3)
    monkeypatch.setattr(decoding, "STUCK_S", 0.3)
    monkeypatch.setattr("loadstone.bench.decoding.wake", lambda _pid: None)
    with Scripted(at({REQUESTS - 5: lambda: handle.signal_number(0, signal.SIGSTOP, 20)})) as server:
        result = run(config(server))
    check_whole(result)
    assert len(handle.decoders) == 2


def test_a_reply_that_shows_a_fault_of_ours_is_one_failed_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder's code is this test's own here, forked from it: it fails on one reply."""
    real = decoder.decode

    def decode(exchange: Exchange, *arguments: Any, **named: Any) -> Record:
        if exchange.index == 7:
            raise IndexError("list index out of range")
        return real(exchange, *arguments, **named)

    monkeypatch.setattr(decoder, "decode", decode)
    monkeypatch.setattr("loadstone.bench.children._may_fork", lambda: True)
    with Scripted(stream(WORDS)) as server:
        result = run(config(server))
    assert result.summary.failures == {"decoder fault": 1} and result.summary.completed == REQUESTS - 1
    assert result.records.error[7].endswith("IndexError: list index out of range") and result.records.sent_ns[7] > 0
