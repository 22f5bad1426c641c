"""Every command of docs/compare.md runs."""

import re
import shlex
from pathlib import Path

import pytest

from compare.conftest import Write, document
from compare.test_show import CONFIG, replies
from loadstone.cli.main import main
from loadstone.records import RunHeader, encode_record, write_header

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"


@pytest.mark.parametrize("command", re.findall(r"^    (loadstone .*)$", PAGE.read_text(), re.MULTILINE))
def test_the_command_runs(command: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = document(ci_median_ttft_ms=None, planned=1000, sent=1000, dropped=0, cancelled=0)
    for name in ("result", "before", "before1", "before2", "before3", "after", "main/1", "main/2", "branch/1", "branch/2", "after/1", "after/2"):
        write(f"{name}.json", made)
    write("results.jsonl", made, made)
    for name in ("records", "before.records", "after.records"):
        with (tmp_path / f"{name}.jsonl").open("wb") as file:
            write_header(file, RunHeader(config=CONFIG.public()))
            file.writelines(map(encode_record, replies()))
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[1:]) == 0
