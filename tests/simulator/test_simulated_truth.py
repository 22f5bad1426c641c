"""The server's truth against what a plain client sees with its own clock, and errors on demand."""

import json
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from loadstone.engine.clock import KERNEL_STAMPS
from loadstone.errors import LoadstoneError
from loadstone.simulator import Simulated, running


def request(index: int, **fields: Any) -> bytes:
    body = json.dumps({"messages": [{"role": "user", "content": "hello " * 20}], "max_tokens": 10, "stream": True, **fields}).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-request-id: r%d\r\ncontent-length: %d\r\n\r\n%b" % (index, len(body), body)


def exchange(port: int, index: int, **fields: Any) -> tuple[str, int, list[int], bytes]:
    """One request on a connection of its own: (how it ended, sent, stamps of reads with a token, all bytes)."""
    raw, stamps = b"", []
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sent_ns = time.monotonic_ns()
        sock.sendall(request(index, **fields))
        while True:
            try:
                data = sock.recv(65536)
            except ConnectionResetError:
                return "reset", sent_ns, stamps, raw
            now_ns = time.monotonic_ns()
            if not data:
                return "closed", sent_ns, stamps, raw
            raw += data
            if b'"content":" ' in data:
                stamps.append(now_ns)
            if raw.endswith(b"0\r\n\r\n") or (raw.startswith(b"HTTP/1.1 503") and raw.endswith(b"}}")):
                return "whole", sent_ns, stamps, raw


def test_the_truth_is_what_a_client_sees() -> None:
    with running(step_us=10_000, truth_sends=True) as server:
        seen = {f"r{index}": exchange(server.port, index) for index in range(5)}
        truth = server.truth(requests=True)
    assert truth["completed"] == truth["received"] == 5
    rows = {row["id"]: row for row in truth["requests"]}
    late_ms = []
    for name, (_, sent_ns, stamps, _) in seen.items():
        row = rows[name]
        if row["arrived_ns"] is not None:
            assert sent_ns - 100_000 <= row["arrived_ns"] <= row["read_ns"]  # two clocks tied together: to some microseconds
        assert sent_ns <= row["read_ns"] <= row["first_ns"] <= row["last_ns"]
        assert (row["send_ns"][0], row["send_ns"][-1], len(row["send_ns"]), row["tokens"]) == (row["first_ns"], row["last_ns"], 10, 10)
        if len(stamps) == 10:  # no two events came in one read
            late_ms += [(stamp - sent) / 1e6 for stamp, sent in zip(stamps, row["send_ns"], strict=True)]
    assert not KERNEL_STAMPS or rows["r4"]["arrived_ns"]  # the first after the option is set can come without one
    assert sorted(late_ms)[len(late_ms) // 2] < 5  # generous: a shared machine
    gaps = sorted(b - a for row in rows.values() for a, b in zip(row["send_ns"], row["send_ns"][1:], strict=False))
    assert truth["itl_ms"]["count"] == len(gaps) == 45
    assert truth["itl_ms"]["mean"] == pytest.approx(sum(gaps) / len(gaps) / 1e6, rel=1e-3)
    assert truth["itl_ms"]["p50"] == pytest.approx(gaps[22] / 1e6, abs=0.002)
    ttfts = [row["first_ns"] - row["read_ns"] for row in rows.values()]
    assert truth["ttft_ms"]["mean"] == pytest.approx(sum(ttfts) / 5 / 1e6, rel=1e-6)
    assert truth["ttft_ms"]["max"] == max(ttfts) / 1e6


def test_the_modelled_engine_sets_the_time_to_first_token() -> None:
    """20 prompt tokens at 400/s are 50 ms, and 5 ms base: no reply can be faster, and the server's own clock says how much slower."""
    with running(step_base_ms=5, step_per_seq_us=0, prefill_tokens_per_s=400) as server:
        exchange(server.port, 0)
        truth = server.truth()
    assert 55 <= truth["ttft_ms"]["mean"] < 55 + truth["step_late_ms"]["max"] + 50
    assert truth["e2el_ms"]["mean"] >= 55 + 9 * 5


def load(server: Simulated, count: int, **fields: Any) -> list[tuple[str, int, list[int], bytes]]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda index: exchange(server.port, index, **fields), range(count)))


def kind(ending: str, raw: bytes) -> str:
    if raw.startswith(b"HTTP/1.1 503"):
        assert b"retry-after: 1\r\n" in raw
        return "error"
    if ending == "reset":
        return "reset"
    if b'"error"' in raw:
        return "error_event"
    return "completed" if b"[DONE]" in raw and ending == "whole" else "truncate"


def test_errors_on_demand_are_what_clients_see_and_the_same_on_every_run() -> None:
    shares = {"error_rate": 0.2, "reset_rate": 0.2, "truncate_rate": 0.15, "error_event_rate": 0.15, "stall_rate": 0.1, "stall_s": 0.03}
    counts = []
    for _ in range(2):
        with running(step_us=1000, seed=11, **shares) as server:
            seen = Counter(kind(ending, raw) for ending, _, _, raw in load(server, 60))
            truth = server.truth(requests=True)
        told = {"completed": truth["completed"], **truth["errors"]}
        assert seen == told
        assert sum(told.values()) == truth["received"] == 60
        assert all(told[name] > 0 for name in ("error", "reset", "truncate", "error_event", "completed"))
        stalls = [row for row in truth["requests"] if row["stalled"]]
        assert len(stalls) == truth["stalled"] > 0
        assert all(row["outcome"] == "completed" and row["last_ns"] - row["read_ns"] >= 30_000_000 for row in stalls)
        partial = [row["tokens"] for row in truth["requests"] if row["outcome"] in ("reset", "truncate", "error_event")]
        assert all(1 <= tokens <= 9 for tokens in partial)
        counts.append(told | {"stalled": truth["stalled"]})
    assert counts[0] == counts[1]


