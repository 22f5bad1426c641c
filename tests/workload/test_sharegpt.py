"""sharegpt: which turns are used, which rows are not, and vLLM's limits."""

import json

import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload
from loadstone.workload.sharegpt import Skipped, Turns, first_turns

HUMAN, GPT = {"from": "human", "value": "what is an old river"}, {"from": "gpt", "value": "it is water"}


def load(data_file, rows, tokenizer=None, **fields):
    path = data_file(json.dumps(rows), "data.json")
    return load_workload(RunConfig(model="m", dataset_name="sharegpt", dataset_path=path, **{"num_prompts": 10, **fields}), tokenizer)


def chat(*turns):
    return {"id": "x", "conversations": list(turns)}


ODD_ROWS = [
    {"id": "x"},
    chat(),
    chat(HUMAN),
    chat(HUMAN, GPT),
    chat({"from": "system", "value": "be brief"}, {"from": "human", "value": "who are you there"}, {"from": "gpt", "value": "a"}),
    chat(HUMAN, {"from": "gpt", "value": ""}),
]


def test_odd_rows_are_skipped_and_counted(data_file):
    workload = load(data_file, ODD_ROWS, no_oversample=True)
    one, two = workload.prompts
    assert (one.text, one.messages, one.output_tokens) == ("what is an old river", None, 3)
    assert (two.text, two.output_tokens) == ("who are you there", 1)
    assert two.messages == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "who are you there"}]
    assert sum(workload.skipped.values()) == 4
    assert workload.skipped == {"fewer than two turns": 2, "no conversation": 1, "empty answer": 1}


def test_two_rows_make_ten_prompts_by_repeating(data_file):
    workload = load(data_file, ODD_ROWS)
    assert sorted(prompt.text for prompt in workload.prompts) == ["what is an old river"] * 5 + ["who are you there"] * 5


def test_a_completions_backend_is_sent_the_question_alone(data_file, bpe):
    _, two = load(data_file, ODD_ROWS, bpe, no_oversample=True, backend="openai").prompts
    assert (two.text, two.messages, two.prompt_tokens) == ("who are you there", None, bpe.count("who are you there"))


def test_lengths_are_tokens_where_there_is_a_tokenizer(data_file, bpe):
    one, two = load(data_file, ODD_ROWS, bpe, no_oversample=True).prompts
    assert (one.prompt_tokens, one.output_tokens) == (bpe.count(HUMAN["value"]), bpe.count(GPT["value"]))
    assert two.prompt_tokens == bpe.count("be brief") + bpe.count("who are you there")
    assert bpe.count(GPT["value"]) != 0


def test_output_length_of_the_flag(data_file):
    workload = load(data_file, ODD_ROWS, sharegpt_output_len=77, no_oversample=True)
    assert [prompt.output_tokens for prompt in workload.prompts] == [77, 77]
    with pytest.raises(UsageError, match="--sharegpt-output-len"):
        load(data_file, ODD_ROWS, sharegpt_output_len=0)


class Words:
    """One token a word."""

    def count_batch(self, texts):
        return [len(text.split()) for text in texts]


def sized(prompt, answer):
    return chat({"from": "human", "value": "w " * prompt}, {"from": "gpt", "value": "w " * answer})


def test_limits_of_vllm(data_file):
    rows = [sized(3, 5), sized(4, 1), sized(1024, 1024), sized(1025, 5), sized(1024, 1025)]
    workload = load(data_file, rows, Words(), no_oversample=True)
    assert [(prompt.prompt_tokens, prompt.output_tokens) for prompt in workload.prompts] == [(4, 1), (1024, 1024)]
    assert workload.skipped == {"prompt under 4 tokens": 1, "prompt over 1024 tokens": 1, "prompt and answer over 2048 tokens": 1}


def test_limits_that_words_can_tell(data_file):
    rows = [sized(3, 5), sized(1025, 5), sized(1024, 1025)]
    workload = load(data_file, rows, no_oversample=True)
    assert [(len(prompt.text.split()), prompt.prompt_tokens, prompt.output_tokens) for prompt in workload.prompts] == [(3, None, 5)]
    assert sum(workload.skipped.values()) == 2 and "words" in workload.notes[0]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], Turns("", "q", "a")),
        ([{"from": "User", "value": "q"}, {"from": "ChatGPT", "value": "a"}], Turns("", "q", "a")),
        ([{"from": "gpt", "value": "hi"}, {"from": "human", "value": "q"}, {"from": "bing", "value": "a"}], Turns("", "q", "a")),
        (
            [{"from": "human", "value": "q"}, {"from": "human", "value": "r"}, {"from": "gpt", "value": "a"}],
            Skipped("no answer after the first question"),
        ),
        ([{"from": "gpt", "value": "a"}, {"from": "gpt", "value": "b"}], Skipped("no answer after the first question")),
        ([{"from": "human", "value": " "}, {"from": "gpt", "value": "a"}], Skipped("empty question")),
        ([{"from": "human", "value": None}, {"from": "gpt", "value": "a"}], Skipped("empty question")),
        ([None, 3], Skipped("no answer after the first question")),
        ("text", Skipped("no conversation")),
    ],
)
def test_first_turns(turns, expected):
    assert first_turns({"conversations": turns}) == expected
    assert first_turns([turns]) == Skipped("no conversation")


def test_a_file_that_is_no_list(data_file):
    path = data_file('{"conversations": []}', "one.json")
    with pytest.raises(UsageError, match=r"one\.json.*one JSON list.*object"):
        load_workload(RunConfig(dataset_name="sharegpt", dataset_path=path), None)


def test_rows_are_read_no_further_than_needed_but_in_shuffled_order(data_file):
    rows = [chat({"from": "human", "value": f"what is number {n}"}, GPT) for n in range(600)]
    texts = [prompt.text for prompt in load(data_file, rows, num_prompts=300, shuffle=True).prompts]
    assert len(set(texts)) == 300 and texts != [f"what is number {n}" for n in range(300)]
    assert [prompt.text for prompt in load(data_file, rows, num_prompts=300).prompts] == [f"what is number {n}" for n in range(300)]
