"""OpenAI chat completions: POST /v1/chat/completions.

The wanted length goes out as `max_completion_tokens` alone. OpenAI has deprecated `max_tokens`, refuses it for its reasoning models and refuses both
together; vLLM, SGLang, LMDeploy and FastDeploy know `max_completion_tokens` and call the other deprecated; llama.cpp knows both since February 2026.
Older llama.cpp, some forks and llama-cpp-python know only `max_tokens`, and there a reply runs to its natural end:
`--extra-body '{"max_tokens": 128}'` takes the place of the other spelling.
"""

from typing import Any

from loadstone.backends.base import Options, Prompt, merge
from loadstone.backends.openai import OpenAI
from loadstone.backends.openai_body import fields
from loadstone.errors import UsageError


class OpenAIChat(OpenAI):
    name = "openai-chat"
    path = "/v1/chat/completions"
    takes_chats = True
    max_tokens_fields = ("max_completion_tokens", "max_tokens")

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        if prompt.token_ids is not None and prompt.messages is None:
            raise UsageError(
                f"backend {self.name} sends messages, and a prompt of this data set is token ids: use --backend openai, which takes them"
            )
        messages = prompt.messages if prompt.messages is not None else [{"role": "user", "content": prompt.text}]
        body: dict[str, Any] = {"model": prompt.model or options.model, "messages": messages}
        if prompt.output_tokens is not None:
            body[options.max_tokens_field or self.max_tokens_fields[0]] = prompt.output_tokens
        if options.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": options.logprobs}
        return merge(body | fields(options), prompt.extra)


def backend(_name: str) -> OpenAIChat:
    return OpenAIChat()
