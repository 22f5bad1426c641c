"""`loadstone show FILE`: a result or records file, printed as its run did."""

import argparse

DESCRIPTION = """\
Prints the report of a result file (--save-result, --append-result) or of a
records file (--records), as the run did when it ended. The numbers of a records
file are computed again from its records."""

EPILOG = """\
examples:
  loadstone show result.json
  loadstone show results.jsonl --index 2
  loadstone show results.jsonl --all
  loadstone show records.jsonl
"""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("show", help="print a result or records file as its run did", description=DESCRIPTION, epilog=EPILOG,
                                   usage="%(prog)s FILE [flags]")  # fmt: skip
    parser.add_argument("file", metavar="FILE", help="a result file, JSON lines of them, or a records file")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--index", type=int, metavar="N", help="of JSON lines: the Nth, from 1, or from -1 backwards (default: the last)")
    which.add_argument("--all", action="store_true", help="of JSON lines: each of them")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from loadstone.compare.show import show

    return show(args.file, "all" if args.all else None if args.index is None else str(args.index))
