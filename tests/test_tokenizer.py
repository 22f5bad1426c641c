"""Tokenizers: counts without special tokens, where a tokenizer is found, and what is said when there is none."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, processors

import loadstone.tokenizer.custom as custom
from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer, load_tokenizer
from loadstone.tokenizer.hub import cache_folder, cached, is_hub_id

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}\n[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def folder(tmp_path):
    """A tokenizer of whole words that would add special tokens, cut at 4 tokens and pad to 4, if it were let."""
    library = Library(models.WordLevel({"[UNK]": 0, "<s>": 1, "old": 2, "sea": 3, "the": 4}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.decoder = decoders.WordPiece()
    library.add_special_tokens(["<s>", "<pad>"])
    library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    library.enable_truncation(4)
    library.enable_padding(length=4, pad_id=5, pad_token="<pad>")
    home = tmp_path / "tok"
    home.mkdir()
    library.save(str(home / "tokenizer.json"))
    (home / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "bos_token": {"content": "<s>"}}))
    return home


@pytest.fixture(autouse=True)
def no_hub(tmp_path, monkeypatch):
    """No test asks the real hub or reads the real cache."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def load(**fields):
    return load_tokenizer(RunConfig(**fields))


def test_no_special_tokens_no_truncation_no_padding(folder):
    tokenizer, note = load(tokenizer=str(folder))
    assert note is None and tokenizer.name == str(folder)
    assert tokenizer.encode("the old sea the old sea") == [4, 2, 3, 4, 2, 3]
    assert tokenizer.encode_batch(["sea", "", "the new"]) == [[3], [], [4, 0]]
    assert (tokenizer.count("the old sea the old"), tokenizer.count_batch(["sea", ""])) == (5, [1, 0])
    assert (tokenizer.decode([4, 2]), tokenizer.decode_batch([[3], []])) == ("the old", ["sea", ""])
    assert tokenizer.vocab_size == 6
    assert tokenizer.usable_ids() == [0, 2, 3, 4]


def test_half_a_surrogate_pair_is_counted_as_what_can_be_sent(folder):
    tokenizer, _ = load(tokenizer=str(folder))
    assert tokenizer.count_batch(["sea \ud83d old", "the"]) == [3, 1]


@pytest.mark.parametrize("flag", ["tokenizer", "model"])
def test_a_folder_or_its_file(folder, flag):
    for path in (folder, folder / "tokenizer.json"):
        tokenizer, note = load(**{flag: str(path)})
        assert tokenizer.count("old sea") == 2 and note is None


def test_tokenizer_wins_over_model(folder):
    assert load(model="org/other", tokenizer=str(folder))[0].name == str(folder)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (None, "neither --tokenizer nor --model"),
        ("m", "--model m is neither a path nor a hub id"),
        ("org/name:tag", "neither a path nor a hub id"),
        ("org/name", r"no tokenizer: org/name is not in the hub's cache .*switched off"),
    ],
)
def test_a_model_without_tokenizer_is_a_note(model, reason):
    tokenizer, note = load(model=model)
    assert tokenizer is None
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(note)


def test_a_broken_tokenizer_of_the_model_is_a_note_and_one_that_was_asked_for_an_error(folder):
    (folder / "tokenizer.json").write_text("{}")
    tokenizer, note = load(model=str(folder))
    assert tokenizer is None and "cannot read the tokenizer file" in note
    with pytest.raises(UsageError, match="cannot read the tokenizer file"):
        load(tokenizer=str(folder))


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"tokenizer": "m"}, "there is no tokenizer m"),
        ({"tokenizer": "/no/such/folder"}, "there is no tokenizer /no/such/folder"),
        ({"tokenizer": "org/name"}, "org/name is not in the hub's cache .*local folder"),
        ({"tokenizer": "org/name", "tokenizer_mode": "quick"}, "--tokenizer-mode quick is unknown: give one of auto, slow, mistral, custom"),
        ({"tokenizer_mode": "slow"}, "--tokenizer-mode slow needs --tokenizer"),
        ({"tokenizer": "nobody", "tokenizer_mode": "custom"}, "no tokenizer 'nobody'; none is registered"),
    ],
)
def test_a_tokenizer_that_was_asked_for_must_load(fields, fault):
    with pytest.raises(UsageError, match=fault):
        load(**fields)


def test_a_folder_without_tokenizer_json(tmp_path):
    with pytest.raises(UsageError, match=r"has no tokenizer\.json.*--tokenizer-mode slow or mistral"):
        load(tokenizer=str(tmp_path))


