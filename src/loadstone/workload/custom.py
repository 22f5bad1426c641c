"""custom: one's own prompts, JSON lines with `prompt` and optionally `output_tokens`.

The most tokens of an answer: the row's `output_tokens`, else --custom-output-len; with --custom-output-len -1 every row must have its own.
A completions backend is sent the prompt in the tokenizer's chat template, as the model expects a question (--custom-skip-chat-template: as it
stands); a chat backend is sent it as a user message and the server applies its own template.

A prompt may be token ids instead, for backends that take them; for embeddings it may be a list of texts; for backends that rank, a row has
`documents` beside it. Such prompts, and those of backends that generate nothing, are sent as they stand.

For backend openai-audio a row has `audio`, the path of a file (from the data set's folder on), and optionally `prompt`, `language` and
`output_tokens`; without the last the answer is as long as what is said.
"""

from pathlib import Path

import msgspec

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload import fields
from loadstone.workload.base import Prompt, Workload
from loadstone.workload.chat import takes_chats, why_no_template
from loadstone.workload.files import Row, json_lines
from loadstone.workload.inputs import POOLING, RERANK, TEXTS, pairs_tokens
from loadstone.workload.sampling import ordered, workload

PER_ROW = -1


def load(config: RunConfig, tokenizer: Tokenizer | None) -> Workload:
    default = config.custom_output_len
    if default < 1 and default != PER_ROW:
        raise UsageError(f"--custom-output-len must be at least 1, or -1 for each row's own output_tokens, not {default}")
    rows = json_lines(config)
    if config.backend == "openai-audio":
        return _spoken(config, rows)
    prompts = [_prompt(row, default, config.backend, tokenizer) for row in rows]
    notes = []
    own = sum(row.fields.get("output_tokens") is not None for row in rows)
    if own and default != PER_ROW:
        notes.append(f"{own} of {len(rows)} rows of the data set have output_tokens of their own, which go before --custom-output-len {default}")

    template = None
    as_it_stands = config.custom_skip_chat_template or config.backend in POOLING or all(prompt.token_ids is not None for prompt in prompts)
    if not takes_chats(config) and not as_it_stands:
        if reason := why_no_template(tokenizer):
            notes.append(f"prompts are sent as they stand in the file, without a chat template: {reason}")
        else:
            template = tokenizer
    chosen = ordered(config, prompts)
    if template is not None:
        used = chosen[: config.num_prompts]
        chosen = [
            prompt
            if prompt.token_ids is not None
            else msgspec.structs.replace(prompt, text=template.apply_chat_template([{"role": "user", "content": prompt.text}]))
            for prompt in used
        ]
    return workload(config, chosen, tokenizer, notes)


def _prompt(row: Row, default: int, backend: str, tokenizer: Tokenizer | None) -> Prompt:
    if backend in POOLING:
        return _pooled(row, backend, tokenizer)
    output_tokens = fields.tokens(row, "output_tokens")
    if output_tokens is None and default == PER_ROW:
        raise UsageError(f"{row.place}: `output_tokens` is missing, which --custom-output-len -1 wants in every row")
    wanted = default if output_tokens is None else output_tokens
    if isinstance(row.fields.get("prompt"), list):
        ids = fields.token_ids(row, "prompt", backend)
        return Prompt(token_ids=ids, prompt_tokens=len(ids), output_tokens=wanted)
    return Prompt(text=fields.text(row, "prompt"), output_tokens=wanted)


def _pooled(row: Row, backend: str, tokenizer: Tokenizer | None) -> Prompt:
    """A prompt for a backend that generates nothing."""
    prompt = row.fields.get("prompt")
    if backend in RERANK:
        text, texts = fields.text(row, "prompt"), fields.texts(row, "documents")
    elif backend in TEXTS and isinstance(prompt, list) and prompt and isinstance(prompt[0], str):
        text, texts = "", fields.texts(row, "prompt")
    elif isinstance(prompt, list):
        ids = fields.token_ids(row, "prompt", backend)
        return Prompt(token_ids=ids, prompt_tokens=len(ids))
    else:
        return Prompt(text=fields.text(row, "prompt"))
    if tokenizer is None:
        return Prompt(text=text, texts=texts)
    query, *counts = tokenizer.count_batch([text, *texts])
    return Prompt(text=text, texts=texts, prompt_tokens=pairs_tokens(query, counts) if backend in RERANK else sum(counts))


def _spoken(config: RunConfig, rows: list[Row]) -> Workload:
    """The workload of rows with audio, whose prompt tokens cannot be counted here."""
    ignored = config.custom_output_len not in (PER_ROW, 256)
    notes = ["--custom-output-len says nothing of rows with audio: they are as long as what is said, or their own output_tokens"] if ignored else []
    folder = Path(config.dataset_path or "").expanduser().parent
    return workload(config, ordered(config, [_clip(row, folder) for row in rows]), None, notes)


def _clip(row: Row, folder: Path) -> Prompt:
    path = folder / Path(fields.text(row, "audio")).expanduser()
    if not path.is_file():
        raise UsageError(f"{row.place}: there is no audio file {path}; `audio` is a path from the data set's folder on")
    language = {"language": fields.text(row, "language")} if row.fields.get("language") is not None else {}
    words = fields.text(row, "prompt") if row.fields.get("prompt") else ""
    return Prompt(audio=str(path), text=words, output_tokens=fields.tokens(row, "output_tokens"), extra=dict(language))
