"""A plan comes back from its files as it was written."""

from pathlib import Path

import pytest

from loadstone.errors import UsageError
from loadstone.plan import NONE, Plan, build
from loadstone.workload.base import Prompt

PROMPTS = [
    Prompt(text="one", prompt_tokens=1, output_tokens=5),
    Prompt(text="zwei Wörter", model="adapter", conversation=3, turn=1),
    Prompt(messages=[{"role": "user", "content": "three"}], prompt_tokens=0),
]


def make(folder: Path, **options: bool) -> Plan:
    return build(folder / "plan", PROMPTS, [0, 7, 9], lambda prompt: prompt.text.encode() + b"!", model="base", **options)


def test_every_field_comes_back(tmp_path: Path) -> None:
    make(tmp_path)
    plan = Plan(tmp_path / "plan")
    assert len(plan) == 3
    assert [plan.body(number) for number in range(3)] == [b"one!", "zwei Wörter!".encode(), b"!"]
    assert [plan.due_ns(number) for number in range(3)] == [0, 7, 9]
    first, second, third = (plan[number] for number in range(3))
    assert (first.index, first.due_ns, first.model, first.prompt_tokens, first.output_tokens) == (0, 0, "base", 1, 5)
    assert (first.conversation, first.turn) == (None, None)
    assert (second.model, second.conversation, second.turn, second.prompt_tokens) == ("adapter", 3, 1, None)
    assert (third.prompt_tokens, third.output_tokens) == (0, None)


def test_a_closed_loop_has_no_due_times(tmp_path: Path) -> None:
    plan = build(tmp_path, PROMPTS, None, lambda _: b"", model="m")
    assert plan.due_ns(2) == NONE and plan[2].due_ns is None and plan.body(2) == b""


def test_texts_are_kept_only_when_wanted(tmp_path: Path) -> None:
    assert make(tmp_path).texts() is None
    assert make(tmp_path, keep_texts=True).texts() == ["one", "zwei Wörter", '[{"role":"user","content":"three"}]']


def test_a_plan_of_another_version_is_refused(tmp_path: Path) -> None:
    make(tmp_path)
    path = tmp_path / "plan" / "plan.json"
    path.write_bytes(path.read_bytes().replace(b"plan/1", b"plan/9"))
    with pytest.raises(UsageError, match="plan/9"):
        Plan(tmp_path / "plan")
