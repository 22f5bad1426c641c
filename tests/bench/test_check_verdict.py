"""What a self-check concludes from a run and the server's truth, and how it says so."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from loadstone.bench.check import BEYOND, UNDECIDED, WITHIN, Report, exit_code, exit_code_of_search, report_of
from loadstone.bench.check_find import Found
from loadstone.bench.check_load import CheckLoad
from loadstone.bench.check_page import found_page, found_verdict, page, verdict
from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.metrics.summarise import summarise
from loadstone.records import FAILED, Record, Records

MS = 1_000_000
LOAD = CheckLoad(concurrency=100, tokens_per_second=50.0, output_len=2)


def judged(
    errors_ms: list[float], *, failed: int = 0, late_ms: float = 0.1, cpu_s: float = 1.0, step_ms: float = 20.0, load: CheckLoad = LOAD, **client: Any
) -> Report:
    """The report of a run whose TTFTs, 10 ms in truth and every fiftieth 500 ms, were measured with these errors."""
    true_ns = [500 * MS if index % 50 == 49 else 10 * MS for index in range(len(errors_ms))]
    records, rows = [], []
    for index, (error_ms, first_ns) in enumerate(zip(errors_ms, true_ns, strict=True)):
        mine = first_ns + round(error_ms * MS)
        step = round(step_ms * MS)
        records.append(Record(index=index, sent_ns=0, first_token_ns=mine, last_token_ns=mine + step, token_ns=[mine, mine + step], output_tokens=2))
        sends = [first_ns, first_ns + step]
        rows.append(
            {"id": f"b{index}", "arrived_ns": 0, "read_ns": 0, "first_ns": sends[0], "last_ns": sends[1], "send_ns": sends, "outcome": "completed"}
        )
    count = len(errors_ms)
    records += [Record(index=count + each, status=FAILED, reason="reset", error="Connection reset by peer", sent_ns=0) for each in range(failed)]
    columns = Records(records)
    summary = summarise(columns, planned=count + failed, percentiles=("50", "99"), max_concurrency=100, client=client)
    truth = {"requests": rows, "step_late_ms": {"p99": late_ms}, "cpu_s": cpu_s, "peak_in_flight": 100}
    result: Any = SimpleNamespace(summary=summary, records=columns, config=RunConfig(request_id_prefix="b"), clock="kernel")
    return report_of(load, result, truth, wall_s=10.0)


def test_a_small_error_is_within() -> None:
    report = judged([0.2] * 200)
    assert (report.verdict, report.within, exit_code(report.verdict)) == (WITHIN, True, 0)
    assert report.ttft_error_ms == pytest.approx(0.2)
    assert report.measured_ms["ttft"]["mean"] == pytest.approx(20.0)  # (196 * 10.2 + 4 * 500.2) / 200
    text = " ".join(page(report).split())
    assert "Within: at 100 streams with 50 tokens/s each, this client's p99 TTFT is off by 0.200 ms" in text


def test_a_large_one_is_beyond_and_the_page_says_what_to_change() -> None:
    report = judged([1.5] * 200, workers=1, cpu_share=0.9)
    assert (report.verdict, exit_code(report.verdict)) == (BEYOND, 99)
    crowded = page(msgspec.structs.replace(report, cores=1))
    roomy = page(msgspec.structs.replace(report, cores=8))
    assert "--workers" not in crowded and "fewer streams" in crowded
    assert "--workers 2 (1 used 90% of a core each; 8 cores)" in " ".join(roomy.split())
    assert exit_code(judged([1.5] * 200, load=msgspec.structs.replace(LOAD, limit_ms=2)).verdict) == 0


def test_a_p99_that_is_right_by_chance_does_not_pass() -> None:
    """Errors of one step on a tenth of the requests, none on those that set the p99."""
    report = judged([20.0 if index % 100 < 10 else 0.0 for index in range(200)])
    assert report.p99_ttft_error_ms == pytest.approx(0, abs=1e-6)
    assert report.ttft_error_ms == pytest.approx(20)
    assert report.verdict == BEYOND
    assert "99 % of its TTFTs by at most 20.000 ms" in " ".join(verdict(report).split())


def test_an_error_below_zero_counts_by_its_size() -> None:
    assert judged([-1.5] * 200).verdict == BEYOND


@pytest.mark.parametrize(
    ("server", "word"),
    [({"late_ms": 10.1}, "10.1 ms late"), ({"cpu_s": 9.6}, "96% of a core"), ({"step_ms": 22.3}, "44.8 tokens/s in place of 50")],
)
def test_a_server_at_its_own_limit_leaves_it_undecided(server: dict[str, float], word: str) -> None:
    for error_ms in (0.1, 5.0):
        report = judged([error_ms] * 200, **server)  # type: ignore[arg-type]
        assert (report.verdict, exit_code(report.verdict)) == (UNDECIDED, 99)
        text = " ".join(page(report).split())
        assert "because the simulated server could not keep up" in text and word in text
        assert f"off by {error_ms:.3f} ms" in text


def test_a_server_that_is_only_nearly_at_its_limit_is_good_enough() -> None:
    assert judged([0.1] * 200, late_ms=9.9, cpu_s=9.4, step_ms=22.0).verdict == WITHIN


def test_failed_requests_leave_it_undecided() -> None:
    report = judged([0.1] * 200, failed=3)
    assert report.verdict == UNDECIDED
    text = " ".join(page(report).split())
    assert "3 of 203 requests did not complete (for example: Connection reset by peer)" in text
    assert "simulated server could not keep up" not in text


def test_a_run_without_a_single_reply_has_a_page_too() -> None:
    report = judged([], failed=2)
    assert (report.verdict, report.ttft_error_ms) == (UNDECIDED, None)
    assert "2 of 2 requests did not complete" in " ".join(page(report).split())


def test_pages_fit_eighty_columns_and_json_is_strict() -> None:
    load = CheckLoad(request_rate=1234.5, concurrency=19_000, output_len=2)
    reports = [judged([0.1] * 200), judged([3.0] * 200, cpu_share=1.0), judged([5.0] * 200, late_ms=99, load=load), judged([], failed=1)]
    for report in reports:
        assert max(map(len, page(report).splitlines())) <= 80
        assert b"NaN" not in msgspec.json.encode(report)


def search(*outcomes: tuple[int, str], stopped_by: str = "close") -> Found[Report]:
    base = judged([0.1] * 200)
    tried = [
        (streams, msgspec.structs.replace(base, verdict=said, load=msgspec.structs.replace(LOAD, concurrency=streams))) for streams, said in outcomes
    ]
    largest = max((streams for streams, said in outcomes if said == WITHIN), default=None)
    not_within = min((streams for streams, said in outcomes if said != WITHIN), default=None)
    return Found(largest=largest, smallest_not=not_within, tried=tried, stopped_by=stopped_by)


def test_the_sentence_of_a_search() -> None:
    assert "400 streams (20,000 tokens/s) is the largest" in found_verdict(search((400, WITHIN), (440, BEYOND)))
    assert "440 streams are beyond" in found_verdict(search((400, WITHIN), (440, BEYOND)))
    assert "the client may carry more" in found_verdict(search((400, WITHIN), (440, UNDECIDED)))
    assert "--budget-time" in found_verdict(search((400, WITHIN), stopped_by="time"))
    assert "the most that the system's limits" in found_verdict(search((400, WITHIN), stopped_by="limit"))
    assert found_verdict(search((1, BEYOND), stopped_by="nothing")).startswith("No load was found")
    assert max(map(len, found_page(search((400, WITHIN), (440, BEYOND))).splitlines())) <= 80


def test_the_exit_code_of_a_search() -> None:
    found = search((400, WITHIN), (440, BEYOND))
    assert [exit_code_of_search(found, asked) for asked in (None, 400, 401)] == [0, 0, 99]
    assert exit_code_of_search(search((1, BEYOND)), None) == 99


@pytest.mark.parametrize(
    ("fields", "flag"),
    [
        ({"concurrency": 0}, "--concurrency"),
        ({"output_len": 1}, "--output-len"),
        ({"workers": 0}, "--workers"),
        ({"request_rate": 0.0}, "--request-rate"),
        ({"duration_s": float("nan")}, "--duration"),
        ({"duration_s": float("inf")}, "--duration"),
        ({"limit_ms": -1.0}, "--limit-ms"),
        ({"tokens_per_second": float("nan")}, "--tokens-per-second"),
        ({"clock": "sun"}, "--clock"),
        ({"concurrency": 10**9}, "ulimit"),
    ],
)
def test_a_load_that_cannot_be_is_refused_by_name(fields: dict[str, Any], flag: str) -> None:
    with pytest.raises(UsageError, match=flag):
        CheckLoad(**fields).validated()


def test_what_a_load_becomes() -> None:
    load = CheckLoad(concurrency=300, output_len=100).validated()
    assert load.reply_s == pytest.approx(1.99)
    assert load.requests == 300 * 5  # 10 s / 1.99 s
    assert load.config("http://x").max_concurrency == 300
    assert CheckLoad().validated().concurrency == 100
    assert CheckLoad(duration_s=2).output_tokens == 25  # a quarter of 2 s at 50/s
    open_loop = CheckLoad(request_rate=40, duration_s=5, output_len=101).validated()
    assert (open_loop.requests, open_loop.config("http://x").max_concurrency) == (200, None)
    assert open_loop.streams == pytest.approx(40 * 2.01)
    load.config("http://x").validated()
