"""What a short request costs: CPU per request of the whole process tree, start-up included, over replies of a few tokens in an open loop.

    python benchmarks/short_requests.py [--requests 10000] [--rate 1000] [--tokens 4]

The floor client makes the same number of the same requests in a closed loop whose streams come to about the same rate.
"""

import argparse
import math
import tempfile
from pathlib import Path

from build import build
from support.truth import machine, run_client, serve, truth_server

STEP_US = 5000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=1000.0, help="requests per second, Poisson")
    parser.add_argument("--tokens", type=int, default=4, help="of each reply")
    args = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        programs = build(folder)
        streams = math.ceil(args.rate * args.tokens * STEP_US / 1e6)  # a reply ends on a tick and the next begins there: tokens steps each
        with truth_server(programs["truth_server"], STEP_US, folder / "floor.truth") as server:
            command = [programs["floor"], str(server.port), str(streams), str(args.requests), str(args.tokens), folder / "floor.log"]
            floor_us = run_client(command).cpu_s / args.requests * 1e6
        load = ["--num-prompts", str(args.requests), "--request-rate", str(args.rate), "--random-input-len", "16"]
        with truth_server(programs["truth_server"], STEP_US, folder / "loadstone.truth") as server:
            done = serve(server.port, folder, [*load, "--random-output-len", str(args.tokens)], records=False)
    completed, client = done.result["completed"], done.result["client"]
    per_request = done.ran.cpu_s / args.requests * 1e6
    throughput = done.result["request_throughput"]
    print(f"{args.requests} requests of {args.tokens} tokens: {args.rate:g}/s asked, {throughput:.1f}/s and {completed} completed")
    print(f"{'client':<12}{'CPU us/request':>16}{'x floor':>10}{'of it worker':>14}{'decoder':>10}")
    print(f"{'floor':<12}{floor_us:>16.1f}{1:>10.2f}")
    parts = "".join(
        f"{client[name] / args.requests * 1e6:>{wide}.1f}" if name in client else f"{'-':>{wide}}"
        for name, wide in (("worker_cpu_s", 14), ("decoder_cpu_s", 10))
    )
    print(f"{'loadstone':<12}{per_request:>16.1f}{per_request / floor_us:>10.2f}{parts}")


if __name__ == "__main__":
    main()
