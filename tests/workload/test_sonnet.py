"""sonnet: whole lines behind a shared beginning, never longer than asked."""

import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload
from loadstone.workload.sonnet import INSTRUCTION

POEM = "the river runs to the sea\n\nold stones lie still\nnobody knows the way there\na light in a window\n"
LINES = [line + "\n" for line in POEM.split("\n") if line]


def load(data_file, tokenizer=None, text=POEM, **fields):
    path = data_file(text, "poem.txt")
    fields = {"num_prompts": 20, "sonnet_input_len": 40, "sonnet_prefix_len": 24, "sonnet_output_len": 7, **fields}
    return load_workload(RunConfig(model="m", dataset_name="sonnet", dataset_path=path, **fields), tokenizer)


def test_lengths_in_words_without_a_tokenizer(data_file):
    """The instruction has 11 words; 24 leave room for two lines (6 + 4) and not for the third (5), which all prompts then share."""
    workload = load(data_file)
    prompts = list(workload.prompts)
    lead = INSTRUCTION + LINES[0] + LINES[1]
    assert all(prompt.text.startswith(lead) for prompt in prompts)
    for prompt in prompts:
        rest = prompt.text.removeprefix(lead)
        assert set(rest.splitlines(keepends=True)) <= set(LINES)
        # a line of at most 6 words did not fit behind
        assert 34 < len(prompt.text.split()) <= 40
        assert (prompt.output_tokens, prompt.prompt_tokens) == (7, None)
    assert len({prompt.text for prompt in prompts}) > 10
    assert workload.notes[-1] == "all prompts begin with the first 2 lines of poem.txt (--sonnet-prefix-len)"


def test_with_a_tokenizer_no_prompt_is_longer_and_counts_are_true(data_file, merging_bpe):
    size = merging_bpe.count(INSTRUCTION)
    for prompt in load(data_file, merging_bpe, sonnet_input_len=size + 60, sonnet_prefix_len=size).prompts:
        assert prompt.prompt_tokens == merging_bpe.count(prompt.text) <= size + 60
        assert prompt.text.startswith(INSTRUCTION) and prompt.text != INSTRUCTION


def test_the_seed_decides(data_file):
    one, same, other = ([prompt.text for prompt in load(data_file, seed=seed).prompts] for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"sonnet_input_len": 14, "sonnet_prefix_len": 0},
            "--sonnet-input-len 14 is too short: the instruction and the shortest line take 15 tokens",
        ),
        ({"sonnet_input_len": 90, "sonnet_prefix_len": 80}, "--sonnet-prefix-len 80 is longer than the whole of .*poem.txt, which has 20 tokens"),
        ({"text": b"\xff\xfe"}, "poem.txt .* is no UTF-8 text: invalid start byte at byte 0"),
        ({"text": " \n \n"}, "poem.txt .* is empty"),
    ],
)
def test_what_cannot_be(data_file, fields, said):
    with pytest.raises(UsageError, match=said):
        load(data_file, **fields)
