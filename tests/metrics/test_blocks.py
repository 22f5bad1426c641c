"""A run read from disk in blocks has the same numbers as the same run held in memory."""

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from loadstone.metrics import selection
from loadstone.metrics.catalogue import METRICS
from loadstone.metrics.summarise import summarise
from loadstone.metrics.summary import Summary
from loadstone.records import ColumnWriter, Record, Records, columns, pieces

MS = 1_000_000


def a_run(seed: int, tell: float, counts: list[int]) -> list[Record]:
    """60 requests of every kind, in the order in which they end. `tell`: share of replies that tell the tokens of each event, out of `counts`."""
    random = Random(seed)
    run = []
    for index in range(60):
        sent = index * 50 * MS + random.randrange(MS)
        events = random.choice([0, 1, 2, 5, 30])
        status = random.choices(["completed", "failed", "cancelled"], [8, 1, 1])[0]
        gaps = [random.choice([0, 20 * MS, 20 * MS + 1, random.randrange(100 * MS), random.randrange(6000 * MS)]) for _ in range(events)]
        times = [sum(gaps[: k + 1]) for k in range(events)]
        tokens = [random.choice(counts) for _ in times] if random.random() < tell else []
        found: dict[str, Any] = {"index": index, "sent_ns": sent, "planned_ns": index * 50 * MS, "token_ns": times, "status": status}
        found |= {"end_ns": sent + (times[-1] if times else 0) + 3, "streamed": random.random() < 0.9, "token_counts": tokens}
        found |= {"server_ns": [each // 2 for each in times] if random.random() < 0.7 else [], "token_source": random.choice(["usage", "events"])}
        if times:
            found |= {"first_token_ns": sent + times[0], "last_token_ns": sent + times[-1], "output_tokens": sum(tokens) or events}
        if status != "completed":
            found |= {"reason": random.choice(["", "reset", "http 429"]), "error": random.choice(["", "why"])}
        run.append(Record(**found))
    random.shuffle(run)
    return run


def figures(summary: Summary) -> Any:
    return msgspec.to_builtins(summary)


def same(found: Any, wanted: Any, exact: bool) -> None:
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            same(found[key], wanted[key], exact)
    elif isinstance(wanted, float) and not exact:
        assert found == pytest.approx(wanted, rel=1e-12)
    else:
        assert found == wanted


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("tell", "counts", "exact"), [(0, [1], True), (1, [1], True), (0.5, [1, 2], True), (1, [0, 1, 1, 3], False)])
def test_every_figure_is_the_same(seed: int, tell: float, counts: list[int], exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(seed, tell, counts)
    options: dict[str, Any] = {"planned": 63, "dropped": 3, "percentiles": ["1", "99", "99.9"], "open_loop": True}
    options["slos_ms"] = {"ttft": 100, "itl": 50, "tpot": 30, "e2el": 3000}
    wanted = figures(summarise(Records(run), **options))
    for number, half in enumerate((run[:25], run[25:])):
        with ColumnWriter(tmp_path / str(number)) as out:
            for record in half:
                out.add(record)
    for whole in (0, 1 << 20):
        monkeypatch.setattr(columns, "WHOLE_VALUES", whole)
        monkeypatch.setattr(columns, "BLOCK_VALUES", 60)
        monkeypatch.setattr(pieces, "CHUNK_ROWS", 7)
        monkeypatch.setattr(selection, "HELD", 10)
        found = figures(summarise(Records.open(tmp_path / "0", tmp_path / "1"), **options))
        peak = found.pop("peak_output_tokens_per_s")  # sums of broken numbers, in another order
        assert peak == pytest.approx(wanted["peak_output_tokens_per_s"])
        same(found, {key: value for key, value in wanted.items() if key != "peak_output_tokens_per_s"}, exact)


def test_the_flat_columns_are_never_whole_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ColumnWriter(tmp_path / "run") as out:
        for record in a_run(0, 1, [0, 1, 2]):
            out.add(record)
    monkeypatch.setattr(columns, "WHOLE_VALUES", 30)
    records = Records.open(tmp_path / "run")
    summarise(records, planned=60, open_loop=True, slos_ms={"itl": 50})
    assert not {"token_ns", "token_gaps", "token_counts", "server_ns", "server_gaps"} & set(vars(records))


def test_every_metric_has_samples_or_gaps() -> None:
    assert all((metric.samples is None) != (metric.gaps is None) for metric in METRICS.values())
