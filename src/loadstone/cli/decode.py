"""`loadstone decode DIR`: records and results again from the bytes that a run has kept (--keep-wire)."""

import argparse
from typing import Any

from loadstone.cli.bench_serve import add_flag
from loadstone.cli.serve_flags import GROUPS

DESCRIPTION = """\
Decodes a run again from the bytes that `loadstone bench serve --keep-wire DIR`
has kept: with other metrics, percentiles or SLOs, or after a crash. Flags that
are not given are those of the run. Nothing is sent, and DIR is only read."""

EPILOG = """\
examples:
  loadstone decode kept --metric-percentiles 50,99,99.9
  loadstone decode kept --goodput ttft:200 tpot:50 --save-result
  loadstone decode kept --records records.jsonl
"""

SECTIONS = ("numbers", "output", "tokenizer")
NOT_HERE = {"disable-tqdm"}


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("decode", help="decode a kept run again", description=DESCRIPTION, epilog=EPILOG, usage="%(prog)s DIR [flags]")
    parser.add_argument("folder", metavar="DIR", help="what --keep-wire has written")
    for group in GROUPS:
        if group.title in SECTIONS:
            section = parser.add_argument_group(group.title)
            for flag in group.flags:
                if flag.name not in NOT_HERE:
                    add_flag(section, flag, listed=True, default=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from loadstone.bench.serve import serve_again
    from loadstone.redact import public_command

    names = [flag.name.replace("-", "_") for group in GROUPS if group.title in SECTIONS for flag in group.flags if flag.name not in NOT_HERE]
    changes: dict[str, Any] = {name: value for name in names if (value := getattr(args, name, None)) is not None}
    return int(serve_again(args.folder, changes, command=public_command(args.argv)))
