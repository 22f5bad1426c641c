"""Embeddings and pooling: what is sent, which replies hold what was asked for, and runs against servers that speak these APIs."""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from loadstone import RunConfig, run
from loadstone.backends import get
from loadstone.backends.base import Options, Prompt, encode
from loadstone.errors import UsageError
from loadstone.records import COMPLETED, FAILED, Record
from support.replies import plays, record
from support.scripted import Scripted

Document = dict[str, Any]
USAGE = {"prompt_tokens": 17, "total_tokens": 17, "completion_tokens": 0, "prompt_tokens_details": None}
IN_BASE64 = base64.b64encode(struct.pack("<3f", 0.5, -1, 2)).decode()


def reply(*results: Any, name: str = "embedding", usage: Any = USAGE) -> Document:
    data = [{"object": "embedding", "index": index, name: result} for index, result in enumerate(results)]
    return {"id": "embd-1", "object": "list", "created": 1, "model": "m", "data": data, "usage": usage}


def made(document: Document, request: Document | None = None, backend: str = "openai-embeddings") -> Record:
    return record(backend, json.dumps(document).encode(), request=json.dumps(request or {}).encode(), count_tokens=len)


def sent(backend: str, prompt: Prompt, **options: Any) -> Document:
    body: Document = json.loads(encode(get(backend), prompt, Options(model="m", **options)))
    return body


def test_an_embedding_has_an_end_and_input_tokens_and_nothing_else() -> None:
    one = made(reply([0.1, -0.2]))
    assert (one.status, one.streamed, one.prompt_tokens, one.prompt_token_source) == (COMPLETED, False, 17, "usage")
    assert (one.output_tokens, one.token_source, one.token_ns, one.first_token_ns, one.end_ns) == (0, "none", [], None, 99)


@pytest.mark.parametrize("result", [[0.1, 1, -2e-9], [[0.1, 0.2], [0.3, 0.4]], IN_BASE64])
def test_every_form_of_embedding(result: Any) -> None:
    assert made(reply(result)).status == COMPLETED


@pytest.mark.parametrize("result", [None, [], "", [[]], ["x"], [None], {}, 3, [0.1, "x"], [True], [[0.1], "x"]])
def test_what_is_no_embedding(result: Any) -> None:
    one = made(reply([0.5], result))
    assert (one.status, one.error) == (FAILED, "data[1] holds no embedding")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"error": {"message": "too long", "code": 400}}, "too long"),
        ({"object": "error", "message": "no such model"}, "no such model"),
        ({"choices": []}, "without data"),
        ({"data": []}, "data is empty"),
        ({"data": ["x"]}, "data[0] holds no embedding"),
    ],
)
def test_a_document_that_holds_no_embedding(document: Document, said: str) -> None:
    one = made(document)
    assert (one.status, one.reason) == (FAILED, "server error") and said in one.error


@pytest.mark.parametrize(("given", "wanted"), [(["a", "b"], 2), ([[1, 2], [3]], 2), ("a", 1), ([1, 2, 3], 1)])
def test_each_input_must_be_answered(given: Any, wanted: int) -> None:
    one = made(reply([0.5]), {"input": given})
    assert one.status == (COMPLETED if wanted == 1 else FAILED)
    assert wanted == 1 or one.error == "1 of 2 inputs were answered: data holds 1 of the kind embedding"
    assert made(reply(*[[0.5]] * wanted), {"input": given}).status == COMPLETED


@pytest.mark.parametrize(
    ("usage", "tokens"), [({"total_tokens": 33}, 33), ({"prompt_tokens": 0, "total_tokens": 33}, 33), ({}, None), (None, None), ("x", None)]
)
def test_tokens_by_the_total_where_that_is_all_there_is(usage: Any, tokens: int | None) -> None:
    assert made(reply([0.5], usage=usage)).prompt_tokens == tokens


def test_cached_tokens() -> None:
    assert made(reply([0.5], usage=USAGE | {"prompt_tokens_details": {"cached_tokens": 16}})).cached_tokens == 16


def test_a_stream_and_a_page_are_no_embeddings() -> None:
    assert record("openai-embeddings", b'data: {"data":[]}\n\n').status == FAILED
    assert record("openai-embeddings", b"<html>Welcome</html>").status == FAILED
    assert record("openai-embeddings", b'{"data":[{"embedding":[0.1').status == FAILED


