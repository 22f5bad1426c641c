"""Whether two sides were asked the same: what must be alike before a difference between them says anything of the servers."""

from collections.abc import Collection, Sequence
from typing import Any

from loadstone.compare.run import FACTS, Definition, Run, definition

TOLERANCE = 0.05  # of the tokens a request: drawn lengths and replies of their own length differ a little from run to run


def different(a: Sequence[Run], b: Sequence[Run], allowed: Collection[str] = ()) -> dict[str, str]:
    """The facts in which the sides differ, and how: {"load": "10 req/s against 20 req/s"}. A fact that a side does not tell is not held against it.

    The seed counts where each side is a single run: repeats have seeds of their own by design.
    """
    found: dict[str, str] = {}
    for name in FACTS:
        if name in allowed or (name == "seed" and max(len(a), len(b)) > 1):
            continue
        ours, theirs = ([run.facts[name] for run in side if name in run.facts] for side in (a, b))
        if ours and theirs and (words := _lengths(ours, theirs) if name == "lengths" else _texts(name, ours, theirs)):
            found[name] = words
    return found


def same_within(side: Sequence[Run], name: str) -> str:
    """How the runs of one side, which should be repeats, differ from its first; "" if they do not."""
    return next((each for run in side[1:] for each in different(side[:1], [run]).values()), "")


def unlike(a: Sequence[Run], b: Sequence[Run], metric: str) -> tuple[str, str]:
    """Why the metric does not mean the same on both sides, "" if it does; and a remark where it means almost the same."""
    if metric == "goodput" and len(limits := dict.fromkeys(run.slos for run in (*a, *b) if run.slos)) > 1:
        return f"limits {' against '.join(limits)}", ""
    ours, theirs = ([definition(run, metric) for run in side] for side in (a, b))
    kinds = dict.fromkeys(each.kind for each in (*ours, *theirs))
    if len(kinds) > 1:
        return " against ".join(kinds), ""
    details = [_detail(side) for side in (ours, theirs)]
    return "", "" if details[0] == details[1] else "; ".join(f"{side}: {text}" for side, text in zip("AB", details, strict=True) if text)


def _detail(side: Sequence[Definition]) -> str:
    return ", ".join(dict.fromkeys(each.detail for each in side if each.detail))


def _texts(name: str, ours: Sequence[Any], theirs: Sequence[Any]) -> str:
    plain = _model if name == "model" else str
    left, right = ({plain(each) for each in side} for side in (ours, theirs))
    return "" if left == right else f"{_listed(ours)} against {_listed(theirs)}"


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(dict.fromkeys(str(each) for each in values))


def _model(name: Any) -> str:
    """org/Model and model are one: servers and tools differ in how much of the name they keep."""
    return str(name).rstrip("/").rpartition("/")[2].lower()


def _lengths(ours: Sequence[Any], theirs: Sequence[Any]) -> str:
    words = []
    for place, kind in enumerate(("input", "output")):
        sides = [[each[place] for each in side if each[place] is not None] for side in (ours, theirs)]
        if all(sides):
            left, right = (sum(side) / len(side) for side in sides)
            if abs(left - right) > TOLERANCE * max(left, right):
                words.append(f"{left:.1f} against {right:.1f} {kind} tokens a request")
    return ", ".join(words)
