"""The printed report: labels that scripts search for, and what a person reads around them."""

import io
import re
from typing import Any

import pytest
from rich.cells import cell_len

from loadstone.config import RunConfig
from loadstone.metrics.summarise import summarise
from loadstone.records import Record, Records, Retried
from loadstone.report.terminal import print_report, render

ALL = ("ttft", "s_ttft", "ttfot", "tpot", "itl", "icl", "s_itl", "e2el", "s_e2el", "s_decode", "input_len", "s_input_len", "output_len")
MS = 1_000_000


def report(records: list[Record], config: RunConfig | None = None, planned: int | None = None, **options: Any) -> str:
    config = config or RunConfig(model="m")
    planned = len(records) if planned is None else planned
    summary = summarise(Records(records), planned=planned, percentiles=config.metric_percentiles, slos_ms=config.goodput, **options)
    return render(summary, config)


def value(text: str, label: str) -> str:
    """What stands after a label, as a script would cut it out."""
    found = re.findall(rf"^{re.escape(label)}\s+(\S+)$", text, re.MULTILINE)
    assert len(found) == 1, (label, found)
    return str(found[0])


def full(reply: Any, count: int = 4) -> list[Record]:
    extra = {"prompt_tokens": 33, "cached_tokens": 16, "prompt_token_source": "usage", "server_ns": [20 * MS, 60 * MS, 100 * MS]}
    return [reply(k, sent=500 * k, tokens=[100, 150, 200], **extra) for k in range(count)]


def test_totals_block(reply: Any) -> None:
    text = report([*full(reply), reply(4, status="failed", end_ns=2500 * MS)], RunConfig(model="m", goodput={"ttft": 150.0}))
    assert " Serving Benchmark Result ".center(50, "=") in text.splitlines()
    for label, wanted in (
        ("Successful requests:", "4"),
        ("Failed requests:", "1"),
        ("Benchmark duration (s):", "2.50"),
        ("Total input tokens:", "132"),
        ("Total generated tokens:", "12"),
        ("Request throughput (req/s):", "1.60"),
        ("Request goodput (req/s):", "1.60"),
        ("Output token throughput (tok/s):", "4.80"),
        ("Peak output token throughput (tok/s):", "6.00"),
        ("Peak concurrent requests:", "2"),
        ("Total Token throughput (tok/s):", "57.60"),
    ):
        assert value(text, label) == wanted
    assert text.splitlines().index("=" * 50) > text.splitlines().index("Time to First Token".center(50, "-"))


def test_every_chosen_metric_has_its_heading_and_lines(reply: Any) -> None:
    text = report(full(reply), RunConfig(model="m", percentile_metrics=ALL, metric_percentiles=("99", "99.9")))
    for heading, line, wanted in (
        ("Time to First Token", "TTFT (ms)", "100.00"),
        ("Infer Time to First Token", "S_TTFT (ms)", "20.00"),
        ("Time to First Output Token", "TTFOT (ms)", "100.00"),
        ("Time per Output Token (excl. 1st token)", "TPOT (ms)", "50.00"),
        ("Inter-token Latency", "ITL (ms)", "50.00"),
        ("Inter-chunk Latency", "ICL (ms)", "50.00"),
        ("Infer Inter-token Latency", "S_ITL (ms)", "40.00"),
        ("End-to-end Latency", "E2EL (ms)", "200.00"),
        ("Infer End-to-end Latency", "S_E2EL (ms)", "100.00"),
        ("Decode (tok/s)", "Decode", "25.00"),
        ("Cached Tokens", "Cached Tokens", "16.00"),
        ("Infer Input Length", "Input Length", "33.00"),
        ("Output Length", "Output Length", "3.00"),
    ):
        assert heading.center(50, "-") in text.splitlines()
        for statistic in ("Mean", "Median", "P99", "P99.9"):
            assert value(text, f"{statistic} {line}:") == wanted


def test_only_chosen_metrics_are_in_the_block(reply: Any) -> None:
    text = report(full(reply), RunConfig(model="m", percentile_metrics=("ttft",), metric_percentiles=("90",)))
    assert value(text, "P90 TTFT (ms):") == "100.00"
    assert "Mean TPOT (ms):" not in text and "P99 TTFT (ms):" not in text and "Request goodput" not in text


