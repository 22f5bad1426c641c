"""The pages of docs/ that describe the command line say what it does."""

import re
from pathlib import Path

import pytest

from loadstone.cli.main import COMMANDS, INTERRUPTED, UNEXPECTED
from loadstone.cli.serve_flags import LISTED, Flag
from loadstone.config import RunConfig
from loadstone.values import PARSERS, read_mapping

DOCS = Path(__file__).parents[2] / "docs"


def row(flag: Flag) -> str:
    """The flag's line in the page's table."""
    value = f" {flag.meta}" if flag.meta else ""
    more = " ..." if flag.kind == "list" else ""
    default = f"`{flag.default}`" if flag.default else "off" if flag.kind == "switch" else ""
    return f"| `--{flag.name}{value}{more}` | {default} | {flag.help} |"


def test_the_page_lists_each_flag_with_its_default_and_no_other() -> None:
    lines = [line for line in (DOCS / "cli.md").read_text().splitlines() if line.startswith("| `--")]
    assert lines == [row(flag) for flag in LISTED]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_names_each_command(command: str) -> None:
    assert f"    loadstone {command}" in (DOCS / "cli.md").read_text()


def test_the_example_file_is_a_configuration(tmp_path: Path) -> None:
    text = (DOCS / "start.md").read_text()
    example = "\n".join(line[4:] for line in re.search(r"    # run\.yaml\n((    .*\n)+)", text)[0].splitlines())  # type: ignore[index]
    (tmp_path / "run.yaml").write_text(example)
    config = RunConfig.from_mapping(read_mapping(str(tmp_path / "run.yaml"), "--config"))
    assert config.goodput == {"ttft": 200.0, "tpot": 50.0} and config.metric_percentiles == ("50", "90", "99")


def test_the_page_lists_the_exit_codes() -> None:
    text = (DOCS / "start.md").read_text()
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert codes == sorted({0, 1, 2, 3, 99, 141, INTERRUPTED, UNEXPECTED})


def test_every_field_that_is_written_in_more_than_one_way_is_a_flag() -> None:
    assert set(PARSERS) <= set(RunConfig.__struct_fields__)