@pytest.mark.parametrize(("option", "outcome"), [("reset_rate", "reset"), ("truncate_rate", "truncate"), ("error_event_rate", "error_event")])
def test_errors_of_replies_that_are_no_streams(option: str, outcome: str) -> None:
    with running(step_us=1000, **{option: 1}) as server:
        body = json.dumps({"prompt": "a", "max_tokens": 3}).encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
            sock.sendall(b"POST /v1/completions HTTP/1.1\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            raw = b""
            try:
                while data := sock.recv(65536):
                    raw += data
                ending = "closed"
            except ConnectionResetError:
                ending = "reset"
        assert server.truth()["errors"] == {outcome: 1}
    if outcome == "reset":
        assert (ending, raw) == ("reset", b"")
    elif outcome == "truncate":
        head, cut = raw.split(b"\r\n\r\n", 1)
        assert b"content-length: %d\r\n" % (len(cut) + 20) in head
    else:
        assert raw.startswith(b"HTTP/1.1 500")


def test_a_client_that_goes_away_frees_its_place() -> None:
    with running(step_us=1000, max_num_seqs=1) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
            sock.sendall(request(0, max_tokens=100_000))
            sock.recv(100)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert exchange(server.port, 1)[0] == "whole"  # it had to wait for the place
        truth = server.truth()
    assert (truth["completed"], truth["cancelled"], truth["in_flight"], truth["peak_running"]) == (1, 1, 0, 1)


def test_a_slow_reader_gets_everything_and_its_stamps_wait_for_it() -> None:
    tokens, an_event = 2_000_000, 20_000  # some 9 MB, more than the kernel takes for a client that does not read
    with running(step_us=1000, tokens_per_event=an_event, kv_cache_tokens=3_000_000, max_model_len=3_000_000, truth_sends=True) as server:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(20)
        sock.connect(("127.0.0.1", server.port))
        with sock:
            sock.sendall(request(0, max_tokens=tokens))
            raw = bytearray(sock.recv(1000))
            while (truth := server.truth())["running"] or not truth["steps"]:  # the engine does not wait for the client
                pass
            assert (truth["in_flight"], truth["completed"]) == (1, 0)
            read_on_ns = time.monotonic_ns()
            while not raw.endswith(b"0\r\n\r\n"):
                raw += sock.recv(1 << 20)
        (row,) = server.truth(requests=True)["requests"]
    assert (row["tokens"], len(row["send_ns"]), row["outcome"]) == (tokens, tokens // an_event, "completed")
    assert row["send_ns"] == sorted(row["send_ns"])
    assert row["first_ns"] < read_on_ns < row["last_ns"]
    words = b"".join(piece.split(b'"', 1)[0] for piece in raw.split(b'"content":"')[1:])
    assert len(words.split()) == tokens


def test_many_at_once_queue_and_all_end() -> None:
    with running(step_us=2000, max_num_seqs=4) as server:
        results = load(server, 24)
        truth = server.truth()
    assert [ending for ending, *_ in results] == ["whole"] * 24
    assert truth["peak_running"] <= 4
    assert truth["peak_in_flight"] > 4
    assert truth["completed"] == 24


def test_one_line_of_truth_at_the_end_and_exit_code_0() -> None:
    child = subprocess.Popen([sys.executable, "-m", "loadstone", "simulate", "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().startswith("listening on http://127.0.0.1:")
    child.terminate()
    out, _ = child.communicate(timeout=20)
    assert child.returncode == 0
    assert json.loads(out)["received"] == 0


def test_the_server_ends_when_its_parent_does() -> None:
    """`running` gives the child a pipe; when the parent dies without a word, the pipe closes."""
    command = [sys.executable, "-m", "loadstone", "simulate", "--port", "0", "--until-stdin-closes"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    child.communicate(timeout=20)
    assert child.returncode == 0


def test_a_port_in_use_is_named() -> None:
    with running() as server, pytest.raises(LoadstoneError, match=f"port {server.port}.*choose another --port"), running(port=server.port):
        pass


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"error_rate": 0.6, "reset_rate": 0.6}, "together they must not be more than 1"),
        ({"stall_rate": -0.1}, "--stall-rate is a share from 0 to 1"),
        ({"max_num_batched_tokens": 5}, "less than --max-num-seqs 256"),
        ({"max_model_len": 900, "kv_cache_tokens": 800}, "does not fit into --kv-cache-tokens 800"),
        ({"step_us": 0}, "--step-us must be at least 1"),
        ({"prefill_tokens_per_s": "nan"}, "--prefill-tokens-per-s must be above 0"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(LoadstoneError, match=words), running(**options):
        pass
