"""`loadstone compare` on files: verdicts, what is not comparable, groups of repeats, conditions, forms of output."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compare.conftest import Write, document
from loadstone.cli.main import main
from loadstone.compare.alike import different
from loadstone.compare.fail_if import condition_of
from loadstone.compare.read import side
from loadstone.compare.rows import BETTER, NONE_SHOWN, NOT_COMPARABLE, WORSE, Row, compare
from loadstone.errors import UsageError


def rows(*names: Any, **options: Any) -> dict[str, Row]:
    pairs = compare([side(str(name)) for name in names], **options)
    return {f"{row.statistic} {row.metric}".strip(): row for row in pairs[-1].rows}


def test_a_run_with_itself_shows_nothing(write: Write) -> None:
    path = write("a.json", document())
    found = rows(path, path)
    assert {row.verdict for row in found.values()} == {NONE_SHOWN}
    assert found["mean ttft"].difference == 0 and found["mean ttft"].low is not None


def test_a_shift_is_found_and_has_the_right_size(write: Write) -> None:
    found = rows(write("a.json", document(1)), write("b.json", document(2, factor=1.1)))
    ttft = found["mean ttft"]
    assert ttft.verdict == WORSE and found["mean itl"].verdict == WORSE
    assert ttft.percent is not None and ttft.low is not None and ttft.high is not None and ttft.low < 10 < ttft.high
    assert ttft.percent == pytest.approx(100 * (ttft.b / ttft.a - 1))
    assert rows(write("b.json", document(2, factor=1.1)), write("a.json", document(1)))["mean ttft"].verdict == BETTER


def test_figures_are_the_files(write: Write) -> None:
    made = document()
    found = rows(write("a.json", made), write("b.json", document(2)))
    assert found["p99 tpot"].a == pytest.approx(made["p99_tpot_ms"]) and found["requests"].a == 10.0


def test_samples_of_something_else_are_not_used(write: Write) -> None:
    """Arrays that do not give the file's own figure say nothing of its error."""
    changed = document(mean_ttft_ms=150.0)
    found = rows(write("a.json", changed), write("b.json", document(2)))
    assert found["mean ttft"].a == 150.0 and found["mean ttft"].low is None and found["median ttft"].low is not None


def test_without_per_request_data_nothing_is_shown(write: Write) -> None:
    found = rows(write("a.json", document(detailed=False)), write("b.json", document(2, factor=3.0, detailed=False)))
    assert {row.verdict for row in found.values()} == {NONE_SHOWN}
    assert "without per-request data" in found["mean ttft"].why


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"model_id": "org/other"}, "model"),
        ({"request_rate": 20.0}, "load"),
        ({"max_concurrency": 8}, "load"),
        ({"total_output_tokens": 6000}, "lengths"),
        ({"command": ["loadstone", "bench", "serve", "--seed", "3"]}, "seed"),
        ({"command": ["loadstone", "bench", "serve", "--dataset-name=sharegpt"]}, "data"),
    ],
)
def test_what_was_asked_must_be_alike(write: Write, changes: dict[str, Any], fact: str) -> None:
    names = write("a.json", document(1)), write("b.json", document(2, factor=2.0, **changes))
    found = rows(*names)
    assert {row.verdict for row in found.values()} == {NOT_COMPARABLE} and fact in found["mean ttft"].why
    assert rows(*names, allowed=[fact])["mean ttft"].verdict == WORSE


def test_small_differences_of_length_and_names_of_models_are_no_other_run(write: Write) -> None:
    a, b = side(str(write("a.json", document()))), side(str(write("b.json", document(model_id="M", total_output_tokens=5200))))
    assert different(a, b) == {}


def test_seeds_of_repeats_may_differ(write: Write) -> None:
    for seed in (1, 2):
        write(f"a/{seed}.json", document(seed, command=["loadstone", "--seed", str(seed)]))
        write(f"b/{seed}.json", document(seed + 5, command=["loadstone", "--seed", str(seed + 5)]))
    folder = write("a/1.json", document()).parent
    assert different(side(str(folder)), side(str(folder.parent / "b"))) == {}


def test_itl_of_two_definitions_is_not_compared(write: Write) -> None:
    found = rows(write("a.json", document()), write("b.json", document(itl_basis="token")))
    assert found["mean itl"].verdict == NOT_COMPARABLE and "gap between" in found["mean itl"].why
    assert found["mean ttft"].verdict == NONE_SHOWN


def test_repeats_pool_samples_and_judge_by_runs(write: Write) -> None:
    """The percentile is that of all samples together, not the mean of percentiles; the interval is Welch's over the runs."""
    first, second = document(1, n=200), document(2, n=600)
    paths = [write(f"a{number}.json", each) for number, each in enumerate((first, second))]
    others = [write(f"b{number}.json", document(number, factor=1.5)) for number in (3, 4, 5)]
    found = rows(",".join(map(str, paths)), ",".join(map(str, others)))
    pooled = np.percentile([1e3 * each for made in (first, second) for each in made["ttfts"]], 99)
    assert found["p99 ttft"].a == pytest.approx(pooled)
    assert found["p99 ttft"].a != pytest.approx((first["p99_ttft_ms"] + second["p99_ttft_ms"]) / 2, rel=1e-4)
    assert found["median ttft"].verdict == WORSE
    bare = [write(f"c{number}.json", document(number, n=200 * number, detailed=False)) for number in (1, 2)]
    assert rows(",".join(map(str, bare)), others[0])["p99 ttft"].a == pytest.approx(
        np.mean([document(number, n=200 * number)["p99_ttft_ms"] for number in (1, 2)])
    )


