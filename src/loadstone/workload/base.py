"""What a workload is made of: prompts, and the data sets that give them.

A data set is one file with one function registered by name: it takes the run's configuration and a tokenizer (or None), draws from random streams of
its own (seeds.py), and returns a `Workload`. Everything is drawn here, before the run; nothing here knows when a prompt will be sent or by which API.
"""

from collections.abc import Iterable
from typing import Any

import msgspec


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One request's content, before a backend encodes it.

    `text` is what a completions API is sent and what the result file calls the input text. `messages` is a whole chat conversation; without it a
    chat API is sent `text` as one user message. `extra` are fields of the data set's row that go into the request body as they are (they override
    the run's sampling flags; --hyperparameter-path and --extra-body override them). `texts` are several inputs of one request: a batch to embed, or
    the documents to rank by the query `text`. `token_ids` are the prompt as tokens; `audio` is the file to transcribe.
    """

    text: str = ""
    messages: list[dict[str, Any]] | None = None
    texts: list[str] | None = None
    token_ids: list[int] | None = None
    audio: str | None = None
    prompt_tokens: int | None = None  # local count, None where no tokenizer counted
    output_tokens: int | None = None  # the most tokens wanted; None leaves it to the server
    extra: dict[str, Any] = {}
    model: str | None = None  # a LoRA adapter; None is the run's model
    conversation: int = -1
    turn: int = 0


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The prompts of a run in sending order. `prompts` may be a generator: it is consumed once. `skipped`: rows left out, by reason.

    `notes` are sentences for the report (rows repeated, lengths counted in words for want of a tokenizer ...); they are complete once `prompts` has
    been consumed.
    """

    prompts: Iterable[Prompt]
    skipped: dict[str, int] = {}
    notes: list[str] = []
