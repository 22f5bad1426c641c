"""Goodput: who meets an SLO, and who does not."""

from typing import Any

import pytest

from loadstone.errors import UsageError
from loadstone.metrics.goodput import goodput, meets
from loadstone.records import Records

MS = 1_000_000


def good(records: list[Any], slos_ms: dict[str, float], open_loop: bool = False) -> int:
    return goodput(Records(records), slos_ms, open_loop).good


def test_every_slo_must_be_met(reply: Any) -> None:
    quick = reply(0, tokens=[100, 140, 180])
    late = reply(1, tokens=[300, 340, 380])
    slow = reply(2, tokens=[100, 200, 300])
    failed = reply(3, tokens=[1, 2], status="failed", end_ns=2000 * MS)
    found = goodput(Records([quick, late, slow, failed]), {"ttft": 200, "tpot": 50}, open_loop=False)
    assert (found.good, found.per_s, found.share) == (1, 0.5, 0.25)
    assert found.missed == {"ttft": 1, "tpot": 1}


def test_a_value_at_its_limit_meets_it(reply: Any) -> None:
    assert good([reply(tokens=[33.3])], {"ttft": 33.3}) == 1
    assert good([reply(tokens=[33.300001])], {"ttft": 33.3}) == 0


def test_an_absent_value_misses(reply: Any) -> None:
    silent = reply(output_tokens=0)
    for name in ("ttft", "tpot", "itl", "e2el"):
        assert good([silent], {name: 1e9}) == 0
    whole = reply(streamed=False, output_tokens=9, end_ns=50 * MS)
    assert good([whole], {"e2el": 50}) == 1
    assert good([whole], {"ttft": 1e9}) == good([whole], {"tpot": 1e9}) == 0


def test_a_one_token_answer_meets_tpot_and_itl_but_not_ttft_by_itself(reply: Any) -> None:
    one = reply(tokens=[150])
    assert good([one], {"tpot": 1}) == good([one], {"itl": 1}) == 1
    assert good([one], {"tpot": 1, "ttft": 100}) == 0
    assert good([reply(tokens=[150], output_tokens=5)], {"itl": 1}) == 0  # five tokens in one event: nobody saw how they flowed


def test_a_one_token_failure_never_meets(reply: Any) -> None:
    assert not meets(Records([reply(tokens=[150], status="failed")]), "tpot", 1, False).any()


def test_itl_is_held_against_the_largest_gap(reply: Any) -> None:
    stall = reply(tokens=[100, 110, 190, 200])
    assert good([stall], {"itl": 79}) == 0
    assert good([stall], {"itl": 80}) == 1
    assert good([stall], {"tpot": 34}) == 1  # mean gap 33.3: the stall hides in it


def test_an_open_loop_is_held_against_the_time_from_planned(reply: Any) -> None:
    waited = reply(sent=500, tokens=[100, 150], planned_ns=0)
    assert good([waited], {"ttft": 100}, open_loop=False) == 1
    assert good([waited], {"ttft": 100}, open_loop=True) == 0
    assert good([waited], {"ttft": 600}, open_loop=True) == good([waited], {"e2el": 650}, open_loop=True) == 1
    assert good([waited], {"e2el": 649}, open_loop=True) == 0
    assert good([waited], {"tpot": 50, "itl": 50}, open_loop=True) == 1


def test_nobody_and_unknown_names(reply: Any) -> None:
    assert goodput(Records([]), {"ttft": 1}, False).per_s == 0
    with pytest.raises(UsageError, match="ttfb"):
        goodput(Records([reply(tokens=[1])]), {"ttfb": 1}, False)
