"""The rules that all data sets share: order, exactly --num-prompts, repeats, counts."""

from collections import Counter

import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload, unused_path
from loadstone.workload.base import Prompt
from loadstone.workload.sampling import Skipped, counted, repeats, workload


@pytest.fixture
def ten(data_file):
    return data_file([{"prompt": f"p{number}"} for number in range(10)])


def load(path, **fields):
    return load_workload(RunConfig(model="m", dataset_name="custom", dataset_path=path, **fields), None)


def texts(workload):
    return [prompt.text for prompt in workload.prompts]


def test_the_first_rows_in_order(ten):
    plain = load(ten, num_prompts=4, backend="openai-chat")
    assert texts(plain) == ["p0", "p1", "p2", "p3"] and plain.notes == []


def test_shuffle_is_seeded_and_comes_before_the_choice(ten):
    shuffled = texts(load(ten, num_prompts=4, shuffle=True))
    assert shuffled != ["p0", "p1", "p2", "p3"] and set(shuffled) <= {f"p{number}" for number in range(10)}
    assert shuffled == texts(load(ten, num_prompts=4, shuffle=True))
    assert shuffled == texts(load(ten, num_prompts=10, shuffle=True))[:4]
    assert sorted(texts(load(ten, num_prompts=10, shuffle=True))) == sorted(f"p{number}" for number in range(10))
    assert shuffled != texts(load(ten, num_prompts=4, shuffle=True, seed=1))


def test_few_rows_are_repeated_in_whole_passes(ten):
    repeated = load(ten, num_prompts=34)
    assert texts(repeated)[:10] == [f"p{number}" for number in range(10)]
    passes = [texts(repeated)[start : start + 10] for start in (0, 10, 20)]
    assert all(sorted(part) == sorted(passes[0]) for part in passes) and passes[1] != passes[2]
    assert sorted(Counter(texts(repeated)).values()) == [3] * 6 + [4] * 4
    assert any("10 usable rows for --num-prompts 34" in note and "24 requests repeat" in note for note in repeated.notes)
    assert texts(repeated) == texts(load(ten, num_prompts=34))


def test_repeats_do_not_depend_on_how_many_are_missing():
    assert repeats(5, 7, 20) == repeats(5, 7, 50)[:20]
    assert repeats(5, 1, 3) == [0, 0, 0]


def test_no_oversample_sends_what_is_there(ten):
    short = load(ten, num_prompts=34, no_oversample=True)
    assert len(texts(short)) == 10 and any("10 requests are sent" in note for note in short.notes)


def test_skipped_rows_are_counted_by_reason_as_far_as_they_were_read():
    rows = [Skipped("odd"), Prompt(text="a"), Skipped("long"), Skipped("odd"), Prompt(text="b"), Skipped("never read")]
    made = workload(RunConfig(num_prompts=2), iter(rows), None)
    assert made.skipped == {"odd": 2, "long": 1} and texts(made) == ["a", "b"]
    assert made.notes == ["3 rows of the data set were skipped: odd (2), long (1)"]


def test_no_usable_row_is_an_error_with_the_reasons():
    with pytest.raises(UsageError, match=r"f\.json has no row that can be used; 2 skipped: odd"):
        workload(RunConfig(num_prompts=2, dataset_path="f.json"), [Skipped("odd"), Skipped("odd")], None)


def test_counts_are_those_of_all_texts_of_a_conversation(bpe):
    chat = [
        {"role": "system", "content": "you are old"},
        {"role": "user", "content": [{"type": "text", "text": "what is this"}, {"type": "image_url", "image_url": {"url": "data:"}}]},
        {"role": "assistant", "content": None},
    ]
    prompts = [Prompt(text="one two three"), Prompt(text="this", messages=chat), Prompt(text="x", prompt_tokens=7)]
    expected = [bpe.count("one two three"), bpe.count("you are old") + bpe.count("what is this"), 7]
    assert [prompt.prompt_tokens for prompt in counted(prompts, bpe)] == expected
    assert counted(prompts, None) == prompts


def test_a_path_that_is_not_read_is_noted():
    """vLLM takes it without a word: it is no error here either."""
    (note,) = unused_path(RunConfig(model="m", dataset_path="rows.jsonl"))
    assert "rows.jsonl is not read" in note and "--dataset-name" in note
    assert unused_path(RunConfig(model="m")) == unused_path(RunConfig(model="m", dataset_name="custom", dataset_path="rows.jsonl")) == []
