"""sharegpt: conversations of people with assistants, one JSON list. The first question is sent; the answer to it says how long the reply may be.

The prompt is the first human turn, if an answer stands right after it; a system turn at the beginning is sent as the system message of a chat. The
most tokens of the reply are those of that answer, or --sharegpt-output-len. As in vLLM, whose figures people compare with, rows are left out whose
prompt has fewer than 4 or more than 1024 tokens, or more than 2048 together with the answer; unlike there, short answers stay. Without a tokenizer
lengths are counted in words: a text has at least as many tokens as words, so the upper limits are held and the lower one is not.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer import Tokenizer
from loadstone.workload.base import Prompt, Workload
from loadstone.workload.chat import takes_chats
from loadstone.workload.files import json_list
from loadstone.workload.sampling import Skipped, ordered, workload

HUMAN = ("human", "user")
ASSISTANT = ("gpt", "assistant", "chatgpt", "bard", "bing", "model", "chatbot")
SYSTEM = ("system",)
MIN_PROMPT, MAX_PROMPT, MAX_TOTAL = 4, 1024, 2048  # tokens
CHUNK = 256  # rows whose tokens are counted at once


class Turns(NamedTuple):
    """What is used of a conversation."""

    system: str
    question: str
    answer: str


def load(config: RunConfig, tokenizer: Tokenizer | None) -> Workload:
    length = config.sharegpt_output_len
    if length is not None and length < 1:
        raise UsageError(f"--sharegpt-output-len must be at least 1, not {length}")
    entries = ordered(config, json_list(config))
    notes = []
    if tokenizer is None:
        notes.append("no tokenizer: the lengths of ShareGPT's prompts and answers are counted in words")
    return workload(config, _rows(config, entries, tokenizer), tokenizer, notes)


def _rows(config: RunConfig, entries: Sequence[Any], tokenizer: Tokenizer | None) -> Iterator[Prompt | Skipped]:
    """Each entry in order as a prompt, or why it is none."""
    chats = takes_chats(config)
    remaining = iter(entries)
    while chunk := [first_turns(entry) for entry in islice(remaining, CHUNK)]:
        found = [turns for turns in chunk if isinstance(turns, Turns)]
        texts = [text for turns in found for text in (turns.system if chats else "", turns.question, turns.answer)]
        counts = iter(tokenizer.count_batch(texts) if tokenizer else [len(text.split()) for text in texts])
        for turns in chunk:
            if isinstance(turns, Skipped):
                yield turns
                continue
            prompt_tokens = next(counts) + next(counts)
            output_tokens = next(counts)
            if config.sharegpt_output_len is not None:
                output_tokens = config.sharegpt_output_len
            if reason := _out_of_limits(prompt_tokens, output_tokens, exact=tokenizer is not None):
                yield Skipped(reason)
                continue
            system = [{"role": "system", "content": turns.system}] if chats and turns.system else []
            yield Prompt(
                text=turns.question,
                messages=[*system, {"role": "user", "content": turns.question}] if system else None,
                prompt_tokens=prompt_tokens if tokenizer else None,
                output_tokens=output_tokens,
            )


def first_turns(entry: Any) -> Turns | Skipped:
    """The leading system turn (or ""), the first human turn and the answer after it; Skipped where there are none."""
    turns = entry.get("conversations", entry.get("conversation")) if isinstance(entry, dict) else None
    if not isinstance(turns, list):
        return Skipped("no conversation")
    said = [_said(turn) for turn in turns]
    if len(said) < 2:
        return Skipped("fewer than two turns")
    start = next((place for place, (role, _) in enumerate(said) if role in HUMAN), None)
    if start is None or start + 1 == len(said) or said[start + 1][0] not in ASSISTANT:
        return Skipped("no answer after the first question")
    question, answer = said[start][1], said[start + 1][1]
    if not question.strip():
        return Skipped("empty question")
    if not answer.strip():
        return Skipped("empty answer")
    return Turns(said[0][1] if said[0][0] in SYSTEM else "", question, answer)


def _said(turn: Any) -> tuple[str, str]:
    """Who speaks, in lower case, and what; ("", "") for what is no turn."""
    if not isinstance(turn, dict):
        return "", ""
    role, text = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
    return role.lower() if isinstance(role, str) else "", text if isinstance(text, str) else ""


def _out_of_limits(prompt: int, output: int, *, exact: bool) -> str | None:
    if exact and prompt < MIN_PROMPT:
        return f"prompt under {MIN_PROMPT} tokens"
    if prompt > MAX_PROMPT:
        return f"prompt over {MAX_PROMPT} tokens"
    return f"prompt and answer over {MAX_TOTAL} tokens" if prompt + output > MAX_TOTAL else None
