"""`loadstone bench`: the benchmarks."""

import argparse

from loadstone.cli import bench_serve


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("bench", help="load-test a server and report what its users feel", description="Benchmarks.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    bench_serve.register(commands)
