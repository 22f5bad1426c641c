"""Reading data files: what real files have in them, and faults told by file and line."""

import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload, names


def load(path, dataset_name="custom", **fields):
    return load_workload(RunConfig(model="m", dataset_name=dataset_name, dataset_path=path, **{"num_prompts": 2, **fields}), None)


def texts(workload):
    return [prompt.text for prompt in workload.prompts]


def test_bom_crlf_blank_lines_and_no_last_newline(data_file):
    path = data_file(b'\xef\xbb\xbf{"prompt":"a"}\r\n\r\n   \n{"prompt":"b"}')
    workload = load(path)
    assert texts(workload) == ["a", "b"] and workload.skipped == {}


def test_a_line_that_is_not_json_stops_the_load_with_its_number(data_file):
    path = data_file(b'\xef\xbb\xbf{"prompt":"a"}\r\n\r\noops\n{"prompt":"b"}')
    with pytest.raises(UsageError, match=r"data\.jsonl, line 3"):
        load(path)
    with pytest.raises(UsageError, match=r"data\.jsonl, line 3"):
        load(path, num_prompts=1)


@pytest.mark.parametrize("line", ["[1]", '"text"', "null", "7", '{"prompt": NaN}', '{"prompt": "a"} {}', '{"prompt": "a"', b'{"prompt": "\xff"}'])
def test_what_is_no_object(data_file, line):
    good = b'{"prompt": "a"}\n'
    with pytest.raises(UsageError, match="line 2"):
        load(data_file(good + (line if isinstance(line, bytes) else line.encode())))


def test_half_a_surrogate_pair_becomes_a_replacement_character(data_file):
    [text, _] = texts(load(data_file('{"prompt": "a\\ud83d b"}\n{"prompt": "\\ud83d\\ude00"}')))
    assert text == "a\ufffd b"
    text.encode()


def test_line_separators_inside_texts_are_no_line_ends(data_file):
    assert texts(load(data_file('{"prompt": "a\u2028b\x85c"}\n{"prompt": "d"}')))[0] == "a\u2028b\x85c"


@pytest.mark.parametrize("name", ["custom", "sharegpt", "EB", "EBChat"])
def test_the_file_must_be_given_be_there_be_a_file_and_hold_something(data_file, tmp_path, name):
    with pytest.raises(UsageError, match=f"--dataset-name {name} needs --dataset-path"):
        load(None, name)
    with pytest.raises(UsageError, match=r"gone\.json.*No such file"):
        load(str(tmp_path / "gone.json"), name)
    with pytest.raises(UsageError, match="Is a directory"):
        load(str(tmp_path), name)
    with pytest.raises(UsageError, match="is empty"):
        load(data_file(" \n"), name)


def test_names_of_data_sets():
    assert names() == ["random", "custom", "sharegpt", "EB", "EBChat", "sonnet", "prefix_repetition", "spec_bench"]
    with pytest.raises(UsageError, match="burstgpt: there is no such data set; there are random, custom, sharegpt, EB, EBChat, sonnet, "):
        load(None, "burstgpt")


@pytest.mark.parametrize("name", ["Custom", "CUSTOM"])
def test_names_are_taken_in_any_case(data_file, name):
    assert texts(load(data_file([{"prompt": "a"}, {"prompt": "b"}]), name)) == ["a", "b"]
