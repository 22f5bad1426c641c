"""The argument parser of every command: errors are UsageErrors, help fits 80 columns, flags may be written with underscores."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from loadstone.errors import UsageError
from loadstone.redact import public_command


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=79)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """`KEY=VALUE ...` for one or more values; argparse would write the name twice."""
        text = super()._format_args(action, default_metavar)
        return f"{action.metavar} ..." if action.nargs == argparse.ONE_OR_MORE else text


class Parser(argparse.ArgumentParser):
    """Flags are never abbreviated (a script would break when a flag is added), and a wrong one is a UsageError."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("formatter_class", _Help)
        options["allow_abbrev"] = False
        super().__init__(*args, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message.removeprefix('argument ')} (see {self.prog} --help)")

    def flags(self) -> list[str]:
        """Every long flag of this parser."""
        return [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]


def normalised(argv: Sequence[str]) -> list[str]:
    """`argv` with flags in their one spelling: --dataset_name is --dataset-name."""
    words = []
    for word in argv:
        flag, equals, value = word.partition("=")
        words.append(flag.replace("_", "-") + equals + value if word.startswith("--") else word)
    return words


def refuse_unknown(parser: Parser, words: Sequence[str]) -> None:
    """UsageError for what the parser could not place, if there is any, with the flag most like it."""
    if not words:
        return
    from loadstone.values import nearest

    flag = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if flag:
        raise UsageError(f"unknown flag {flag}{nearest(flag, parser.flags())} (see {parser.prog} --help)")
    shown = public_command(["--header", words[0]])[1]  # it may be half of a header that was not quoted
    raise UsageError(f"{shown!r} belongs to no flag: quote values that hold blanks (see {parser.prog} --help)")


def flush_output() -> None:
    """Write out what was printed, so that a closed pipe is noticed here and not at the interpreter's end."""
    sys.stdout.flush()
    sys.stderr.flush()
