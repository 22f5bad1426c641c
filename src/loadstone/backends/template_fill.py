"""Placeholders of a template: `{{prompt}}`, and `{{max_tokens|256}}` with what is sent where there is no value.

A text that is one placeholder takes the value in its own type; within a longer text it is put in as text. What holds a value that is absent is left
out, and so is an object or a list in which nothing is left.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from loadstone.values import nearest

PLACEHOLDER = re.compile(r"\{\{\s*(?P<name>\w+)\s*(?:\|(?P<default>.*?))?\}\}")
ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "ABSENT"})()


def fill(tree: Any, values: Mapping[str, Any]) -> Any:
    """`tree` with the values in it; ABSENT if nothing of it is left."""
    if isinstance(tree, str):
        return _text(tree, values)
    if isinstance(tree, dict):
        fields = {name: filled for name, part in tree.items() if (filled := fill(part, values)) is not ABSENT}
        return fields if fields or not tree else ABSENT
    if isinstance(tree, list):
        items = [filled for part in tree if (filled := fill(part, values)) is not ABSENT]
        return items if items or not tree else ABSENT
    return tree


def _text(text: str, values: Mapping[str, Any]) -> Any:
    if "{{" not in text:
        return text
    if whole := PLACEHOLDER.fullmatch(text.strip()):
        return _value(whole, values)
    found = {match[0]: _value(match, values) for match in PLACEHOLDER.finditer(text)}
    if any(value is ABSENT for value in found.values()):
        return ABSENT
    return PLACEHOLDER.sub(lambda match: spelled(found[match[0]]), text)


def spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _value(match: re.Match[str], values: Mapping[str, Any]) -> Any:
    value = values.get(match["name"])
    if value is not None:
        return value
    if match["default"] is None:
        return ABSENT
    try:
        return json.loads(match["default"])
    except (ValueError, RecursionError):
        return match["default"].strip()


def names_in(tree: Any) -> set[str]:
    """The names of all placeholders in `tree`."""
    return {match["name"] for _, text in texts(tree) for match in PLACEHOLDER.finditer(text)}


def check(tree: Any, known: frozenset[str], place: str) -> None:
    """Raises ValueError, with its place, for a placeholder that is not `known`."""
    for where, text in texts(tree, place):
        for match in PLACEHOLDER.finditer(text):
            if match["name"] not in known:
                choice = f"there are {', '.join(f'{{{{{name}}}}}' for name in sorted(known))}" if known else "none can stand here"
                raise ValueError(f"{where}: there is no placeholder {match[0]}{nearest(match['name'], known)}; {choice}")
        if "{{" in PLACEHOLDER.sub("", text):
            raise ValueError(f"{where}: {text!r} holds {{{{ without a placeholder: write {{{{prompt}}}}")


def texts(tree: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Every text in `tree` with its place."""
    if isinstance(tree, str):
        yield place, tree
    elif isinstance(tree, dict):
        for name, part in tree.items():
            yield from texts(part, f"{place}.{name}")
    elif isinstance(tree, list):
        for index, part in enumerate(tree):
            yield from texts(part, f"{place}.{index}")
