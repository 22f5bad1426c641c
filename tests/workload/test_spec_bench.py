"""spec_bench: the first turn of each row, by category where one is asked for."""

import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload

ROWS = [
    {"question_id": 1, "category": "writing", "turns": ["tell of a river", "and of the sea"]},
    {"question_id": 2, "category": "qa", "turns": ["who was there"]},
    {"question_id": 3, "category": "writing", "turns": ["tell of stones"]},
]


def load(data_file, rows=ROWS, **fields):
    path = data_file(rows)
    return load_workload(RunConfig(model="m", dataset_name="spec_bench", dataset_path=path, **{"num_prompts": 3, **fields}), None)


def test_the_first_turns_in_order(data_file):
    prompts = load(data_file, spec_bench_output_len=64).prompts
    assert [(prompt.text, prompt.output_tokens) for prompt in prompts] == [("tell of a river", 64), ("who was there", 64), ("tell of stones", 64)]


def test_one_category(data_file):
    workload = load(data_file, spec_bench_category="writing", no_oversample=True)
    assert [prompt.text for prompt in workload.prompts] == ["tell of a river", "tell of stones"]


@pytest.mark.parametrize(
    ("rows", "fields", "said"),
    [
        (ROWS, {"spec_bench_category": "writting"}, r"has no such rows \(did you mean writing\?\); it has writing \(2\), qa \(1\)"),
        ([{"turns": []}], {}, "line 1: `turns` must be a list whose first entry is a text"),
        ([{"turns": ["a"]}, {"turns": [3]}], {}, "line 2: `turns` must be"),
    ],
)
def test_what_cannot_be(data_file, rows, fields, said):
    with pytest.raises(UsageError, match=said):
        load(data_file, rows, **fields)
