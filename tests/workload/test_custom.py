"""custom: output lengths, and the chat template for completions backends."""

import pytest

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.workload import load_workload


def load(path, tokenizer=None, **fields):
    return load_workload(RunConfig(model="m", dataset_name="custom", dataset_path=path, **{"num_prompts": 2, **fields}), tokenizer)


def output_tokens(workload):
    return [prompt.output_tokens for prompt in workload.prompts]


def test_output_tokens_of_the_row_then_of_the_flag(data_file):
    path = data_file([{"prompt": "a", "output_tokens": 7}, {"prompt": "b"}])
    workload = load(path)
    assert output_tokens(workload) == [7, 256]
    assert any(note.startswith("1 of 2 rows") and "--custom-output-len 256" in note for note in workload.notes)
    assert output_tokens(load(path, custom_output_len=9)) == [7, 9]


def test_minus_one_wants_them_in_every_row(data_file):
    with pytest.raises(UsageError, match=r"line 2: `output_tokens` is missing"):
        load(data_file([{"prompt": "a", "output_tokens": 7}, {"prompt": "b"}]), custom_output_len=-1)
    path = data_file([{"prompt": "a", "output_tokens": 7}, {"prompt": "b", "output_tokens": "8"}])
    workload = load(path, custom_output_len=-1)
    assert output_tokens(workload) == [7, 8] and workload.notes == []


@pytest.mark.parametrize("length", [0, -2])
def test_nonsense_output_lengths_are_refused(data_file, length):
    with pytest.raises(UsageError, match=f"--custom-output-len .*not {length}"):
        load(data_file([{"prompt": "a"}]), custom_output_len=length)


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({}, "`prompt` must be a text that is not empty, it is missing"),
        ({"prompt": ""}, "`prompt`"),
        ({"prompt": ["a"]}, "`prompt`.*'a'"),
        ({"prompt": "a", "output_tokens": 0}, "`output_tokens` must be a whole number, 1 or more, it is 0"),
        ({"prompt": "a", "output_tokens": 1.5}, "`output_tokens`"),
        ({"prompt": "a", "output_tokens": True}, "`output_tokens`"),
        ({"prompt": "a", "output_tokens": "many"}, "`output_tokens`.*many"),
        ({"prompt": "a", "output_tokens": "inf"}, "`output_tokens`"),
        ({"prompt": "a", "output_tokens": "nan"}, "`output_tokens`"),
    ],
)
def test_bad_rows_are_told_by_file_and_line(data_file, row, fault):
    with pytest.raises(UsageError, match=r"data\.jsonl, line 2: .*" + fault):
        load(data_file([{"prompt": "fine"}, row]))


class Templated:
    """A tokenizer as far as this data set needs one: a template, and one token a word."""

    name = "templated"
    why = None

    def no_chat_template(self):
        return self.why

    def apply_chat_template(self, messages):
        return "".join(f"<{message['role']}> {message['content']} " for message in messages) + "<assistant>"

    def count_batch(self, texts):
        return [len(text.split()) for text in texts]


@pytest.mark.parametrize("backend", ["openai", "vllm", "sglang"])
def test_completions_get_the_chat_template(data_file, backend):
    path = data_file([{"prompt": "how are you", "output_tokens": 3}, {"prompt": "well"}])
    workload = load(path, Templated(), backend=backend, custom_output_len=5)
    assert [prompt.text for prompt in workload.prompts] == ["<user> how are you <assistant>", "<user> well <assistant>"]
    assert [prompt.prompt_tokens for prompt in workload.prompts] == [5, 3]
    assert output_tokens(workload) == [3, 5]
    assert not any("template" in note for note in workload.notes)


def test_chats_and_those_who_skip_it_do_not(data_file):
    path = data_file([{"prompt": "how are you"}, {"prompt": "well"}])
    for fields in ({"backend": "openai-chat"}, {"backend": "openai", "custom_skip_chat_template": True}):
        workload = load(path, Templated(), **fields)
        assert [prompt.text for prompt in workload.prompts] == ["how are you", "well"]
        assert [prompt.prompt_tokens for prompt in workload.prompts] == [3, 1] and workload.notes == []


