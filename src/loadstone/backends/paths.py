"""Paths into JSON, as a template names the places of a reply: `choices.0.delta.content`.

Names and indexes (from the end: -1) are joined by dots; `*` is every item of a list, or every value of an object; a name that holds a dot or a
bracket stands in double quotes. A condition in brackets keeps what meets it: `content.*[type=text].text`, `parts.*[!thought].text`, and at the
beginning of a path it is about the whole event: `[type=token].content`. Null is as good as absent.
"""

import contextlib
import json
import re
from typing import Any, NamedTuple

_STEP = re.compile(r'(?:"(?P<quoted>[^"]+)"|(?P<name>[^."\[\]]*))(?P<conditions>(?:\[[^\[\]]+\])*)(?:\.|$)')
_CONDITION = re.compile(r"\[(?P<no>!?)(?P<key>[^=!\[\]]+)(?:(?P<is>!?=)(?P<value>[^\[\]]*))?\]")


class Condition(NamedTuple):
    """`wanted` are the values that meet it; None: any that says something (no null, no false, no empty text)."""

    key: str
    wanted: tuple[Any, ...] | None
    negated: bool

    def holds(self, value: Any) -> bool:
        found = value.get(self.key) if isinstance(value, dict) else None
        met = says_something(found) if self.wanted is None else any(found == each and type(found) is type(each) for each in self.wanted)
        return met != self.negated


class Step(NamedTuple):
    """`name`: of a field; None: every one; "": stay here. `place`: of an item, if the name can be one."""

    name: str | None
    place: int | None
    conditions: tuple[Condition, ...]

    def taken(self, value: Any) -> list[Any]:
        found: list[Any]
        if self.name == "":
            found = [value]
        elif isinstance(value, dict):
            found = list(value.values()) if self.name is None else [value[self.name]] if self.name in value else []
        elif isinstance(value, list):
            found = value if self.name is None else value[self.place :][:1] if self.place is not None and self.place >= -len(value) else []
        else:
            found = []
        return [each for each in found if all(condition.holds(each) for condition in self.conditions)]


Path = tuple[Step, ...]


def parse(text: str) -> Path:
    """The path that `text` spells. Raises ValueError saying what is wrong with it."""
    steps, at = [], 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or not (match["quoted"] or match["name"] or match["conditions"]):
            raise ValueError(f"{text!r} is no path: names are joined by single dots, as in choices.0.text")
        conditions = tuple(_condition(each[0], text) for each in re.finditer(r"\[[^\[\]]+\]", match["conditions"]))
        name = match["quoted"] or match["name"].strip()
        place = int(name) if not match["quoted"] and re.fullmatch(r"-?\d{1,9}", name) else None
        steps.append(Step(None if name == "*" and not match["quoted"] else name, place, conditions))
        at = match.end()
    if not steps or text.endswith("."):
        raise ValueError(f"{text!r} is no path: give names joined by dots, as in choices.0.text")
    return tuple(steps)


def _condition(text: str, path: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None or (match["no"] and match["is"]):
        raise ValueError(f"{path!r}: {text} is no condition: write [name], [!name], [name=value] or [name!=value]")
    if match["is"] is None:
        return Condition(match["key"].strip(), None, bool(match["no"]))
    wanted: tuple[Any, ...] = (match["value"],)
    with contextlib.suppress(ValueError, RecursionError):
        wanted += (json.loads(match["value"]),)  # `true` may be the word or the value
    return Condition(match["key"].strip(), wanted, match["is"] == "!=")


def find(value: Any, path: Path) -> list[Any]:
    """Every value that stands at `path` in `value`, without nulls."""
    found = [value]
    for step in path:
        found = [each for item in found for each in step.taken(item)]
    return [each for each in found if each is not None]


def says_something(value: Any) -> bool:
    """Whether `value` is there and neither false nor an empty text."""
    return value is not None and value is not False and value != ""