def test_rates_of_repeats_are_over_all_their_time(write: Write) -> None:
    """10 a second for 100 s and 40 a second for 50 s are 3000 in 150 s."""
    path = write("a.jsonl", document(detailed=False), document(detailed=False, duration=50.0, request_throughput=40.0))
    assert rows(f"{path}#all", f"{path}#1")["requests"].a == pytest.approx(20.0)


def test_which_result_of_a_file(write: Write, tmp_path: Path) -> None:
    path = write("a.jsonl", document(model_id="one"), document(model_id="two"), document(model_id="three"))
    names = [side(f"{path}{mark}")[-1].facts["model"] for mark in ("", "#1", "#-2", "#all")]
    assert names == ["three", "one", "two", "three"] and len(side(f"{path}#all")) == 3
    with pytest.raises(UsageError, match="holds 3 results"):
        side(f"{path}#4")
    with pytest.raises(UsageError, match="without a result file"):
        (tmp_path / "empty").mkdir()
        side(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("[]", "it is a list of 0"),
        ('{"prompt": "x"}', "looks like a row of a data set"),
        ("# text", "line 1 is not JSON"),
        ('{"loadstone_version": "9", "schema": "loadstone.result/9"}', "'loadstone.result/9'; this version of loadstone reads up to"),
        ('{"schema":"loadstone.records/9"}', "has the schema 'loadstone.records/9'"),
    ],
)
def test_what_is_no_result_is_named(tmp_path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    for command in (["compare", str(path), str(path)], ["show", str(path)]):
        assert main(command) == 2
        assert said in capsys.readouterr().err


def test_output_fits_80_columns_and_the_json_is_strict(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(write("a.json", document(1))), str(write("b.json", document(2, factor=30.0))), str(write("c.json", document(3, factor=0.01)))]
    assert main(["compare", *names, "--json", str(tmp_path / "out.json")]) == 0
    text = capsys.readouterr().out
    assert max(len(line) for line in text.splitlines() if str(tmp_path) not in line) <= 80
    assert "worse" in text and "better" in text
    written = json.loads((tmp_path / "out.json").read_text(), parse_constant=lambda word: pytest.fail(word))
    assert [each["name"] for each in written["comparisons"]] == ["B", "C"]
    assert main(["compare", *names, "--format", "markdown"]) == 0
    assert "| metric | A | B | change |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("condition", "factor", "code"),
    [
        ("mean ttft worse by 5%", 1.2, 99),
        ("mean ttft worse by 50%", 1.2, 0),
        ("mean ttft worse by 5%", 1.0, 0),
        ("mean ttft worse", 0.5, 0),
        ("median tpot worse by 1 ms", 1.2, 99),
        ("p90 ttft worse by 5%", 1.3, 99),
        ("output throughput worse by 5%", 1.0, 2),
        ("p99.9 ttft worse by 5%", 1.3, 2),
    ],
)
def test_conditions(write: Write, condition: str, factor: float, code: int) -> None:
    """99 when it is shown and large enough, 0 when not, 2 when nothing can be said: a build must not pass for want of data."""
    names = [str(write("a.json", document(1))), str(write("b.json", document(2, factor=factor)))]
    assert main(["compare", *names, "--fail-if", condition]) == code


def test_what_is_not_comparable_decides_nothing(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    names = [str(write("a.json", document(1))), str(write("b.json", document(2, request_rate=99.0)))]
    assert main(["compare", *names, "--fail-if", "mean ttft worse by 5%"]) == 2
    assert "cannot be decided: not comparable: other load" in capsys.readouterr().err


def test_conditions_are_read() -> None:
    found = condition_of("P99 TTFT worse by 0.5s")
    assert (found.metric, found.statistic, found.amount, found.relative) == ("ttft", "p99", 500.0, False)
    found = condition_of("request throughput worse by 3%")
    assert (found.metric, found.statistic, found.amount, found.relative) == ("requests", "", 3.0, True)
    assert condition_of("p50 itl worse").statistic == "median"
    found = condition_of("error rate worse by 1%")
    assert (found.metric, found.amount, found.relative) == ("errors", 1.0, False)
    assert condition_of("goodput worse by 2%").relative and condition_of("goodput worse by 2req/s").amount == 2


@pytest.mark.parametrize("text", ["p99 ttft > 5%", "p99 tfft worse by 5%", "ttft worse by 5%", "p99 ttft worse by 5 req/s", "worse by 5%", ""])
def test_what_is_no_condition_names_the_flag(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-if"):
        condition_of(text)


def test_wrong_use(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write("a.json", document()))
    for words, said in (([path], "needs 2"), ([path, path, "--allow", "colour"], "--allow 'colour'"), ([path, "none.json"], "none.json")):
        assert main(["compare", *words]) == 2
        assert said in capsys.readouterr().err
