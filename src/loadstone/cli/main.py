"""`loadstone`: finds the command, runs it, and turns what went wrong into one line and an exit code.

A command is a module with `register(subparsers)`, which adds a parser whose default `run` is a function from the parsed flags to an exit code.
Only the module of the command that is called is imported.
"""

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import NamedTuple

from loadstone import __version__
from loadstone.cli.parser import Parser, flush_output, normalised, refuse_unknown
from loadstone.errors import LoadstoneError

UNEXPECTED, INTERRUPTED, CLOSED_PIPE = 70, 130, 141  # as sysexits.h and shells have them


class Command(NamedTuple):
    module: str
    help: str


COMMANDS = {
    "bench": Command("loadstone.cli.bench", "load-test a server and report what its users feel"),
    "plan": Command("loadstone.cli.plan", "make the plan of a run and show it; send nothing"),
    "decode": Command("loadstone.cli.decode", "decode a kept run again, with other definitions or after a crash"),
    "show": Command("loadstone.cli.show", "print a result or records file as its run did"),
    "compare": Command("loadstone.cli.compare", "hold results against each other: which differences are more than chance?"),
    "simulate": Command("loadstone.cli.simulate", "serve a simulated engine whose timings are known"),
    "check": Command("loadstone.cli.check", "test whether the client on this machine can measure a load truly"),
    "demo": Command("loadstone.cli.demo", "load-test the simulated engine: a first run without a server"),
    "completion": Command("loadstone.cli.completion", "print what a shell needs to complete flags"),
}

EPILOG = """\
examples:
  loadstone demo
  loadstone bench serve --base-url http://127.0.0.1:8000 --num-prompts 200 \\
      --request-rate 10
  loadstone bench serve --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Nothing but a `--debug` run shows a traceback."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's idle threads cost start-up time, and with them nothing could be forked
    words = normalised(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(words)
        flush_output()
    except LoadstoneError as error:
        return _failed(str(error), error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _mute()
        return CLOSED_PIPE
    except Exception as error:
        if "--debug" in words:
            raise
        said = " ".join(str(error).split())
        return _failed(f"unexpected {type(error).__name__}: {said}; run again with --debug for the traceback", UNEXPECTED)
    return code


def _run(words: list[str]) -> int:
    name = next((word for word in words if not word.startswith("-")), None)
    completing = "_ARGCOMPLETE" in os.environ
    parser = build_parser(tuple(COMMANDS) if completing else (name,))
    if completing:
        import argcomplete

        argcomplete.autocomplete(parser)
    try:
        args, unknown = parser.parse_known_args(words)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    refuse_unknown(getattr(args, "parser", parser), unknown)
    if not hasattr(args, "run"):
        args.parser.print_help()
        return 2
    args.argv = ["loadstone", *words]
    return int(args.run(args))


def build_parser(whole: Collection[str | None]) -> Parser:
    """The parser. Commands that are not in `whole` have no more than their line of help: their modules are not imported."""
    parser = Parser(prog="loadstone", description="Load-tests servers of large language models.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"loadstone {__version__}")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for name, command in COMMANDS.items():
        if name in whole:
            import_module(command.module).register(commands)
            _complete(commands.choices[name])
        else:
            commands.add_parser(name, help=command.help)
    return parser


def _complete(parser: Parser) -> None:
    """Give a command what every command has: a --debug flag, and itself as a default for messages."""
    parser.set_defaults(parser=parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                _complete(child)
            return
    if "--debug" not in parser.flags():
        parser.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")


def _failed(message: str, code: int) -> int:
    print(f"loadstone: error: {message}", file=sys.stderr)
    return code


def _mute() -> None:
    """Nobody reads the output any more: let the interpreter's own last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
