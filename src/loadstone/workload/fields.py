"""Checking the fields of a row: each gives the value in its right type, or UsageError naming place, field and what is wanted."""

import math
from contextlib import suppress
from typing import Any

from loadstone.errors import UsageError
from loadstone.workload.files import Row
from loadstone.workload.inputs import TOKEN_IDS


def text(row: Row, name: str) -> str:
    """A text that is not empty."""
    value = row.fields.get(name)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{row.place}: `{name}` must be a text that is not empty, {_found(row, name)}")
    return value


def texts(row: Row, name: str) -> list[str]:
    """A list of texts, none of them empty, at least one."""
    value = row.fields.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(text, str) and text for text in value):
        raise UsageError(f"{row.place}: `{name}` must be a list of texts that are not empty, {_found(row, name)}")
    return value


def token_ids(row: Row, name: str, backend: str) -> list[int]:
    """A list of token ids, at least one, for a backend that takes them."""
    value = row.fields.get(name)
    if not isinstance(value, list) or not value or not all(type(token) is int and token >= 0 for token in value):
        raise UsageError(f"{row.place}: `{name}` must be a text or a list of token ids, {_found(row, name)}")
    if backend not in TOKEN_IDS:
        raise UsageError(f"{row.place}: `{name}` is token ids, and --backend {backend} takes none: choose one of {', '.join(sorted(TOKEN_IDS))}")
    return value


def number(row: Row, name: str) -> float | None:
    """A finite number, or one written as text; None where the field is absent or null."""
    value = row.fields.get(name)
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{row.place}: `{name}` must be a number, {_found(row, name)}")
    return value


def tokens(row: Row, name: str, *, least: int = 1) -> int | None:
    """A whole number of tokens, at least `least`; None where the field is absent or null."""
    value = number(row, name)
    if value is None:
        return None
    if value != value // 1 or value < least:
        raise UsageError(f"{row.place}: `{name}` must be a whole number, {least} or more, {_found(row, name)}")
    return int(value)


def _found(row: Row, name: str) -> Any:
    return f"it is {row.fields[name]!r:.80}" if name in row.fields else "it is missing"
