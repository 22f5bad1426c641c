"""What starting costs: the CPU of `loadstone --help` beside that of an empty Python, and the time from the command to the first request on the wire.

    python benchmarks/startup.py [--times 11]

Medians over --times runs, taken in turn. The first request is seen by the server: its read - the moment before the command was started.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from build import build
from support.truth import Ran, machine, read_log, run_client, serve, truth_server

STEP_US = 2000
SMALL = ["--num-prompts", "10", "--random-input-len", "64", "--random-output-len", "4"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=11)
    args = parser.parse_args()
    print(machine())
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "loadstone --help": [sys.executable, "-m", "loadstone", "--help"],
        "bench serve --help": [sys.executable, "-m", "loadstone", "bench", "serve", "--help"],
    }
    ran: dict[str, list[Ran]] = {name: [] for name in commands}
    for _ in range(args.times):
        for name, command in commands.items():
            ran[name].append(run_client(command))
    print(f"{'command':<22}{'CPU ms':>9}{'wall ms':>9}{'CPU x python':>14}")
    least = statistics.median(each.cpu_s for each in ran["python -c pass"])
    for name, runs in ran.items():
        cpu, wall = (statistics.median(values) for values in zip(*((each.cpu_s, each.wall_s) for each in runs), strict=True))
        print(f"{name:<22}{cpu * 1e3:>9.1f}{wall * 1e3:>9.1f}{cpu / least:>14.2f}")

    first_s, whole_s = [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = build(folder)["truth_server"]
        for _ in range(args.times):
            with truth_server(program, STEP_US, folder / "truth") as server:
                done = serve(server.port, folder, SMALL)
            first_s.append((min(reply.read_ns for reply in read_log(folder / "truth").values()) - done.ran.started_ns) / 1e9)
            whole_s.append(done.ran.wall_s)
    python_s = statistics.median(each.wall_s for each in ran["python -c pass"])
    first, whole = statistics.median(first_s), statistics.median(whole_s)
    print(f"first request on the wire: {first:.3f} s after the command ({first / python_s:.1f} x an empty Python); the whole run {whole:.3f} s")


if __name__ == "__main__":
    main()
