"""How much memory the records of a run need: the decoder's side, which appends them to columns on disk, and the report's side, which reads them back
and makes every number. Both are processes of their own, at several sizes; from the slope follows what a larger run will need.

    python benchmarks/memory_slope.py [--tokens 100] [--running-usage] [--requests 10000 30000 100000 300000] [--project 1000000]

With --live it runs `loadstone bench serve` itself, all processes of it, against a server on this machine, at each size (--streams at once):

    python benchmarks/memory_slope.py --live [--tokens 100] [--streams 1000] [--requests 20000 60000] [--project 1000000]
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from build import build
from support.memory import Watched, watch
from support.truth import machine, truth_server

from loadstone.records import ColumnWriter, Record, Records

MB = 1e6
STEP_US = 20_000
NAMES = ("command", "decoder", "worker")
IN_FLIGHT = 1000  # requests end in about the order of the plan, this far out of it


def made_up(requests: int, tokens: int, running_usage: bool) -> Iterator[Record]:
    """Records as a run in a closed loop gives them: a token every 20 ms or so."""
    rng = np.random.default_rng(0)
    for first in range(0, requests, IN_FLIGHT):
        count = min(IN_FLIGHT, requests - first)
        gaps = rng.normal(20e6, 2e6, (count, tokens)).astype(np.int64)
        gaps[:, 0] = rng.gamma(4, 50e6, count)
        times = np.cumsum(gaps, axis=1)
        for place in rng.permutation(count).tolist():
            index, offsets = first + place, times[place].tolist()
            sent = index * 2_000_000
            yield Record(
                index=index,
                http_status=200,
                sent_ns=sent,
                first_byte_ns=sent + offsets[0] // 2,
                first_token_ns=sent + offsets[0],
                first_output_ns=sent + offsets[0],
                last_token_ns=sent + offsets[-1],
                end_ns=sent + offsets[-1] + 100_000,
                token_ns=offsets,
                token_counts=[1] * tokens if running_usage else [],
                prompt_tokens=128,
                output_tokens=tokens,
                token_source="usage",
                prompt_token_source="usage",
                finish_reason="length",
                model="m",
            )


def write(folder: Path, requests: int, tokens: int, running_usage: bool) -> dict[str, Any]:
    start = time.process_time()
    for _ in made_up(requests, tokens, running_usage):
        pass
    empty_s, start = time.process_time() - start, time.process_time()
    with ColumnWriter(folder) as out:
        for record in made_up(requests, tokens, running_usage):
            out.add(record)
    cpu_s = time.process_time() - start - empty_s
    return {"peak": peak(), "cpu_s": cpu_s, "disk": sum(path.stat().st_size for path in folder.iterdir())}


def read(folder: Path) -> dict[str, Any]:
    from loadstone.metrics.summarise import summarise  # its modules belong to this process, not to the decoder's

    before, start = peak(), time.process_time()
    records = Records.open(folder)
    summary = summarise(records, planned=len(records), percentiles=["50", "99", "99.9"], slos_ms={"ttft": 500, "itl": 100}, max_concurrency=1000)
    assert summary.completed == len(records)
    return {"peak": peak(), "before": before, "cpu_s": time.process_time() - start, "gaps": summary.distributions["itl"].count}


def peak() -> int:
    """The most memory that this process has had resident so far, file pages included, in bytes."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def in_a_process(*arguments: object) -> Any:
    done = subprocess.run([sys.executable, __file__, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def live(requests: int, tokens: int, streams: int) -> Watched:
    """A whole run of `loadstone bench serve` against the truth server."""
    with tempfile.TemporaryDirectory(prefix="loadstone-memory-") as scratch:
        folder = Path(scratch)
        program = build(folder)["truth_server"]
        with truth_server(program, STEP_US, folder / "truth.log") as server:
            command = [sys.executable, "-m", "loadstone", "bench", "serve", "--backend", "openai-chat", "--disable-tqdm"]
            command += ["--base-url", f"http://127.0.0.1:{server.port}", "--model", "truth", "--ready-check-timeout-sec", "0"]
            command += ["--random-input-len", "50", "--random-output-len", str(tokens), "--max-concurrency", str(streams)]
            watched = watch([*command, "--num-prompts", str(requests), "--save-result", "--result-dir", scratch])
        (result,) = folder.glob("*.json")
        completed = json.loads(result.read_text())["completed"]
        if completed != requests:
            sys.exit(f"{completed} of {requests} requests were completed")
        return watched


def all_live(sizes: list[int], tokens: int, streams: int, project: int) -> None:
    print(f"{machine()}\n{tokens} tokens a request, {streams} streams; peak of all processes together, shared pages counted once")
    print(f"{'requests':>10}{'wall':>9}{'all':>10}{'anonymous':>11}   each, at its own peak")
    totals: list[int] = []
    for requests in sizes:
        watched = live(requests, tokens, streams)
        each = ", ".join(f"{NAMES[min(place, 2)]} {memory.resident / MB:.0f} MB" for place, memory in enumerate(watched.processes))
        totals.append(watched.total.resident)
        print(f"{requests:>10,}{watched.wall_s:>7.0f} s{totals[-1] / MB:>7.0f} MB{watched.total.anonymous / MB:>8.0f} MB   {each}", flush=True)
    if len(sizes) > 1:
        per_request, base = np.polyfit(sizes, totals, 1)
        projected = (base + per_request * project) / MB
        print(f"{per_request:.0f} bytes a request on top of {base / MB:.0f} MB; {project:,} requests need {projected:.0f} MB")


def slope(sizes: list[int], peaks: list[int]) -> tuple[float, float]:
    """Bytes a request, and what is needed without any: the line through all sizes but the smallest, where the buffers of a block still fill."""
    kept = slice(1, None) if len(sizes) > 2 else slice(None)
    per_request, base = np.polyfit(sizes[kept], peaks[kept], 1)
    return float(per_request), float(base)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--running-usage", action="store_true", help="every event tells its tokens, as with --continuous-usage-stats")
    parser.add_argument("--live", action="store_true", help="whole runs, not the records alone")
    parser.add_argument("--streams", type=int, default=1000, help="with --live: --max-concurrency")
    parser.add_argument("--requests", type=int, nargs="+", help="sizes (10000 30000 100000 300000; with --live 20000 60000)")
    parser.add_argument("--project", type=int, default=1_000_000, help="size of the run to reckon with")
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.write:
        print(json.dumps(write(Path(asked.write[0]), int(asked.write[1]), asked.tokens, asked.running_usage)))
        return
    if asked.read:
        print(json.dumps(read(Path(asked.read))))
        return
    asked.requests = asked.requests or ([20_000, 60_000] if asked.live else [10_000, 30_000, 100_000, 300_000])
    if asked.live:
        all_live(asked.requests, asked.tokens, asked.streams, asked.project)
        return
    print(f"{asked.tokens} tokens a request{', running usage' if asked.running_usage else ''}; peak resident memory of each process")
    print(f"{'requests':>10}{'disk':>10}{'writer':>10}{'us/req':>8}{'us/token':>10}{'report':>10}{'CPU':>9}{'us/token':>10}")
    peaks: dict[str, list[int]] = {"writer": [], "report": []}
    for requests in asked.requests:
        folder = Path(tempfile.mkdtemp(prefix="loadstone-memory-"))
        try:
            flags = ["--tokens", asked.tokens, *(["--running-usage"] if asked.running_usage else [])]
            wrote = in_a_process(*flags, "--write", folder / "run", requests)
            report = in_a_process("--read", folder / "run")
        finally:
            shutil.rmtree(folder)
        peaks["writer"].append(wrote["peak"])
        peaks["report"].append(report["peak"])
        events = requests * asked.tokens
        print(
            f"{requests:>10,}{wrote['disk'] / MB:>7.0f} MB{wrote['peak'] / MB:>7.0f} MB{wrote['cpu_s'] / requests * 1e6:>8.1f}"
            f"{wrote['cpu_s'] / events * 1e6:>10.3f}{report['peak'] / MB:>7.0f} MB{report['cpu_s']:>7.2f} s{report['cpu_s'] / events * 1e6:>10.3f}"
        )
    if len(asked.requests) > 1:
        for name, found in peaks.items():
            per_request, base = slope(asked.requests, found)
            projected = (base + per_request * asked.project) / MB
            print(f"{name}: {per_request:.0f} bytes a request on top of {base / MB:.0f} MB; {asked.project:,} requests need {projected:.0f} MB")


if __name__ == "__main__":
    main()