@pytest.mark.parametrize("name", ["openai-embeddings", "embeddings", "infinity-embeddings"])
def test_what_is_sent(name: str) -> None:
    assert get(name).path == ("/embeddings" if name == "infinity-embeddings" else "/v1/embeddings")
    assert sent(name, Prompt(text="Hi", output_tokens=9)) == {"model": "m", "input": "Hi"}
    assert sent(name, Prompt(texts=["a", "b"], model="adapter")) == {"model": "adapter", "input": ["a", "b"]}
    assert sent(name, Prompt(token_ids=[1, 2]))["input"] == [1, 2]
    assert sent(name, Prompt(text="Hi"), overrides={"dimensions": 8, "encoding_format": "base64"})["dimensions"] == 8
    with pytest.raises(UsageError, match="openai-embeddings-chat"):
        sent(name, Prompt(messages=[{"role": "user", "content": "x"}]))


def test_messages_in_place_of_an_input() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    chat = [{"role": "user", "content": [{"type": "text", "text": "What?"}, image]}]
    assert sent("openai-embeddings-chat", Prompt(messages=chat)) == {"model": "m", "messages": chat}
    assert sent("openai-embeddings-chat", Prompt(text="Hi"))["messages"] == [{"role": "user", "content": "Hi"}]
    assert sent("openai-embeddings-clip", Prompt(messages=chat))["messages"] == [{"role": "user", "content": [image]}]
    assert sent("openai-embeddings-clip", Prompt(text="Hi"))["messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sampling": {"temperature": 1.0}}, "no --temperature"),
        ({"ignore_eos": True, "logprobs": 1}, "no --ignore-eos, --logprobs"),
        ({"max_tokens_field": "max_tokens"}, "no --max-tokens-field"),
        ({"overrides": {"encoding_format": "bytes"}}, "encoding_format bytes"),
        ({"overrides": {"stream": True}}, "no streams"),
    ],
)
def test_what_the_api_has_not_is_refused(options: Document, said: str) -> None:
    for name in ("openai-embeddings", "vllm-pooling", "rerank"):
        with pytest.raises(UsageError, match=said):
            get(name).check(Options(model="m", **options))


@pytest.mark.parametrize("result", [[0.1, 0.9], [[0.1], [0.2]], 0.75, IN_BASE64, [1]])
def test_pooled_output_of_every_form(result: Any) -> None:
    assert made(reply(result, name="data"), {"input": "a"}, "vllm-pooling").status == COMPLETED


@pytest.mark.parametrize("result", [None, [], "", {}, True])
def test_what_is_no_pooled_output(result: Any) -> None:
    assert made(reply(result, name="data"), {}, "vllm-pooling").error == "data[0] holds no pooled output"


def test_what_pooling_is_sent() -> None:
    assert get("vllm-pooling").path == "/pooling"
    assert sent("vllm-pooling", Prompt(text="Hi")) == {"model": "m", "input": "Hi"}
    assert sent("vllm-pooling", Prompt(texts=["a", "b"]))["input"] == ["a", "b"]
    chat = [{"role": "user", "content": "x"}]
    assert sent("vllm-pooling", Prompt(messages=chat)) == {"model": "m", "messages": chat}


@pytest.mark.parametrize(
    ("backend", "target", "name"),
    [
        ("openai-embeddings", "/v1/embeddings", "embedding"),
        ("infinity-embeddings", "/embeddings", "embedding"),
        ("vllm-pooling", "/pooling", "data"),
    ],
)
def test_a_run(backend: str, target: str, name: str) -> None:
    with Scripted(plays([], reply([0.5], [0.25], name=name))) as server:
        result = run(RunConfig(base_url=server.url, backend=backend, model="m", num_prompts=4, random_input_len=5, random_batch_size=2))
    request = server.seen[-1]
    body = json.loads(request.body)
    assert request.target == target and body.keys() == {"model", "input"} and len(body["input"]) == 2
    summary = result.summary
    assert (summary.completed, summary.failed, summary.total_input_tokens, summary.total_output_tokens) == (4, 0, 4 * 17, 0)
    assert summary.distributions["ttft"].mean is None and summary.distributions["tpot"].mean is None


def test_a_run_that_is_answered_in_part(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": ["one", "two", "three"]}\n')
    with Scripted(plays([], reply([0.5], [0.25]))) as server:
        config = {"base_url": server.url, "backend": "openai-embeddings", "model": "m", "num_prompts": 1, "ready_check_timeout_sec": 0}
        result = run(RunConfig(**config, dataset_name="custom", dataset_path=str(rows)))
    assert result.summary.failed == 1 and "2 of 3 inputs were answered" in result.records.error[0]
