"""Rerank: a query and its documents, and a score of each, in the forms that servers have."""

import json
from typing import Any

import pytest

from loadstone import RunConfig, run
from loadstone.backends import get
from loadstone.backends.base import Options, Prompt, encode
from loadstone.errors import UsageError
from loadstone.records import COMPLETED, FAILED, Record
from support.replies import plays, record
from support.scripted import Scripted

REQUEST = {"model": "m", "query": "q", "documents": ["one", "two"]}
VLLM = {
    "id": "rerank-1", "model": "m", "usage": {"prompt_tokens": 12, "total_tokens": 12},
    "results": [
        {"index": 1, "document": {"text": "two", "multi_modal": None}, "relevance_score": 0.99},
        {"index": 0, "document": {"text": "one", "multi_modal": None}, "relevance_score": 0.0},
    ],
}  # fmt: skip
JINA = {
    "model": "m", "object": "list", "usage": {"total_tokens": 12},
    "results": [{"index": 1, "relevance_score": 0.9, "document": {"text": "two"}}, {"index": 0, "relevance_score": -3.5}],
}  # fmt: skip
COHERE = {
    "id": "x", "results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}],
    "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}, "tokens": {"input_tokens": 12}},
}  # fmt: skip
BILLED = COHERE | {"meta": {"billed_units": {"input_tokens": 12}}}
VOYAGE = {"object": "list", "data": [{"relevance_score": 0.9, "index": 1}, {"relevance_score": 0.1, "index": 0}], "usage": {"total_tokens": 12}}
LLAMA = {"results": [{"index": 0, "relevance_score": -7.1}, {"index": 1, "relevance_score": 4}], "usage": {"prompt_tokens": 12, "total_tokens": 12}}
SGLANG = [
    {"score": 0.99, "document": "two", "index": 1, "meta_info": {"id": "a", "prompt_tokens": 7, "e2e_latency": 0.1}},
    {"score": 0.01, "document": "one", "index": 0, "meta_info": {"id": "b", "prompt_tokens": 5, "e2e_latency": 0.1}},
]


def made(document: Any, request: Any = REQUEST) -> Record:
    return record("rerank", json.dumps(document).encode(), request=json.dumps(request).encode(), count_tokens=len)


@pytest.mark.parametrize("document", [VLLM, JINA, COHERE, BILLED, VOYAGE, LLAMA, SGLANG])
def test_every_server_s_form(document: Any) -> None:
    one = made(document)
    assert (one.status, one.error, one.prompt_tokens, one.output_tokens, one.token_source) == (COMPLETED, "", 12, 0, "none")
    assert one.token_ns == [] and one.first_token_ns is None and one.end_ns == 99


def test_tokens_that_are_not_told_of_each_result_are_unknown() -> None:
    assert made([SGLANG[0], {"score": 0.5, "meta_info": {}}]).prompt_tokens is None
    assert made(VLLM | {"usage": None}).prompt_tokens is None


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"error": {"message": "no such model"}}, "no such model"),
        ({"object": "error", "message": "not supported"}, "not supported"),
        ({"data": "x"}, "without results"),
        ({"results": []}, "results is empty"),
        ([], "results is empty"),
        ({"results": [{"index": 0}]}, "results[0] holds no relevance_score"),
        ({"results": [{"relevance_score": 1}, {"relevance_score": None}]}, "results[1] holds no relevance_score"),
        ({"results": [{"relevance_score": 1}]}, "1 of 2 inputs were answered"),
    ],
)
def test_what_is_no_ranking(document: Any, said: str) -> None:
    one = made(document)
    assert one.status == FAILED and said in one.error


@pytest.mark.parametrize(("top", "status"), [(1, COMPLETED), (2, FAILED), (9, FAILED), (None, FAILED), (-1, FAILED)])
def test_no_more_are_wanted_than_were_asked_for(top: Any, status: str) -> None:
    assert made({"results": [{"relevance_score": 1}]}, REQUEST | {"top_n": top}).status == status


def test_the_body() -> None:
    body = json.loads(encode(get("rerank"), Prompt(text="q", texts=["one", "two"], output_tokens=4), Options(model="m", overrides={"top_n": 1})))
    assert body == REQUEST | {"top_n": 1}
    assert (get("rerank").path, get("vllm-rerank").path) == ("/v1/rerank", "/v1/rerank")
    with pytest.raises(UsageError, match=r'backend rerank sends a query with its documents.*"documents"'):
        encode(get("rerank"), Prompt(text="q"), Options(model="m"))


@pytest.mark.parametrize("backend", ["rerank", "vllm-rerank"])
def test_a_run(backend: str) -> None:
    with Scripted(plays([], VLLM)) as server:
        config = RunConfig(base_url=server.url, backend=backend, model="m", num_prompts=3, random_input_len=4, random_batch_size=2)
        result = run(config)
    request = server.seen[-1]
    body = json.loads(request.body)
    assert request.target == "/v1/rerank" and body["query"] and len(body["documents"]) == 2 and body.keys() == {"model", "query", "documents"}
    summary = result.summary
    assert (summary.completed, summary.total_input_tokens, summary.total_output_tokens) == (3, 36, 0)
    assert summary.distributions["ttft"].mean is None and summary.distributions["e2el"].count == 3