def test_no_sample_no_line(reply: Any) -> None:
    text = report([reply(0, tokens=[150])], RunConfig(model="m", percentile_metrics=("ttft", "tpot", "s_ttft")))
    assert "Mean TTFT (ms):" in text
    assert "Mean TPOT (ms):" not in text and "Infer Time to First Token" not in text
    assert re.search(r"^TPOT +0 +-$", text, re.MULTILINE)


def test_sums_are_printed(reply: Any) -> None:
    records = [*full(reply), reply(4, status="failed"), reply(5, status="cancelled")]
    text = report(records, planned=9, dropped=3)
    assert "  9 planned = 6 sent + 3 dropped\n" in text
    assert "  6 sent = 4 completed + 1 failed + 1 cancelled\n" in text
    assert "4 of 9 requests completed in 1.70 s; 1 failed, 1 cancelled, 3 never sent." in text


def test_all_failed_is_a_report_too() -> None:
    failures = [Record(index=k, status="failed", reason="http 500", error="HTTP 500: boom", sent_ns=0, end_ns=10**9) for k in range(20)]
    text = report(failures)
    assert "No request succeeded: 20 failed." in text
    assert value(text, "Successful requests:") == "0" and value(text, "Request throughput (req/s):") == "0.00"
    assert "20 x http 500" in text and "for example: HTTP 500: boom" in text
    assert "Mean" not in text and "Latency in ms" not in text


def test_open_loop_shows_response_beside_service_and_a_closed_one_says_not_applicable(reply: Any) -> None:
    records = [reply(k, sent=100 * k + 40, tokens=[100, 200], planned_ns=100 * k * MS) for k in range(4)]
    open_, closed = report(records, open_loop=True), report(records)
    assert re.search(r"^TTFT +4 +100\.00", open_, re.MULTILINE) and re.search(r"^TTFT from due +4 +140\.00", open_, re.MULTILINE)
    assert re.search(r"^E2EL from due +4 +240\.00", open_, re.MULTILINE) and re.search(r"^Sent after due +4 +40\.00", open_, re.MULTILINE)
    assert "not applicable" not in open_ and "The load was not delivered as asked" in open_
    assert "From due time: not applicable (closed loop)." in closed and "TTFT from due" not in closed


def test_intervals_or_how_many_samples_they_need(reply: Any) -> None:
    few = report([reply(k, sent=k, tokens=[100 + k, 300]) for k in range(40)])
    assert re.search(r"^TTFT +40 .* needs 368$", few, re.MULTILINE)
    many = report([reply(k, sent=k, tokens=[k + 1, 2000]) for k in range(500)])
    assert re.search(r"^TTFT +500 +250\.50 +250\.50 +450\.10 +495\.01  490\.00 to 500\.00$", many, re.MULTILINE)


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (RunConfig(model="m"), "Asked for all requests at once; sent 4, at most 1 in flight."),
        (RunConfig(model="m", max_concurrency=8), "Asked for requests without pause, at most 8 in flight; sent 4"),
        (RunConfig(model="m", request_rate=2.5), "Asked for 2.50 req/s; sent at"),
        (RunConfig(model="m", ramp_up_strategy="linear", ramp_up_start_rps=1, ramp_up_end_rps=9), "a linear ramp from 1.00 to 9.00 req/s"),
    ],
)
def test_asked_beside_delivered(config: RunConfig, wanted: str, reply: Any) -> None:
    assert wanted in " ".join(report(full(reply), config).split())


def test_a_rate_that_the_seed_drew_otherwise_is_said(reply: Any) -> None:
    """Three gaps of 0.25 s: 4 a second were planned, 2.5 asked for on average."""
    replies = [reply(k, sent=250 * k, tokens=[250 * k + 5], planned_ns=250_000_000 * k) for k in range(4)]
    text = " ".join(report(replies, RunConfig(model="m", request_rate=2.5), open_loop=True).split())
    assert "Asked for 2.50 req/s on average (4.00 as the seed drew them); sent at 4.00 req/s" in text


def test_goodput_client_and_notes(reply: Any) -> None:
    text = report(full(reply), RunConfig(model="m", goodput={"ttft": 99.0, "tpot": 50.0}), client={"verdict": "kept up"}, notes=["2 rows left out"])
    assert "0 of 4 sent (0.0%) met ttft <= 99 ms, tpot <= 50 ms. Missed: ttft 4, tpot 0." in " ".join(text.split())
    assert "Client: kept up" in text and "  - 2 rows left out" in text


