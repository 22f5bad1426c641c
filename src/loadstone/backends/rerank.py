"""Rerank: POST /v1/rerank (`rerank`, also called `vllm-rerank`), as vLLM, Jina, Cohere, SGLang and llama.cpp serve it; /v1/rerank, /v2/rerank and
/rerank differ in their path alone.

Sent: a query and its documents. A reply is one JSON document whose `results` (`data` at some) each have a `relevance_score` (`score` at some); SGLang
replies with the list of them alone. Tokens: `usage`; Cohere's `meta.tokens`, `meta.billed_units`; SGLang states them with each result.
"""

from typing import Any

from loadstone.backends.base import Options, Prompt, Usage, json_object
from loadstone.backends.openai_embeddings import Pooling
from loadstone.backends.server_times import number
from loadstone.backends.wire import count, mapping, mappings
from loadstone.errors import UsageError


class Rerank(Pooling):
    path = "/v1/rerank"
    result = "relevance_score"
    field = "results"
    takes_texts = True

    def __init__(self, name: str) -> None:
        self.name = name

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        if not prompt.texts or not prompt.text:
            raise UsageError(
                f"backend {self.name} sends a query with its documents, and a prompt of this data set has none: use --dataset-name random, or custom "
                'with rows such as {"prompt": "query", "documents": ["one", "two"]}'
            )
        return {"model": prompt.model or options.model, "query": prompt.text, "documents": prompt.texts, **prompt.extra}

    def document(self, body: bytes) -> dict[str, Any]:
        if body.lstrip()[:1] == b"[":
            body = b'{"results":' + body + b"}"
        document = json_object(body)
        if "results" not in document and isinstance(document.get("data"), list):
            document["results"] = document["data"]
        return document

    def is_result(self, item: dict[str, Any]) -> bool:
        return number(item.get("relevance_score", item.get("score"))) is not None

    def usage(self, document: dict[str, Any]) -> Usage:
        stated = super().usage(document)
        if stated.prompt_tokens is not None:
            return stated
        meta = mapping(document.get("meta"))
        for tokens in (mapping(meta.get("tokens")), mapping(meta.get("billed_units"))):
            if (told := count(tokens.get("input_tokens"))) is not None:
                return Usage(prompt_tokens=told)
        each = [count(mapping(item.get("meta_info")).get("prompt_tokens")) for item in mappings(document["results"])]
        known = [tokens for tokens in each if tokens is not None]
        return Usage(prompt_tokens=sum(known) if len(known) == len(each) else None)

    def inputs(self, body: dict[str, Any]) -> int:
        documents, most = body.get("documents"), count(body.get("top_n"))
        wanted = len(documents) if isinstance(documents, list) else 1
        return wanted if most is None else min(wanted, most)


def backend(name: str) -> Rerank:
    return Rerank(name)