@pytest.mark.parametrize(("mode", "module"), [("slow", "transformers"), ("mistral", "mistral_common.tokens.tokenizers.mistral")])
def test_a_missing_extra_is_named(monkeypatch, mode, module):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, module.split(".")[0], None)
    extra = "transformers" if mode == "slow" else "mistral"
    with pytest.raises(UsageError, match=rf"--tokenizer-mode {mode} needs the extra `{extra}` \(pip install 'loadstone\[{extra}\]'\)"):
        load(tokenizer="v3-tekken", tokenizer_mode=mode)


def test_which_names_are_hub_ids():
    assert all(map(is_hub_id, ("org/name", "Qwen/Qwen2.5-0.5B", "a_b/c-d.e")))
    assert not any(map(is_hub_id, ("m", "/abs", "a/b/c", "./name", "../name", "org/", "org/na me", "org/name:tag", "https://x/y")))


def put_in_cache(home, folder, commit, main=True):
    repository = home / "models--org--name"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file in folder.iterdir():
        (snapshot / file.name).write_bytes(file.read_bytes())
    if main:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(commit)
    return snapshot


def test_the_cache_is_read_where_the_environment_says(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", "/home/hf")
    assert str(cache_folder()) == "/home/hf/hub"
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert str(cache_folder()) == "/x/huggingface/hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    snapshot = put_in_cache(tmp_path, folder, "abc")
    newer = put_in_cache(tmp_path, folder, "def", main=False)
    assert cached("org/name", "tokenizer.json") == snapshot / "tokenizer.json"
    (tmp_path / "models--org--name" / "refs" / "main").write_text("gone")
    os.utime(snapshot / "tokenizer.json", (1, 1))
    assert cached("org/name", "tokenizer.json") == newer / "tokenizer.json"
    assert cached("org/name", "tokenizer.model") is None and cached("org/else", "tokenizer.json") is None


SCRIPT = """
import json, sys, time
from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import load_tokenizer
light = [name for name in ("tokenizers", "numpy", "huggingface_hub", "jinja2") if name in sys.modules]
try:
    tokenizer, note = load_tokenizer(RunConfig(**json.loads(sys.argv[1])))
    count = tokenizer and tokenizer.count("the old sea")
except UsageError as error:
    count, note = None, f"error: {error}"
print(json.dumps([light, count, note, "huggingface_hub" in sys.modules]))
"""


def in_new_process(endpoint, cache, **fields):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_") and not key.lower().endswith("_proxy")}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT, json.dumps(fields)], env=environment, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


@pytest.fixture
def hub(folder):
    """A hub that has org/name with a tokenizer.json, org/empty without one, and nothing else."""
    content = (folder / "tokenizer.json").read_bytes()
    asked = []

    class Hub(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            asked.append(f"{self.command} {self.path}")
            there = self.path == "/org/name/resolve/main/tokenizer.json"
            body = content if there else b"{}"
            self.send_response(200 if there or self.path == "/" else 404)
            if there:
                self.send_header("ETag", '"0123"')
                self.send_header("X-Repo-Commit", "0" * 40)
            elif self.path != "/":
                self.send_header("X-Error-Code", "EntryNotFound" if self.path.startswith("/org/empty/") else "RepoNotFound")
                self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_GET = do_HEAD = answer  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.asked, server.url = asked, f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()


def test_a_hub_id_is_downloaded_once_and_then_read_from_the_cache_without_the_hubs_library(hub, tmp_path):
    light, count, note, asked_library = in_new_process(hub.url, tmp_path / "cache", model="org/name")
    assert (light, count, note, asked_library) == ([], 3, None, True)
    asked = len(hub.asked)
    _, count, note, asked_library = in_new_process(hub.url, tmp_path / "cache", tokenizer="org/name")
    assert (count, note, asked_library, len(hub.asked)) == (3, None, False, asked)


def test_a_hub_that_has_it_not(hub, tmp_path):
    _, count, note, _ = in_new_process(hub.url, tmp_path / "cache", model="org/other")
    assert count is None and note.startswith("no tokenizer: the hub has no repository org/other")
    _, count, note, _ = in_new_process(hub.url, tmp_path / "cache", tokenizer="org/empty")
    assert count is None and note == "error: org/empty has no tokenizer.json on the hub; try --tokenizer-mode slow or mistral"


def test_a_hub_out_of_reach_is_given_up_at_once(hub, tmp_path):
    hub.shutdown()
    hub.server_close()
    _, count, note, _ = in_new_process(hub.url, tmp_path / "cache", model="org/name")
    assert count is None and note.startswith(f"no tokenizer: the hub ({hub.url}) cannot be reached") and "--tokenizer a local folder" in note


class Letters(Tokenizer):
    """One token a letter: the least that a tokenizer of one's own has."""

    def __init__(self, argument):
        self.name = f"letters {argument}"

    def encode(self, text):
        return [ord(letter) for letter in text]

    def decode(self, ids):
        return "".join(map(chr, ids))

    @property
    def vocab_size(self):
        return 128

    def usable_ids(self):
        return list(range(32, 127))


def test_a_custom_tokenizer(monkeypatch):
    class Entry:
        name = "letters"

        def load(self):
            return Letters

    monkeypatch.setattr(custom, "entry_points", lambda group: [Entry()] if group == "loadstone.tokenizers" else [])
    tokenizer, _ = load(tokenizer="letters:en", tokenizer_mode="custom")
    assert tokenizer.name == "letters en"
    assert (tokenizer.count("abc"), tokenizer.count_batch(["a", ""]), tokenizer.decode_batch([[97], []])) == (3, [1, 0], ["a", ""])
    with pytest.raises(UsageError, match="no chat template; use a chat backend"):
        tokenizer.apply_chat_template([])
    with pytest.raises(UsageError, match="no tokenizer 'words'; registered are: letters"):
        load(tokenizer="words", tokenizer_mode="custom")
    monkeypatch.setattr(Entry, "load", lambda self: dict)
    with pytest.raises(UsageError, match=r"no loadstone\.tokenizer\.Tokenizer but a dict"):
        load(tokenizer="letters", tokenizer_mode="custom")


CHAT = [{"role": "user", "content": " hello <b> "}]


def test_chat_template(folder):
    pytest.importorskip("jinja2")
    tokenizer, _ = load(tokenizer=str(folder))
    assert tokenizer.no_chat_template() is None
    assert tokenizer.apply_chat_template(CHAT) == "<s>[user] hello <b>\n[assistant]"


@pytest.mark.parametrize("place", ["file", "list"])
def test_other_places_of_a_chat_template(folder, place):
    pytest.importorskip("jinja2")
    config = {"chat_template": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": TEMPLATE}]} if place == "list" else {}
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "bos_token": "^"}))
    if place == "file":
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    assert load(tokenizer=str(folder))[0].apply_chat_template(CHAT).startswith("^[user]")


