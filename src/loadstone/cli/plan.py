"""`loadstone plan`: the workload and the arrivals of a run, made and shown, and nothing sent."""

import argparse
import sys

from loadstone.cli.bench_serve import add_flag, given_flags
from loadstone.cli.serve_flags import GROUPS

DESCRIPTION = """\
Makes the plan of a run from the flags of bench serve, and shows it: totals,
lengths, gaps, shared prefixes. Nothing is sent."""

EPILOG = """\
examples:
  loadstone plan --model my-model --request-rate 10 --num-prompts 500
  loadstone plan --model my-model --dataset-name sharegpt \\
      --dataset-path chats.json --num-prompts 500 --out load.plan
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("plan", help="make the plan of a run and show it; send nothing", description=DESCRIPTION, epilog=EPILOG,
                                   usage="%(prog)s [flags of bench serve]")  # fmt: skip
    parser.add_argument("--config", metavar="FILE", help="YAML file with the same names as the flags; flags win")
    parser.add_argument("--out", metavar="FILE", help="write the plan to a file")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    for group in GROUPS:
        section = parser.add_argument_group(group.title)
        for flag in group.flags:
            add_flag(section, flag, listed=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from loadstone.bench.plan import show_plan
    from loadstone.config import RunConfig
    from loadstone.values import read_mapping

    written = read_mapping(args.config, "--config") if args.config else {}
    config = RunConfig.from_mapping(written, args.config or "the command line", overrides=given_flags(args))
    sys.stdout.write(show_plan(config, args.out, as_json=args.json))
    return 0
