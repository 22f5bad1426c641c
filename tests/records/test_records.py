"""Records: their file form, and columns in plan order."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import UsageError
from loadstone.records import ABSENT, Record, Records, RunHeader, encode_record, open_records, read_records, write_header


def write(path: Path, *records: Record, tail: bytes = b"") -> Path:
    with path.open("wb") as file:
        write_header(file, RunHeader(clock="kernel", wall_clock_of_zero_ns=7, command=["loadstone"]))
        for record in records:
            file.write(encode_record(record))
        file.write(tail)
    return path


def test_round_trip(tmp_path: Path) -> None:
    records = [Record(index=1, token_ns=[1, 2**62], text="塔🌊\n", error="x"), Record(index=0, planned_ns=None, server_ns=[3])]
    header, found = read_records(write(tmp_path / "r.jsonl", *records))
    assert found == records
    assert (header.clock, header.wall_clock_of_zero_ns, header.command) == ("kernel", 7, ["loadstone"])


def test_one_record_is_one_line() -> None:
    line = encode_record(Record(index=0, text="a\nb\r\n\u2028"))
    assert line.count(b"\n") == 1 and line.endswith(b"\n")


def test_half_a_surrogate_pair_loses_no_record(tmp_path: Path) -> None:
    _, found = read_records(write(tmp_path / "r.jsonl", Record(index=0, text="x\ud83d y", reasoning="\ud83c\udf0a")))
    assert (found[0].text, found[0].reasoning) == ("x\ufffd y", "🌊")


def test_every_cut_of_the_last_line_leaves_the_others(tmp_path: Path) -> None:
    first, last = Record(index=0, text="塔"), Record(index=1, text="🌊")
    line = encode_record(last)
    for cut in range(len(line) - 1):
        _, found = read_records(write(tmp_path / "r.jsonl", first, tail=line[:cut]))
        assert found == [first]
    _, found = read_records(write(tmp_path / "r.jsonl", first, tail=line[:-1]))
    assert found == [first, last]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"r\.jsonl, line 3"):
        read_records(write(tmp_path / "r.jsonl", Record(index=0), tail=b"oops\n" + encode_record(Record(index=1))))


def test_what_is_no_records_file_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"oops\n", b"[1]\n", b'{"sch'):
        path = tmp_path / "r.jsonl"
        path.write_bytes(content)
        with pytest.raises(UsageError, match="line 1"):
            open_records(path)
    path.write_bytes(b'{"schema":"loadstone.records/9"}\n')
    with pytest.raises(UsageError, match=r"loadstone\.records/9"):
        open_records(path)
    with pytest.raises(UsageError, match="cannot read"):
        open_records(tmp_path / "none")


def test_columns_are_in_plan_order() -> None:
    late = Record(index=9, sent_ns=90, token_ns=[1, 2, 3], output_tokens=3, status="failed", reason="reset")
    none = Record(index=5, text="t")
    early = Record(index=2, sent_ns=20, token_ns=[7], token_counts=[4], cached_tokens=0)
    records = Records([late, none, early])
    assert len(records) == 3
    assert records.index.tolist() == [2, 5, 9]
    assert records.sent_ns.tolist() == [20, ABSENT, 90]
    assert records.token_ns.tolist() == [7, 1, 2, 3] and records.token_rows.tolist() == [0, 1, 1, 4]
    assert records.token_counts.tolist() == [4] and records.token_count_rows.tolist() == [0, 1, 1, 1]
    assert list(records.reason) == ["", "", "reset"] and list(records.text) == [None, "t", None]
    assert records.completed.tolist() == [True, True, False]
    assert records.cached_tokens[0] == 0 and np.isnan(records.cached_tokens[1]) and records.output_tokens[2] == 3


@given(st.lists(st.lists(st.integers(-(2**62), 2**62), max_size=5), max_size=8), st.randoms())
def test_ragged_rows_in_any_order(rows: list[list[int]], random: Random) -> None:
    made = [Record(index=index, token_ns=row) for index, row in enumerate(rows)]
    random.shuffle(made)
    records = Records(iter(made))
    found = [records.token_ns[records.token_rows[k] : records.token_rows[k + 1]].tolist() for k in range(len(records))]
    assert found == rows


def test_between_is_nan_where_a_time_is_absent_or_the_request_failed() -> None:
    records = Records([Record(index=0, sent_ns=5, end_ns=8), Record(index=1, sent_ns=5), Record(index=2, sent_ns=5, end_ns=8, status="failed")])
    spans = records.between(records.sent_ns, records.end_ns)
    assert spans[0] == 3 and np.isnan(spans[1:]).all()
