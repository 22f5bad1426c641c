"""The server's own times, and lengths in tokens."""

import math
from typing import Any

from loadstone.metrics.lengths import input_len, output_len, s_input_len
from loadstone.metrics.server import s_decode, s_e2el_ns, s_itl_ns, s_ttft_ns
from loadstone.records import Records

MS = 1_000_000


def test_the_servers_times_by_hand(reply: Any) -> None:
    records = Records([reply(0, tokens=[30, 60, 90]), reply(1, tokens=[30, 60, 90], server_ns=[20 * MS, 40 * MS, 70 * MS], output_tokens=6)])
    assert math.isnan(s_ttft_ns(records)[0]) and s_ttft_ns(records)[1] == 20 * MS
    assert math.isnan(s_e2el_ns(records)[0]) and s_e2el_ns(records)[1] == 70 * MS
    assert s_itl_ns(records).values.tolist() == [20 * MS, 30 * MS]
    assert math.isnan(s_decode(records)[0]) and s_decode(records)[1] == 5 / 0.05


def test_no_server_speed_without_time_or_tokens(reply: Any) -> None:
    records = Records(
        [reply(0, tokens=[1, 2], server_ns=[5, 5]), reply(1, tokens=[1], server_ns=[5]), reply(2, tokens=[1, 2], server_ns=[5, 9], status="failed")]
    )
    assert [math.isnan(value) for value in s_decode(records)] == [True] * 3
    assert [math.isnan(value) for value in s_ttft_ns(records)] == [False, False, True]


def test_lengths_are_the_servers_and_absent_where_it_did_not_tell(reply: Any) -> None:
    told = reply(0, tokens=[1, 2], prompt_tokens=33, prompt_token_source="usage", cached_tokens=0)
    local = reply(1, tokens=[1], prompt_tokens=20, prompt_token_source="local")
    failed = reply(2, tokens=[1], prompt_tokens=20, prompt_token_source="usage", cached_tokens=7, status="failed")
    records = Records([told, local, failed])
    assert input_len(records).tolist()[0] == 0 and all(math.isnan(value) for value in input_len(records)[1:])
    assert s_input_len(records).tolist()[0] == 33 and all(math.isnan(value) for value in s_input_len(records)[1:])
    assert output_len(records).tolist()[:2] == [2, 1] and math.isnan(output_len(records)[2])
