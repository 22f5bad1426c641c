"""What is sent, field by field, and what is refused before anything is sent."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from loadstone.backends import get, names
from loadstone.backends.base import Options, Prompt, encode
from loadstone.errors import UsageError
from loadstone.workload.chat import CHATS
from loadstone.workload.inputs import POOLING, TEXTS, TOKEN_IDS

PROMPT = Prompt(text="Say something.", output_tokens=16)


def sent(backend: str = "openai-chat", prompt: Prompt = PROMPT, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode(get(backend), prompt, Options(model="m", **options)))
    return body


def test_chat() -> None:
    assert sent() == {
        "model": "m",
        "messages": [{"role": "user", "content": "Say something."}],
        "max_completion_tokens": 16,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }


@pytest.mark.parametrize("name", ["openai", "vllm", "sglang", "lmdeploy", "scalellm"])
def test_completions(name: str) -> None:
    backend = get(name)
    assert (backend.name, backend.path) == (name, "/v1/completions")
    assert sent(name) == {
        "model": "m",
        "prompt": "Say something.",
        "max_tokens": 16,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
    }


def test_the_bytes_are_compact() -> None:
    assert b": " not in encode(get("openai"), PROMPT, Options(model="m"))


def test_messages_and_model_of_the_prompt() -> None:
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]
    body = sent(prompt=Prompt(messages=messages, model="adapter"))
    assert body["messages"] == messages and body["model"] == "adapter" and "max_completion_tokens" not in body


def test_no_stream_has_no_stream_options() -> None:
    assert sent(stream=False)["stream"] is False and "stream_options" not in sent(stream=False)
    assert "stream_options" not in sent(overrides={"stream": False})


def test_continuous_usage() -> None:
    assert sent(continuous_usage=True)["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_logprobs_in_each_api_s_way() -> None:
    body = sent(logprobs=3)
    assert (body["logprobs"], body["top_logprobs"]) == (True, 3)
    assert sent("openai", logprobs=3)["logprobs"] == 3


def test_ignore_eos_and_beam_search_only_when_asked() -> None:
    body = sent("openai", ignore_eos=True, use_beam_search=True)
    assert body["ignore_eos"] is True and body["use_beam_search"] is True
    assert not {"ignore_eos", "use_beam_search"} & sent("openai").keys()


def test_who_has_the_last_word() -> None:
    row = Prompt(text="x", extra={"temperature": 0.5, "top_p": 0.7})
    flags = {"temperature": 1.0, "top_p": 0.9, "top_k": 5}
    body = sent(prompt=row, sampling=flags, overrides={"top_p": 0.1})
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.5, 0.1, 5)


def test_overrides_replace_whole_fields() -> None:
    assert sent(overrides={"stream_options": {"x": 1}})["stream_options"] == {"x": 1}


@pytest.mark.parametrize("where", ["extra", "overrides"])
def test_one_spelling_of_the_wanted_length_replaces_the_other(where: str) -> None:
    if where == "extra":
        body = sent(prompt=Prompt(text="x", output_tokens=16, extra={"max_tokens": 8}))
    else:
        body = sent(overrides={"max_tokens": 8})
    assert body["max_tokens"] == 8 and "max_completion_tokens" not in body


def test_names_that_are_not_there() -> None:
    assert {"openai", "openai-chat", "vllm", "lmdeploy", "scalellm", "sglang"} <= set(names())
    with pytest.raises(UsageError, match=r"unknown backend 'nonesuch'.*openai-chat, openai, vllm"):
        get("nonesuch")


def test_what_a_backend_has_not_is_refused_by_name() -> None:
    get("vllm").check(Options(model="m", use_beam_search=True, ignore_eos=True, logprobs=1, sampling={"top_k": 1}))
    with pytest.raises(UsageError, match="backend sglang has no --use-beam-search"):
        get("sglang").check(Options(model="m", use_beam_search=True))
    with pytest.raises(UsageError, match="backend openai has no --length-penalty"):
        get("openai").check(Options(model="m", sampling={"length_penalty": 1}))


def test_a_completions_api_cannot_be_sent_messages() -> None:
    with pytest.raises(UsageError, match="openai-chat"):
        sent("openai", prompt=Prompt(messages=[{"role": "user", "content": "x"}]))


def test_what_backends_take_is_what_workloads_think_they_take() -> None:
    every = {name: get(name) for name in names() if name != "template"}
    assert {name for name, backend in every.items() if not backend.generates} == POOLING
    assert {name for name, backend in every.items() if backend.takes_texts} == TEXTS
    assert {name for name, backend in every.items() if backend.takes_token_ids} == TOKEN_IDS
    assert {name for name, backend in every.items() if backend.takes_chats} == CHATS


def test_the_page_lists_every_backend_and_links_to_pages_that_are_there() -> None:
    docs = Path(__file__).parents[2] / "docs"
    table = [line for line in (docs / "backends.md").read_text().split("## What is sent")[0].splitlines() if line.startswith("| ")][1:]
    listed = [name for line in table for name in re.findall(r"`([a-z-]+)`", line.split(" | ")[0])]
    assert sorted(listed) == sorted(names())
    paths = {name: re.findall(r"`(/[^`]*)`", line.split(" | ")[1]) for line in table for name in re.findall(r"`([a-z-]+)`", line.split(" | ")[0])}
    assert {name: [get(name).path] for name in names() if paths[name]} == {name: path for name, path in paths.items() if path}
    assert all((docs / page).is_file() for line in table for page in re.findall(r"\]\((backends/[a-z-]+\.md)", line))
