"""The verdict: whom it blames, for what, and with which remedy. Figures made up so that one threshold at a time is passed."""

from typing import Any

import pytest

from loadstone.bench.health import verdict
from loadstone.bench.processes import workers_for
from loadstone.config import RunConfig
from loadstone.metrics.summarise import summarise
from loadstone.metrics.summary import Summary
from loadstone.records import Record, Records

CALM = {
    "clock": "kernel",
    "read_late_p99_ms": 0.4,
    "send_late_p99_ms": 0.1,
    "turn_p99_ms": 0.9,
    "merged_share": 0.0,
    "held_back_s": 0.0,
    "stood_still_s": 0.1,
    "wall_s": 10.0,
    "lost_workers": 0,
    "workers": 2,
    "reads": 1000,
    "cpu_share": 0.3,
}


def summary(gap_ms: int = 10) -> Summary:
    """A run of 100 requests sent `gap_ms` apart."""
    records = (
        Record(index=index, sent_ns=index * gap_ms * 10**6, first_token_ns=index * gap_ms * 10**6 + 5, end_ns=index * gap_ms * 10**6 + 9)
        for index in range(100)
    )
    return summarise(Records(records), planned=100)


@pytest.mark.parametrize(
    "figures",
    [
        {},
        {"read_late_p99_ms": 3.0},  # late, but nothing was merged: the kernel's stamps hold
        {"merged_share": 0.5},  # merged, but not late: the server bundles its events
        {"turn_p99_ms": 40.0},  # long turns matter to the user's clock only
        {"read_late_p99_ms": None, "send_late_p99_ms": None, "cpu_share": None},  # nothing known of
    ],
)
def test_the_client_is_not_blamed_for(figures: dict[str, Any]) -> None:
    assert verdict(CALM | figures, summary()).startswith("the client did not set these numbers")


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"read_late_p99_ms": 1.5, "merged_share": 0.002}, "0.20% of the events too late to time them apart"),
        ({"clock": "user", "turn_p99_ms": 6.0}, "up to 6.0 ms late"),
        ({"send_late_p99_ms": 5.5}, "sent requests 5.5 ms late"),
        ({"held_back_s": 2.0}, "held requests back for 2.0 s"),
        ({"stood_still_s": 0.5}, "stood still for 0.5 s"),
        ({"lost_workers": 1}, "1 of its 2 worker processes died"),
    ],
)
def test_the_client_is_blamed_for(figures: dict[str, Any], says: str) -> None:
    found = verdict(CALM | figures, summary())
    assert found.startswith("the client did set some of these numbers") and says in found and "--workers" in found


def test_a_late_send_is_held_against_the_gaps_between_sends() -> None:
    """20 ms late: much for 10 ms gaps, nothing for gaps of a second."""
    assert "20.0 ms late" in verdict(CALM | {"send_late_p99_ms": 20.0}, summary(gap_ms=10))
    assert "did not set" in verdict(CALM | {"send_late_p99_ms": 20.0}, summary(gap_ms=1000))


def test_where_nothing_came_back_nobody_is_blamed() -> None:
    assert "nothing to judge" in verdict(CALM | {"reads": 0, "cpu_share": 0.99}, summary())


def test_a_full_core_is_a_warning() -> None:
    found = verdict(CALM | {"cpu_share": 0.95}, summary())
    assert "did not set" in found and "95%" in found and "--workers" in found


@pytest.mark.parametrize(
    ("fields", "cores", "workers"),
    [
        ({"max_concurrency": 64}, 8, 1),
        ({"max_concurrency": 3500}, 8, 4),
        ({"max_concurrency": 30000}, 8, 7),  # one core is left to others
        ({"max_concurrency": 30000}, 1, 1),
        ({"num_prompts": 5000}, 8, 5),
        ({"request_rate": 4001.0, "num_prompts": 100_000}, 8, 3),
        ({"ramp_up_strategy": "linear", "ramp_up_start_rps": 1.0, "ramp_up_end_rps": 2500.0}, 8, 2),
        ({"workers": 3, "max_concurrency": 64}, 2, 3),
        ({"workers": 4, "max_concurrency": 3}, 8, 3),  # none without a slot
        ({"workers": 8, "num_prompts": 5}, 8, 5),
        ({"workers": 3, "num_prompts": 0, "duration": 5.0, "request_rate": 10.0}, 8, 3),
    ],
)
def test_workers_by_load_and_cores(monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], cores: int, workers: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(cores)), raising=False)
    assert workers_for(RunConfig(**fields).validated()) == workers