def test_a_strangers_error_text_can_do_no_harm(reply: Any) -> None:
    """No markup is read, no escape sequence reaches the terminal, no key is repeated, and wide characters stay within 80 columns."""
    error = "[bold red]no[/] \x1b[2J\x07 Bearer sk-secret-key " + "塔" * 400
    config = RunConfig(model="m", header={"Authorization": "Bearer sk-secret-key"})
    text = report([reply(0, status="failed", reason="http 401", error=error)], config)
    assert "[bold red]no[/]" in text and "\x1b" not in text and "\x07" not in text
    assert "sk-secret-key" not in text and "***" in text
    assert max(map(cell_len, text.splitlines())) <= 80


def test_everything_fits_80_columns(reply: Any) -> None:
    config = RunConfig(
        model="m", percentile_metrics=ALL, metric_percentiles=("50", "99.99"), goodput={"ttft": 1.0, "itl": 2.0, "e2el": 3.0}, request_rate=3.0
    )
    records = [
        reply(k, sent=9e6 * k, tokens=[3e6, 4e6, 5e6], planned_ns=0, prompt_tokens=10**9, local_prompt_tokens=1, wanted_output_tokens=10**6)
        for k in range(40)
    ]
    text = report(records, config, open_loop=True, max_concurrency=1, client={"verdict": "word " * 40}, notes=["word " * 40])
    assert max(map(cell_len, text.splitlines())) <= 80


def test_plain_in_a_pipe_and_safe_in_any_encoding(reply: Any) -> None:
    summary = summarise(Records([reply(0, status="failed", reason="塔", error="塔")]), planned=1)
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    print_report(summary, RunConfig(model="m"), stream)
    assert b"1 x ?" in raw.getvalue() and b"\x1b" not in raw.getvalue()


def test_colours_on_a_terminal(reply: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    summary, stream = summarise(Records(full(reply)), planned=4), Terminal()
    print_report(summary, RunConfig(model="m"), stream)
    assert "\x1b[" in stream.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()) == render(summary, RunConfig(model="m"))


def test_what_servers_say_of_themselves_by_its_name(reply: Any) -> None:
    long = "prefill_first_token_infer_cost_time"
    spans = [{"s_ttft": 20 * MS, "s_e2el": 90 * MS, "load": 3 * MS, long: 12_345_678 * MS}, {"s_ttft": 40 * MS, "s_e2el": 110 * MS, "load": 5 * MS}]
    records = [reply(index, tokens=[30, 100], server_spans=each) for index, each in enumerate(spans)]
    lines = report(records).splitlines()
    start = lines.index("Server's own times in ms                   n      mean    median       p99")
    assert lines[start + 1 : start + 5] == [
        "S_TTFT                                     2     30.00     30.00     39.80",
        "S_E2EL                                     2    100.00    100.00    109.80",
        "load                                       2      4.00      4.00      4.98",
        "prefill_first_token_infer_cost_time        1  12345678  12345678  12345678",
    ]
    chosen = report(records, RunConfig(model="m", percentile_metrics=("s_ttft",)))
    assert "S_TTFT  " not in chosen.partition("Server's own times")[2]
    assert "Server's own times" not in report([reply(tokens=[30, 100])])


def test_several_servers_have_a_line_each_and_retries_are_told(reply: Any) -> None:
    urls = ["http://10.0.0.1:8000", "https://a-very-long-name.of-a-host.example.com:8443/team/a"]
    again = [Retried(server=0, reason="http 429", began_ns=0, end_ns=1)]
    records = [
        reply(0, tokens=[100, 150], target=urls[0]),
        reply(1, tokens=[200, 300, 400], target=urls[1], attempts=2, retried=again),
    ]
    text = report(records, servers=urls)
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("Server  "))
    # 0.4 s in all: one request and 2 or 3 tokens each
    assert lines[at].split() == ["Server", "done", "failed", "req/s", "tok/s", "TTFT", "p50", "p99", "TPOT", "p50"]
    assert lines[at + 1].split() == ["10.0.0.1:8000", "1", "0", "2.50", "5.00", "100.00", "100.00", "50.00"]
    assert lines[at + 2].split() == ["..ple.com:8443/team/a", "1", "0", "2.50", "7.50", "200.00", "200.00", "100.00"]
    assert "  3 attempts = 2 sent + 1 tried again (1 x http 429); of the 1 requests that" in text
    assert max(map(cell_len, lines)) <= 80
    assert "Server  " not in report(records) and "attempts" not in report(records[:1])
