"""What a streamed chunk costs, and how far the stamps of the first and the last token are from when the server sent them.

    python benchmarks/receive_error.py [--streams 100 500 1000 2000] [--tokens 100] [--rounds 4] [--step-us 20000] [--clock auto]

For each number of streams: the floor client, then loadstone, against a server that gives each stream a token every step, all streams at the same
instant. CPU is that of the client's whole process tree, start-up included, over the chunks that carried tokens; its parts `worker` and `decoder` are
what the result says of itself. Receive error is the client's stamp - the time the server's send returned, request by request, in microseconds; a
perfect client is some microseconds below 0, because the kernel has delivered the data before that send returns. The floor client stamps by the user's
clock, after its read: its error is that of any client that does so, however fast. Merged reads: the share of chunks that came in one read with
another.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from build import build
from support.truth import CORES, machine, read_log, run_client, serve, truth_server

HEAD = (
    f"{'streams':>7}  {'client':<10}{'CPU us/chunk':>13}{'x floor':>9}{'worker':>8}{'decoder':>8}{'first: mean':>12}{'p99':>9}"
    f"{'last: mean':>12}{'p99':>9}{'merged reads':>14}"
)


class Row(NamedTuple):
    """One client at one number of streams. Errors in microseconds: means keep their sign, percentiles are of the size."""

    cpu_us: float
    worker_us: float | None
    decoder_us: float | None
    first: np.ndarray
    last: np.ndarray | None
    merged: int


def floor(programs: dict[str, Path], folder: Path, streams: int, args: argparse.Namespace) -> Row:
    log, mine = folder / "floor.truth", folder / "floor.log"
    requests = streams * args.rounds
    with truth_server(programs["truth_server"], args.step_us, log) as server:
        ran = run_client([programs["floor"], str(server.port), str(streams), str(requests), str(args.tokens), mine])
    truth = read_log(log)
    found = [(truth[name], int(first), int(reads)) for name, _, first, reads in map(str.split, mine.read_text().splitlines())]
    merged = sum(max(args.tokens + 1 - reads, 0) for _, _, reads in found)
    return Row(
        cpu_us=ran.cpu_s / (requests * args.tokens) * 1e6,
        worker_us=None,
        decoder_us=None,
        first=np.array([first - reply.first_ns for reply, first, _ in found if first]) / 1e3,
        last=None,
        merged=merged,
    )


def loadstone(programs: dict[str, Path], folder: Path, streams: int, args: argparse.Namespace) -> Row:
    log = folder / "loadstone.truth"
    chunks = streams * args.rounds * args.tokens
    load = ["--num-prompts", str(streams * args.rounds), "--max-concurrency", str(streams), "--random-input-len", "64"]
    with truth_server(programs["truth_server"], args.step_us, log) as server:
        done = serve(server.port, folder, [*load, "--random-output-len", str(args.tokens), "--clock", args.clock])
    truth = read_log(log)
    pairs = [(truth[record.request_id], record) for record in done.records if record.first_token_ns and record.last_token_ns]
    if len(pairs) < streams * args.rounds:
        sys.exit(f"only {len(pairs)} of {streams * args.rounds} requests completed")
    client = done.result["client"]
    return Row(
        cpu_us=done.ran.cpu_s / chunks * 1e6,
        worker_us=_per_chunk(client.get("worker_cpu_s"), chunks),
        decoder_us=_per_chunk(client.get("decoder_cpu_s"), chunks),
        first=np.array([record.first_token_ns - reply.first_ns for reply, record in pairs]) / 1e3,
        last=np.array([record.last_token_ns - reply.last_ns for reply, record in pairs]) / 1e3,
        merged=sum(record.merged_reads for record in done.records),
    )


def _per_chunk(seconds: float | None, chunks: int) -> float | None:
    return None if seconds is None else seconds / chunks * 1e6


def line(streams: int, name: str, row: Row, floor_us: float, chunks: int) -> str:
    parts = "".join(f"{_or_dash(part, '.2f'):>8}" for part in (row.worker_us, row.decoder_us))
    first, last = _error(row.first), _error(row.last)
    return f"{streams:>7}  {name:<10}{row.cpu_us:>13.2f}{row.cpu_us / floor_us:>9.2f}{parts}{first}{last}{row.merged / chunks:>14.3%}"


def _error(errors_us: np.ndarray | None) -> str:
    known = errors_us is not None and len(errors_us) > 0
    return f"{_or_dash(errors_us.mean() if known else None, '.1f'):>12}{_or_dash(np.percentile(abs(errors_us), 99) if known else None, '.1f'):>9}"


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, nargs="+", default=[100, 500, 1000, 2000])
    parser.add_argument("--tokens", type=int, default=100, help="of each reply")
    parser.add_argument("--rounds", type=int, default=4, help="replies of each stream")
    parser.add_argument("--step-us", type=int, default=20_000, help="time between two tokens of a stream")
    parser.add_argument("--clock", choices=("auto", "user"), default="auto", help="loadstone's stamps: the kernel's, or the user's clock")
    args = parser.parse_args()
    print(machine())
    cores = "server and client on cores of their own" if len(CORES) > 1 else "server and client on one core: figures of little worth"
    print(f"{args.tokens} tokens a reply, {args.rounds} rounds, a token every {args.step_us / 1000:g} ms; {cores}")
    print(HEAD)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        programs = build(folder)
        for streams in args.streams:
            least, chunks = floor(programs, folder, streams, args), streams * args.rounds * args.tokens
            print(line(streams, "floor", least, least.cpu_us, chunks), flush=True)
            print(line(streams, "loadstone", loadstone(programs, folder, streams, args), least.cpu_us, chunks), flush=True)


if __name__ == "__main__":
    main()
