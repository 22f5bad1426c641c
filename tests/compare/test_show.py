"""`loadstone show`: the report of a file is that of the run; records give the numbers again; older files have what they have."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from loadstone.cli.main import main
from loadstone.compare import record_file
from loadstone.config import RunConfig
from loadstone.metrics.summarise import summarise
from loadstone.records import Record, Records, RunHeader, encode_record, write_header
from loadstone.report.output import encode
from loadstone.report.result_file import result_document
from loadstone.report.terminal import render

MS = 1_000_000
CONFIG = RunConfig(model="org/m", request_rate=10.0, num_prompts=500, goodput={"ttft": 150.0}, metric_percentiles=("95", "99.9"))


def replies() -> list[Record]:
    """500 replies of three tokens at 10 a second; every fiftieth fails; none comes from a server with clocks of its own."""
    made = []
    for index in range(500):
        sent = 100 * index * MS
        tokens = [(50 + index % 120) * MS, (70 + index % 120) * MS, (100 + index % 130) * MS]
        failed: dict[str, Any] = {"status": "failed", "reason": "http 500", "error": "boom"} if index % 50 == 49 else {}
        made.append(
            Record(
                index=index, planned_ns=sent, sent_ns=sent, first_token_ns=sent + tokens[0], first_output_ns=sent + tokens[0],
                last_token_ns=sent + tokens[-1], end_ns=sent + tokens[-1], token_ns=tokens, output_tokens=3, prompt_tokens=9, token_source="usage",
                prompt_token_source="usage", **failed,
            )
        )  # fmt: skip
    return made


def whole() -> tuple[dict[str, Any], str]:
    """The document of a result, and the report that its run printed."""
    records = Records(replies())
    summary = summarise(records, planned=500, percentiles=CONFIG.metric_percentiles, slos_ms=CONFIG.goodput, open_loop=True, requested_rate=10.0)
    made: dict[str, Any] = json.loads(encode(result_document(summary, records, CONFIG, date=datetime(2026, 1, 2))))
    return made, render(summary, CONFIG)


def shown(path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    assert main(["show", str(path), *flags]) == 0
    return capsys.readouterr().out


def test_a_result_is_printed_as_its_run_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, report = whole()
    (tmp_path / "r.json").write_text(json.dumps(made))
    assert shown(tmp_path / "r.json", capsys) == report
    assert "response" not in report and "TTFT from due" in report and "48 x" not in report and "10 x http 500" in report


def test_records_give_every_number_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / "r.jsonl").open("wb") as file:
        write_header(file, RunHeader(clock="kernel", config=CONFIG.public()))
        file.writelines(encode_record(each) for each in reversed(replies()))
    _, report = whole()
    told = shown(tmp_path / "r.jsonl", capsys)
    assert told.partition("\nNotes")[0].rstrip() == report.rstrip()
    run = record_file.read_run(tmp_path / "r.jsonl")
    assert run.facts == {"model": "org/m", "load": "10 req/s", "data": "random", "lengths": (9.0, 3.0), "seed": "0"}
    assert len(run.samples["ttft"].values) == 490 and run.samples["itl"].sizes is not None and run.figures["errors"] == {"": 2.0}
    assert run.rates["requests"].bins.sum() * (run.seconds or 0) / 20 == pytest.approx(490)
    assert main(["show", str(tmp_path / "r.jsonl"), "--all"]) == 2


def test_an_older_file_shows_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, report = whole()
    del made["schema"], made["distributions"]
    (tmp_path / "old.json").write_text(json.dumps(made))
    told = shown(tmp_path / "old.json", capsys)
    block = report[report.index("====") : report.rindex("====")]
    assert block in told
    row = next(line for line in told.splitlines() if line.startswith("TTFT  "))
    assert row.split()[1] == "490" and " - " in row  # p90 was not asked for


def test_which_of_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = whole()
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps({**made, "completed": count}) + "\n" for count in (11, 22, 33)))
    for flags, counts in (((), [33]), (("--index", "1"), [11]), (("--index", "-2"), [22]), (("--all",), [11, 22, 33])):
        lines = [line for line in shown(path, capsys, *flags).splitlines() if line.startswith("Successful requests")]
        assert [int(line.split()[-1]) for line in lines] == counts
    assert main(["show", str(path), "--index", "0"]) == 2
    assert "number them from 1" in capsys.readouterr().err


def test_what_is_not_ours_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v.json").write_text(json.dumps({"request_throughput": 1.0, "mean_ttft_ms": 5.0}))
    made, _ = whole()
    (tmp_path / "d.json").write_text(json.dumps({**made, "duration": "long"}))
    for name, said in (("v.json", "is a result of vllm bench serve"), ("d.json", "damaged"), (".", "is a folder"), ("none", "cannot read")):
        assert main(["show", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err