def test_where_there_is_no_template_a_note_says_so(data_file):
    path = data_file([{"prompt": "how are you"}, {"prompt": "well"}])
    [note] = load(path, backend="openai").notes
    assert note.endswith("without a chat template: no tokenizer is loaded")
    lacking = Templated()
    lacking.why = "Jinja2 is not installed"
    [note] = load(path, lacking, backend="openai").notes
    assert note.endswith("without a chat template: Jinja2 is not installed")


def clips(data_file, *rows):
    for name in ("a.wav", "b.wav"):
        data_file(b"RIFF", name)
    return data_file([*rows])


def test_rows_with_audio_name_files_from_the_data_set_s_folder_on(data_file, tmp_path):
    path = clips(data_file, {"audio": "a.wav"}, {"audio": str(tmp_path / "b.wav"), "language": "de", "prompt": "Names: Ada.", "output_tokens": 9})
    workload = load(path, Templated(), backend="openai-audio")
    plain, told = workload.prompts
    assert (plain.audio, plain.text, plain.output_tokens, plain.extra) == (str(tmp_path / "a.wav"), "", None, {})
    assert (told.audio, told.text, told.output_tokens, told.extra) == (str(tmp_path / "b.wav"), "Names: Ada.", 9, {"language": "de"})
    assert plain.prompt_tokens is None and workload.notes == []  # sound is not counted by a tokenizer


def test_a_length_by_flag_says_nothing_of_audio(data_file):
    workload = load(clips(data_file, {"audio": "a.wav"}, {"audio": "b.wav"}), backend="openai-audio", custom_output_len=9)
    assert output_tokens(workload) == [None, None] and "--custom-output-len" in workload.notes[0]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"prompt": "a"}, "`audio` must be a text that is not empty, it is missing"),
        ({"audio": ["a.wav"]}, "`audio`.*'a.wav'"),
        ({"audio": "gone.wav"}, "there is no audio file .*gone.wav"),
        ({"audio": "a.wav", "language": 3}, "`language`.*3"),
        ({"audio": "a.wav", "output_tokens": 0}, "`output_tokens`.*0"),
    ],
)
def test_bad_rows_with_audio_are_told_by_file_and_line(data_file, row, fault):
    with pytest.raises(UsageError, match=r"data\.jsonl, line 2: .*" + fault):
        load(clips(data_file, {"audio": "a.wav"}, row), backend="openai-audio")


def test_prompts_as_token_ids(data_file):
    path = data_file([{"prompt": [5, 6, 7], "output_tokens": 2}, {"prompt": "well"}])
    ids, text = load(path, Templated(), backend="openai").prompts
    assert (ids.token_ids, ids.text, ids.prompt_tokens, ids.output_tokens) == ([5, 6, 7], "", 3, 2)
    assert text.text == "<user> well <assistant>"
    assert load(data_file([{"prompt": [5]}]), backend="openai", num_prompts=1).notes == []
    with pytest.raises(UsageError, match=r"line 1: `prompt` is token ids, and --backend openai-chat takes none: choose one of .*openai"):
        load(path, backend="openai-chat")
    for wrong in ([], [1, -2], [1, "a"], [True], [1.5]):
        with pytest.raises(UsageError, match="`prompt` must be a text or a list of token ids"):
            load(data_file([{"prompt": wrong}]), backend="openai")


def test_texts_to_embed_and_documents_to_rank(data_file):
    path = data_file([{"prompt": ["a b", "c"]}, {"prompt": [5, 6]}])
    batch, ids = load(path, Templated(), backend="openai-embeddings").prompts
    assert (batch.texts, batch.text, batch.prompt_tokens, batch.output_tokens) == (["a b", "c"], "", 3, None)
    assert (ids.token_ids, ids.prompt_tokens) == ([5, 6], 2)
    path = data_file([{"prompt": "a b", "documents": ["c", "d e"]}])
    [ranked] = load(path, Templated(), backend="rerank", num_prompts=1).prompts
    assert (ranked.text, ranked.texts, ranked.prompt_tokens) == ("a b", ["c", "d e"], 2 + 1 + 2 + 2)
    for rows in ({"prompt": "a"}, {"prompt": "a", "documents": []}, {"prompt": "a", "documents": ["", "b"]}):
        with pytest.raises(UsageError, match="`documents` must be a list of texts"):
            load(data_file([rows]), backend="rerank")
