"""What the seed decides about requests."""

from collections import Counter

import pytest

from loadstone.simulator.asking import Asked
from loadstone.simulator.chances import fate
from loadstone.simulator.options import SimulatorOptions


def asked(**fields: object) -> Asked:
    plain: dict[str, object] = {
        "chat": True,
        "stream": True,
        "include_usage": False,
        "continuous_usage": False,
        "prompt_tokens": 5,
        "limit": 10,
        "least": 0,
        "ignore_eos": False,
        "blocks": (),
    }
    return Asked(**(plain | fields))  # type: ignore[arg-type]


def test_lengths_are_as_asked_without_an_end_of_sequence() -> None:
    options = SimulatorOptions(default_max_tokens=40, max_model_len=50)
    assert [(f.length, f.finish_reason) for f in (fate(0, asked(), options), fate(0, asked(limit=None), options))] == [(10, "length"), (40, "stop")]
    assert fate(0, asked(limit=None, prompt_tokens=30), options).length == 20  # what the context leaves
    assert fate(0, asked(limit=None, least=44), options).length == 44
    assert fate(0, asked(limit=None, ignore_eos=True), options).finish_reason == "length"


def test_shares_of_errors_are_kept_and_reproducible() -> None:
    options = SimulatorOptions(error_rate=0.1, reset_rate=0.05, stall_rate=0.05, truncate_rate=0.02, error_event_rate=0.08, seed=3)
    fates = [fate(number, asked(), options) for number in range(20_000)]
    counts = Counter(f.fault for f in fates)
    for kind, share in (("error", 0.1), ("reset", 0.05), ("stall", 0.05), ("truncate", 0.02), ("error_event", 0.08), (None, 0.7)):
        deviation = (share * (1 - share) * 20_000) ** 0.5
        assert abs(counts[kind] - share * 20_000) < 4 * deviation
    assert fates == [fate(number, asked(), options) for number in range(20_000)]
    assert Counter(fate(number, asked(), SimulatorOptions(error_rate=0.1, seed=4)).fault for number in range(20_000)) != counts
    assert {f.fault_event for f in fates} == set(range(1, 10))  # after the first event, before the last has gone


def test_a_reply_of_one_event_can_only_fail_in_its_place() -> None:
    assert fate(0, asked(limit=1), SimulatorOptions(reset_rate=1)).fault_event == 0
    assert fate(0, asked(limit=4), SimulatorOptions(reset_rate=1, tokens_per_event=4)).fault_event == 0


def test_end_of_sequence_is_geometric_from_the_least_length() -> None:
    options = SimulatorOptions(eos_probability=0.2)
    lengths = [fate(number, asked(limit=1000), options).length for number in range(20_000)]
    assert sum(lengths) / len(lengths) == pytest.approx(1 / 0.2, rel=0.03)
    assert Counter(lengths)[1] / len(lengths) == pytest.approx(0.2, abs=0.015)
    with_least = [fate(number, asked(limit=1000, least=7), options) for number in range(20_000)]
    assert min(f.length for f in with_least) == 7
    assert sum(f.length for f in with_least) / len(with_least) == pytest.approx(6 + 1 / 0.2, rel=0.03)
    assert {f.finish_reason for f in with_least} == {"stop"}


def test_the_limit_cuts_and_ignore_eos_ignores() -> None:
    always = SimulatorOptions(eos_probability=1)
    assert (fate(0, asked(), always).length, fate(0, asked(ignore_eos=True), always).length) == (1, 10)
    rarely = [fate(number, asked(), SimulatorOptions(eos_probability=0.01)) for number in range(500)]
    assert {(f.length, f.finish_reason) for f in rarely if f.length == 10} >= {(10, "length")}
    assert max(f.length for f in rarely) == 10
