"""--cache-bust: no two requests begin alike, in one run or in two with different seeds, and their tokens are counted with the mark."""

import json

import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload
from loadstone.workload.base import Prompt
from loadstone.workload.cache_bust import mark, marked


def run(tmp_path, tokenizer=None, **fields):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"prompt": "the same"}) + "\n")
    config = RunConfig(model="m", dataset_name="custom", dataset_path=str(tmp_path / "rows.jsonl"), num_prompts=300, cache_bust=True, **fields)
    return list(load_workload(config, tokenizer).prompts)


def test_repeated_rows_begin_differently_by_seed_and_number(tmp_path):
    one, again, other = run(tmp_path), run(tmp_path), run(tmp_path, seed=1)
    assert [prompt.text for prompt in one] == [prompt.text for prompt in again]
    starts = {prompt.text[:10] for prompt in [*one, *other]}
    assert len(starts) == 600
    assert one[7].text == mark(0, 7) + "the same"


def test_the_mark_counts(tmp_path, bpe):
    made = run(tmp_path, bpe)
    assert [prompt.prompt_tokens for prompt in made] == [len(bpe.encode(prompt.text)) for prompt in made]


def test_chats_parts_and_batches(bpe):
    chat = Prompt(messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}], prompt_tokens=9)
    parts = Prompt(messages=[{"role": "user", "content": [{"type": "image_url"}]}])
    batch = Prompt(texts=["a", "b"], prompt_tokens=2)
    first, second, third = marked([chat, parts, batch], 0, bpe)
    assert first.messages == [{"role": "system", "content": mark(0, 0) + "Be brief."}, chat.messages[1]]
    assert first.prompt_tokens == 9 + bpe.count(mark(0, 0) + "Be brief.") - bpe.count("Be brief.")
    assert second.messages[0]["content"] == [{"type": "text", "text": mark(0, 1)}, {"type": "image_url"}]
    assert third.texts == [mark(0, 2) + "a", mark(0, 2) + "b"]


def test_turns_of_one_conversation_share_their_past():
    one, two, other = marked([Prompt(text="a", conversation=4, turn=turn) for turn in (0, 1)] + [Prompt(text="a", conversation=5)], 0, None)
    assert one.text == two.text != other.text


def test_prompts_without_text_are_refused():
    with pytest.raises(UsageError, match="--cache-bust"):
        list(marked([Prompt(token_ids=[1, 2])], 0, None))
