"""Thresholds in the report, in JUnit XML and in the exit code."""

import json
from xml.etree import ElementTree

from loadstone.bench.serve import serve
from loadstone.config import RunConfig
from loadstone.metrics.summary import Judgement
from loadstone.report.junit import write_junit
from loadstone.report.page import Page
from loadstone.report.thresholds import threshold_lines
from loadstone.simulator import running

JUDGEMENTS = [
    Judgement(threshold="p99 ttft <= 200 ms", unit="ms", value=1234.5678, samples=400, verdict="fail"),
    Judgement(threshold="error rate < 1%", unit="%", value=0.5, samples=None, verdict="pass"),
    Judgement(threshold="p99 e2el < 2 s", unit="s", value=1.5, samples=9, verdict="not enough samples", why="9 samples; p99 needs 368"),
]


def test_the_table():
    page = Page()
    threshold_lines(page, JUDGEMENTS)
    assert page.plain().splitlines() == [
        "",
        "Thresholds: 1 of 3 missed",
        "  p99 ttft <= 200 ms       1234.6 ms  fail",
        "  error rate < 1%               0.5%  pass",
        "  p99 e2el < 2 s               1.5 s  not enough samples (9 samples; p99 needs",
        "    368)",
    ]
    empty = Page()
    threshold_lines(empty, [])
    assert empty.lines == []


def test_junit(tmp_path):
    write_junit(str(tmp_path / "new" / "slo.xml"), JUDGEMENTS, "nightly", 12.3456)
    suite = ElementTree.parse(tmp_path / "new" / "slo.xml").getroot()
    assert suite.attrib == {"name": "nightly", "tests": "3", "failures": "1", "errors": "0", "skipped": "1", "time": "12.346"}
    missed, met, few = suite
    assert (missed.get("name"), missed[0].tag, missed[0].get("message")) == (
        "p99 ttft <= 200 ms", "failure", "1234.6 ms: p99 ttft <= 200 ms was missed",
    )  # fmt: skip
    assert list(met) == [] and few[0].tag == "skipped"


def run(server, folder, *slos):
    config = RunConfig(
        base_url=server.url, num_prompts=6, random_input_len=5, random_output_len=3, slo=list(slos), junit=str(folder / "slo.xml"),
        save_result=True, result_dir=str(folder), result_filename="r.json", disable_tqdm=True,
    )  # fmt: skip
    return serve(config)


def test_a_miss_is_exit_code_99(tmp_path, capsys):
    with running(step_us=1000) as server:
        assert run(server, tmp_path, "error rate < 1%", "max output_len <= 3 tokens", "p99 ttft <= 1h".replace("1h", "3600s")) == 0
        assert "p99 ttft <= 3600 s" in capsys.readouterr().out
        assert run(server, tmp_path, "error rate < 1%", "p90 output_len < 3 tokens") == 99
    thresholds = json.loads((tmp_path / "r.json").read_text())["thresholds"]
    assert thresholds[1] == {
        "threshold": "p90 output_len < 3 tokens", "unit": "tokens", "value": 3.0, "samples": 6, "verdict": "fail", "why": "",
    }  # fmt: skip
    assert ElementTree.parse(tmp_path / "slo.xml").getroot().get("failures") == "1"
