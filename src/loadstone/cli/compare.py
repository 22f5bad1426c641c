"""`loadstone compare A B [C ...]`: which differences between results are more than chance?"""

import argparse

DESCRIPTION = """\
Holds results against the first of them: a table of both values, the difference,
its interval, and a verdict for each metric. Reads results of loadstone, vllm
bench serve, fastdeploy bench serve, SGLang, AIPerf, GuideLLM and evalscope."""

EPILOG = """\
Each result is FILE, FILE#N (the Nth of JSON lines; default: the last), FILE#all,
a FOLDER of repeats, or several joined by commas, which are repeats too. FILE may
be a result file or a file of --records.

examples:
  loadstone compare before.json after.json
  loadstone compare before1.json,before2.json,before3.json after/
  loadstone compare main.jsonl branch.jsonl --fail-if 'p99 ttft worse by 5%' \\
      --format markdown --json comparison.json

exit codes: 0 done, 99 a --fail-if is true, 2 bad usage or a --fail-if that cannot
be decided."""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "compare", help="hold results against each other", description=DESCRIPTION, epilog=EPILOG, usage="%(prog)s A B [C ...] [flags]"
    )
    parser.add_argument("results", metavar="RESULT", nargs="*", help="the base, then what is held against it")
    parser.add_argument("--fail-if", metavar="TEXT", action="append", default=[], help="exit with 99 if so: 'p99 ttft worse by 5%%'; may stand often")
    parser.add_argument("--allow", metavar="WHAT", action="append", default=[],
                        help="compare although this differs: model, load, data, lengths, seed; may stand often")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write the comparison as JSON")
    parser.add_argument("--format", metavar="FORM", choices=("text", "markdown"), default="text", help="text or markdown (default: text)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from loadstone.compare.compare import compare_files

    return compare_files(args.results, fail_if=args.fail_if, allow=args.allow, json_file=args.json, as_markdown=args.format == "markdown")
