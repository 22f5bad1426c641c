"""`loadstone bench serve`: flags and a YAML file make a RunConfig; loadstone.bench does the rest."""

import argparse
from typing import Any

from loadstone.cli.serve_flags import FLAGS, GROUPS, Flag

DESCRIPTION = """\
Sends a workload to a server of a language model and reports latencies,
throughput and goodput."""

EPILOG = """\
examples:
  500 requests of 1024 prompt and 128 output tokens, 10 a second:
    loadstone bench serve --base-url http://127.0.0.1:8000 --model my-model \\
        --num-prompts 500 --request-rate 10 --save-result
  32 requests in flight, own prompts, SLOs:
    loadstone bench serve --model my-model --dataset-name custom \\
        --dataset-path prompts.jsonl --max-concurrency 32 \\
        --goodput ttft:200 tpot:50 --percentile-metrics ttft,tpot,itl,e2el
  a ramp from 1 to 20 requests a second, flags from a file:
    loadstone bench serve --config run.yaml --ramp-up-strategy linear \\
        --ramp-up-start-rps 1 --ramp-up-end-rps 20

exit codes: 0 done, 1 no request succeeded, 2 bad usage or data, 3 server not
ready, 130 interrupted. Flags may be written with underscores.
"""

TYPES = {"str": str, "int": int, "float": float, "list": str}


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("serve", help="load-test a server over HTTP", description=DESCRIPTION, epilog=EPILOG, usage="%(prog)s [flags]")
    parser.add_argument("--config", metavar="FILE", help="YAML file with the same names as the flags; flags win")
    for group in GROUPS:
        section = parser.add_argument_group(group.title)
        for flag in group.flags:
            add_flag(section, flag, listed=group.listed)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from loadstone.config import RunConfig
    from loadstone.redact import public_command
    from loadstone.values import read_mapping

    written = read_mapping(args.config, "--config") if args.config else {}
    config = RunConfig.from_mapping(written, args.config or "the command line", overrides=given_flags(args))

    from loadstone.bench.serve import serve

    return int(serve(config, command=public_command(args.argv)))


def given_flags(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that stand on the command line, by name: a default never wins over the file."""
    values = {flag.name: getattr(args, flag.name.replace("-", "_"), None) for flag in FLAGS}
    return {name: value for name, value in values.items() if value is not None}


def add_flag(section: "argparse._ArgumentGroup", flag: Flag, *, listed: bool, default: bool = True) -> None:
    """Give a parser one flag. `listed`: in its help; `default`: with its default there."""
    text = f"{flag.help} (default: {flag.default})" if flag.default and default else flag.help
    options: dict[str, Any] = {"default": None, "help": text.replace("%", "%%") if listed else argparse.SUPPRESS}
    if flag.kind == "switch":
        options |= {"action": "store_const", "const": True}
    else:
        options |= {"type": TYPES[flag.kind], "metavar": flag.meta}
    if flag.kind == "list":
        options |= {"nargs": "+", "action": "extend"}
    action = section.add_argument(f"--{flag.name}", **options)
    if flag.choices:  # for the shell; what is not there is refused later, by those who know
        action.completer = lambda **_: flag.choices  # type: ignore[attr-defined]
