"""vLLM's pooling API: POST /pooling, for models that embed, classify or reward.

Sent: `input` as for embeddings, or the `messages` of a prompt that has only those. A reply is one JSON document; each entry of its `data` has again
`data`: numbers, a list of numbers a token, a single number, or base64.
"""

from typing import Any

from loadstone.backends.base import Options, Prompt
from loadstone.backends.openai_embeddings import Pooling, input_of, is_vector
from loadstone.backends.server_times import number


class VLLMPooling(Pooling):
    name = "vllm-pooling"
    path = "/pooling"
    result = "pooled output"
    takes_texts = True
    takes_token_ids = True

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        asked = {"messages": prompt.messages} if prompt.messages is not None and not prompt.text else {"input": input_of(prompt)}
        return {"model": prompt.model or options.model, **asked, **prompt.extra}

    def is_result(self, item: dict[str, Any]) -> bool:
        return is_vector(item.get("data")) or number(item.get("data")) is not None


def backend(_name: str) -> VLLMPooling:
    return VLLMPooling()
