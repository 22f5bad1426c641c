"""What README and the pages in docs say can be done, can be done."""

import re
import shlex
from pathlib import Path

import pytest

from loadstone import RunConfig, run
from loadstone.cli.main import COMMANDS, build_parser
from loadstone.simulator import running

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[str]:
    """Every indented line of the pages that runs loadstone, continued lines joined, comments and what a shell would add cut off."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = page.read_text().replace("\\\n", " ")
        for line in re.findall(r"^    ((?:[A-Z_]+=\S+ )?loadstone .*)$", text, re.MULTILINE):
            command = re.split(r"\s{3,}|\s+[#&]| \| | > ", re.sub(r"^[A-Z_]+=\S+ ", "", line))[0].strip()
            if not re.search(r"\[flags\]|SHELL|\bDIR\b", command):
                found[command] = None
    return list(found)


@pytest.mark.parametrize("command", commands())
def test_every_command_is_one_that_loadstone_understands(command: str) -> None:
    words = shlex.split(command)[1:]
    if words in (["--help"], ["--version"]) or words[-1] == "--help":
        return
    args, unknown = build_parser(tuple(COMMANDS)).parse_known_args(words)
    assert not unknown and hasattr(args, "run")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), link


def test_the_first_two_commands_are_targets() -> None:
    first = re.findall(r"^    make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)[:2]
    assert first == ["demo", "test"]
    assert all(f"\n{target}:" in (ROOT / "Makefile").read_text() for target in first)


def test_the_example_in_python_runs() -> None:
    example = re.search(r"    (from loadstone import RunConfig, run\n(?:    .*\n|\n)+)", (ROOT / "README.md").read_text())
    assert example is not None
    code = re.sub(r"^    ", "", example[1], flags=re.MULTILINE)
    with running(step_us=1000) as server:
        small = code.replace("http://127.0.0.1:8000", server.url).replace("num_prompts=500", "num_prompts=5, random_output_len=3")
        assert small != code
        exec(small, {"RunConfig": RunConfig, "run": run})
