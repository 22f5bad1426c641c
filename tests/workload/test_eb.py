"""EB and EBChat: what of a row goes where."""

import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload
from loadstone.workload.base import Prompt

EB = {
    "text": "hello there",
    "temperature": 0.8,
    "penalty_score": 1.0,
    "frequency_score": 0.1,
    "presence_score": 0,
    "topp": "0.7",
    "input_token_num": 17,
    "max_dec_len": 99,
    "other": 1,
}
CHAT = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "first"},
    {"role": "assistant", "content": "b"},
    {"role": "user", "content": "c d"},
]


def load(path, name, tokenizer=None, **fields):
    return load_workload(RunConfig(model="m", dataset_name=name, dataset_path=path, **{"num_prompts": 1, **fields}), tokenizer)


def test_eb_row(data_file, bpe):
    expected = Prompt(
        text="hello there",
        prompt_tokens=17,
        output_tokens=99,
        extra={"temperature": 0.8, "repetition_penalty": 1.0, "frequency_penalty": 0.1, "presence_penalty": 0, "top_p": 0.7},
    )
    assert load(data_file([EB]), "EB").prompts == [expected] == load(data_file([EB]), "EB", bpe).prompts


def test_absent_fields_of_eb_are_not_sent(data_file, bpe):
    path = data_file([{"text": "hello there", "topp": None, "max_dec_len": 0}])
    assert load(path, "EB").prompts == [Prompt(text="hello there")]
    assert load(path, "EB", bpe).prompts == [Prompt(text="hello there", prompt_tokens=bpe.count("hello there"))]


@pytest.mark.parametrize("field", ["temperature", "penalty_score", "frequency_score", "presence_score", "topp", "input_token_num", "max_dec_len"])
def test_bad_fields_of_eb(data_file, field):
    for bad in ("much", "nan", "inf", [1], True, {}):
        with pytest.raises(UsageError, match=f"line 1: `{field}` must be a"):
            load(data_file([{**EB, field: bad}]), "EB")
    with pytest.raises(UsageError, match="line 1: `text`"):
        load(data_file([{"prompt": "a"}]), "EB")


def test_ebchat_row(data_file):
    row = {"messages": CHAT, "max_tokens": 50, "temperature": 0.3, "response_format": {"type": "json_object"}, "metadata": {"enable_thinking": False}}
    [prompt] = load(data_file([row]), "EBChat").prompts
    assert prompt == Prompt(
        text="c d",
        messages=CHAT,
        output_tokens=50,
        extra={"temperature": 0.3, "response_format": {"type": "json_object"}, "metadata": {"enable_thinking": False}},
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({}, 12288), ({"max_tokens": None}, 12288), ({"max_completion_tokens": 9}, 9), ({"max_tokens": 8, "max_completion_tokens": 9}, 8)],
)
def test_limit_of_ebchat(data_file, limits, expected):
    [prompt] = load(data_file([{"messages": CHAT, **limits}]), "EBChat").prompts
    assert (prompt.output_tokens, prompt.extra) == (expected, {})


def test_fields_that_belong_to_the_run_are_left_out_with_a_note(data_file):
    workload = load(data_file([{"messages": CHAT, "model": "gpt", "stream": False, "user": "u"}]), "EBChat")
    assert workload.prompts[0].extra == {"user": "u"}
    assert workload.notes == ["left out of the data set's rows, as the run decides on them: model, stream"]


@pytest.mark.parametrize("messages", [None, "hello", [], ["hello"], {"role": "user"}, [CHAT[0], None]])
def test_ebchat_messages_that_are_none(data_file, messages):
    with pytest.raises(UsageError, match="line 2: `messages` must be a list"):
        load(data_file([{"messages": CHAT}, {"messages": messages}]), "EBChat")
    with pytest.raises(UsageError, match="line 1: `max_tokens`"):
        load(data_file([{"messages": CHAT, "max_tokens": "many"}]), "EBChat")


def test_ebchat_counts_the_whole_conversation(data_file, bpe):
    [prompt] = load(data_file([{"messages": CHAT}]), "EBChat", bpe).prompts
    assert prompt.prompt_tokens == sum(bpe.count(message["content"]) for message in CHAT)


class Templated:
    name = "templated"

    def no_chat_template(self):
        return None

    def apply_chat_template(self, messages):
        return " ".join(message["content"] for message in messages)

    def count_batch(self, texts):
        return [len(text.split()) for text in texts]


def test_ebchat_for_a_completions_backend(data_file):
    path = data_file([{"messages": CHAT}])
    with pytest.raises(UsageError, match="--backend openai does not take: no tokenizer is loaded; use --backend openai-chat"):
        load(path, "EBChat", backend="openai")
    [prompt] = load(path, "EBChat", Templated(), backend="openai").prompts
    assert (prompt.text, prompt.messages, prompt.prompt_tokens) == ("s first b c d", None, 5)
