"""Wrapping by columns, and colours for terminals alone."""

import io
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from loadstone.report.page import Page, wrap


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("   ", [""]),
        ("one two", ["one two"]),
        ("one two three", ["one two", "three"]),
        ("one  two", ["one  two"]),
        ("abcdefghijk", ["abcdefgh", "ijk"]),
        ("to abcdefghijk l", ["to", "abcdefgh", "ijk l"]),
        ("塔塔塔塔塔", ["塔塔塔塔", "塔"]),
        ("a 塔塔塔 塔", ["a 塔塔塔", "塔"]),
    ],
)
def test_by_hand(text: str, lines: list[str]) -> None:
    assert wrap(text, 8) == lines


@given(st.text(st.sampled_from("ab 塔🌊é\u0301"), max_size=40), st.integers(2, 12))
def test_no_line_is_too_wide_and_nothing_but_spaces_is_lost(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert max(map(cell_len, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_colours_are_for_terminals_or_whoever_forces_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    page = Page()
    page.line("[bold]text[/]", style="red")
    pipe = io.StringIO()
    page.write(pipe)
    assert pipe.getvalue() == page.plain() == "[bold]text[/]\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    forced = io.StringIO()
    page.write(forced)
    assert forced.getvalue() == "\x1b[31m[bold]text[/]\x1b[0m\n"


def test_a_report_in_a_pipe_imports_no_console() -> None:
    """It costs as much processor time as all the figures of a small run."""
    code = "import sys, loadstone.report.terminal as t; print('rich.console' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"