@pytest.mark.parametrize("template", ["{{ raise_exception('roles must alternate') }}", "{{ messages[0].content.x.y }}"])
def test_a_template_that_refuses(folder, template):
    pytest.importorskip("jinja2")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    with pytest.raises(UsageError, match="refuses a conversation"):
        load(tokenizer=str(folder))[0].apply_chat_template(CHAT)


def test_templates_run_in_a_sandbox(folder):
    pytest.importorskip("jinja2")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages.__class__.__mro__ }}{{ messages.append(1) }}"}))
    with pytest.raises(UsageError, match="refuses a conversation"):
        load(tokenizer=str(folder))[0].apply_chat_template(CHAT)


def test_no_chat_template_and_why(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "Jinja2" in load(tokenizer=str(folder))[0].no_chat_template()
    (folder / "tokenizer_config.json").unlink()
    tokenizer, _ = load(tokenizer=str(folder))
    assert tokenizer.no_chat_template() == f"the tokenizer {folder} has no chat template"
    with pytest.raises(UsageError, match="has no chat template; use a chat backend"):
        tokenizer.apply_chat_template(CHAT)


def test_mistral_tokenizers_that_come_with_the_package():
    pytest.importorskip("mistral_common")
    tokenizer, _ = load(tokenizer="v3-tekken", tokenizer_mode="mistral")
    assert tokenizer.decode(tokenizer.encode("the old sea")) == "the old sea"
    assert tokenizer.count("the old sea") == 3 and tokenizer.vocab_size == 131072
    assert len(tokenizer.usable_ids()) == 131072 - 1000 and min(tokenizer.usable_ids()) == 1000
    assert "mistral-common" in tokenizer.no_chat_template()
    with pytest.raises(UsageError, match=r"no Mistral tokenizer found under v9: .* v1, v2, v3, v3-tekken, v7"):
        load(tokenizer="v9", tokenizer_mode="mistral")
