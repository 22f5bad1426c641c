"""EBChat: FastDeploy's chats, JSON lines of whole chat request bodies.

All of `messages` are the conversation. `max_tokens` (or `max_completion_tokens`) limits the answer, 12288 where a row has none. Every other field
goes into the request as it is, but for those that belong to the run: `model`, `stream`, `stream_options`. A completions backend is sent the
conversation in the tokenizer's chat template; without one that is an error.
"""

from typing import Any

import msgspec

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload import fields
from loadstone.workload.base import Prompt, Workload
from loadstone.workload.chat import message_texts, takes_chats, why_no_template
from loadstone.workload.files import Row, json_lines
from loadstone.workload.sampling import ordered, workload

MAX_TOKENS = 12288
OF_THE_RUN = ("model", "stream", "stream_options")
_OWN = ("messages", "max_tokens", "max_completion_tokens", *OF_THE_RUN)


def load(config: RunConfig, tokenizer: Tokenizer | None) -> Workload:
    if not takes_chats(config) and (reason := why_no_template(tokenizer)):
        raise UsageError(f"--dataset-name EBChat holds chats, which --backend {config.backend} does not take: {reason}; use --backend openai-chat")
    rows = json_lines(config)
    left_out = [name for name in OF_THE_RUN if any(name in row.fields for row in rows)]
    notes = [f"left out of the data set's rows, as the run decides on them: {', '.join(left_out)}"] if left_out else []
    prompts = ordered(config, [_prompt(row) for row in rows])
    if tokenizer is not None and not takes_chats(config):
        prompts = [_as_text(prompt, tokenizer) for prompt in prompts[: config.num_prompts]]
    return workload(config, prompts, tokenizer, notes)


def _prompt(row: Row) -> Prompt:
    messages = _messages(row)
    output_tokens = fields.tokens(row, "max_tokens") or fields.tokens(row, "max_completion_tokens") or MAX_TOKENS
    return Prompt(
        text="".join(message_texts(messages[-1:])),
        messages=messages,
        output_tokens=output_tokens,
        extra={name: value for name, value in row.fields.items() if name not in _OWN},
    )


def _messages(row: Row) -> list[dict[str, Any]]:
    messages = row.fields.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise UsageError(f"{row.place}: `messages` must be a list of message objects that is not empty, as in a chat request")
    return messages


def _as_text(prompt: Prompt, tokenizer: Tokenizer) -> Prompt:
    return msgspec.structs.replace(prompt, text=tokenizer.apply_chat_template(prompt.messages or []), messages=None)
