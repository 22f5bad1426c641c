"""OpenAI completions: POST /v1/completions. vllm, sglang, lmdeploy and scalellm are its other names.

The prompt goes out as text, untouched by any chat template, or as token ids; the wanted length as `max_tokens` (the only spelling this API has);
`logprobs` as a number.
"""

from typing import Any

from loadstone.backends.base import Options, Prompt, merge
from loadstone.backends.openai import OpenAI
from loadstone.backends.openai_body import fields
from loadstone.errors import UsageError


class OpenAICompletions(OpenAI):
    path = "/v1/completions"
    max_tokens_fields = ("max_tokens",)
    takes_token_ids = True

    def __init__(self, name: str = "openai", beam_search: bool = True) -> None:
        """`name` is what the person called it; not every server that speaks this API has beam search."""
        self.name = name
        self.has_beam_search = beam_search

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        if prompt.messages is not None and not prompt.text:
            raise UsageError(f"backend {self.name} sends text, and a prompt of this data set has only messages: use --backend openai-chat")
        body: dict[str, Any] = {"model": prompt.model or options.model, "prompt": prompt.text if prompt.token_ids is None else prompt.token_ids}
        if prompt.output_tokens is not None:
            body["max_tokens"] = prompt.output_tokens
        if options.logprobs is not None:
            body["logprobs"] = options.logprobs
        return merge(body | fields(options), prompt.extra)


def backend(name: str) -> OpenAICompletions:
    """use_beam_search is a field of vLLM's API; other servers would ignore it and answer without a beam."""
    return OpenAICompletions(name, beam_search=name in ("openai", "vllm"))
