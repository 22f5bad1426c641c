"""Whether requests leave when they are due: an open loop against a server that knows when each came.

    python benchmarks/pacing.py [--rate 1000] [--fast-rate 5000] [--seconds 10]

Three loads: short streams on a metronome and in a Poisson process at --rate, and whole (not streamed) replies at --fast-rate. `asked` is the rate of
the schedule as drawn, `seen` that of the requests as the server read them, both (n - 1) / (last - first). Lateness is sent - planned, by the client's
clock; `on the way` is the server's read - sent. CPU shares are of one core, over the time of the load; the client's covers its workers and decoder.
The first line is the machine's own lateness: a loop on the client's core that does nothing but sleep until its next due time, --rate times a second.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from build import build
from support.truth import CORES, machine, read_log, serve, truth_server

HEAD = (
    f"{'load':<22}{'workers':>8}{'asked/s':>9}{'seen/s':>9}{'ratio':>8}{'late us: p50':>14}{'p99':>9}{'max':>9}{'on the way p50':>16}"
    f"{'CPU: client':>13}{'server':>8}"
)
STEP_US = 2000


def measure(program: Path, folder: Path, name: str, rate: float, seconds: float, flags: list[str], workers: int) -> str:
    """One line of the table."""
    log, count = folder / "pacing.truth", round(rate * seconds)
    load = ["--num-prompts", str(count), "--request-rate", str(rate), "--random-input-len", "16", "--workers", str(workers)]
    with truth_server(program, STEP_US, log) as server:
        done = serve(server.port, folder, [*load, *flags], free=workers > 1)
        server_cpu_s = server.cpu_s()
    truth = read_log(log)
    pairs = [(truth[record.request_id], record) for record in done.records if record.request_id in truth and record.sent_ns and record.planned_ns]
    if not pairs:
        sys.exit("no request reached the server")
    read = np.array([reply.read_ns for reply, _ in pairs])
    sent = np.array([record.sent_ns for _, record in pairs])
    planned = np.array([record.planned_ns for _, record in pairs])
    asked, seen = ((len(pairs) - 1) / (times.max() - times.min()) * 1e9 for times in (planned, read))
    late = (sent - planned) / 1e3
    p50, p99 = np.percentile(late, (50, 99))
    client = done.result["client"]
    cpu_s = client.get("worker_cpu_s", 0.0) + client.get("decoder_cpu_s", 0.0)
    span_s = float(done.result["duration"])
    lost = "" if len(pairs) == count else f"  ({count - len(pairs)} of {count} did not complete)"
    return (
        f"{name:<22}{workers:>8}{asked:>9.1f}{seen:>9.1f}{seen / asked:>8.4f}{p50:>14.0f}{p99:>9.0f}{late.max():>9.0f}"
        f"{np.median(read - sent) / 1e3:>16.0f}{cpu_s / span_s:>13.0%}{server_cpu_s / span_s:>8.0%}{lost}"
    )


def bare_timer(rate: float, seconds: float) -> str:
    """The line of a loop that only sleeps until it is due."""
    if len(CORES) > 1:
        os.sched_setaffinity(0, CORES[:-1])
    begun, late = time.monotonic_ns() + 1_000_000, []
    for tick in range(round(rate * seconds)):
        due = begun + round(tick * 1e9 / rate)
        while (early_ns := due - time.monotonic_ns()) > 0:
            time.sleep(early_ns / 1e9)
        late.append((time.monotonic_ns() - due) / 1e3)
    if len(CORES) > 1:
        os.sched_setaffinity(0, CORES)
    p50, p99 = np.percentile(late, (50, 99))
    return f"{'(a bare timer)':<22}{'-':>8}{rate:>9.1f}{'-':>9}{'-':>8}{p50:>14.0f}{p99:>9.0f}{max(late):>9.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=1000.0, help="requests per second of the streams")
    parser.add_argument("--fast-rate", type=float, default=5000.0, help="requests per second of the whole replies")
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    print(machine())
    print(HEAD)
    print(bare_timer(args.rate, min(args.seconds, 5.0)), flush=True)
    streams = ["--random-output-len", "4"]
    whole = ["--random-output-len", "1", "--no-stream-request"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = build(folder)["truth_server"]
        print(measure(program, folder, "streams, metronome", args.rate, args.seconds, [*streams, "--burstiness", "inf"], 1), flush=True)
        print(measure(program, folder, "streams, Poisson", args.rate, args.seconds, streams, 1), flush=True)
        for workers in (1, 2) if len(CORES) > 1 else (1,):
            print(measure(program, folder, "whole, Poisson", args.fast_rate, args.seconds / 2, whole, workers), flush=True)


if __name__ == "__main__":
    main()
