"""What a plan looks like, for a person: totals, lengths, gaps, and how much of the prompts a prefix cache could know."""

import itertools
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from loadstone.bench.prepare import Prepared
from loadstone.config import RunConfig
from loadstone.plan import COLUMNS, NONE, Plan
from loadstone.report.page import Page

BINS, BAR = 10, 40
SAMPLE = 20_000  # prompts that are looked at for shared prefixes


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a plan. Lengths are in tokens by the local tokenizer; None where nobody counted."""

    requests: int
    conversations: int
    models: dict[str, int]
    body_bytes: int
    prompt_tokens: int | None
    output_tokens: int | None
    shared_prefix: float | None  # share of the prompts' characters that stand in a prefix of an earlier one: what an endless prefix cache would know
    duration_s: float | None  # from the start to the last due time
    mean_rate: float | None  # (requests - 1) / (last due - first due)
    gap_cv: float | None  # standard deviation of the gaps between due times over their mean
    notes: list[str] = []


def columns(plan: Plan) -> dict[str, NDArray[np.int64]]:
    """The plan's index by column, -1 for what is absent."""
    table = np.frombuffer((plan.folder / "index.bin").read_bytes(), np.int64).reshape(-1, len(COLUMNS))
    return {name: table[:, place] for place, name in enumerate(COLUMNS)}


def figures_of(prepared: Prepared) -> Figures:
    plan = prepared.plan
    table = columns(plan)
    due = np.sort(table["due_ns"][table["due_ns"] != NONE]) / 1e9
    gaps = np.diff(due)
    models = np.unique(table["model"], return_counts=True)
    return Figures(
        requests=len(plan),
        conversations=len(set(table["conversation"].tolist()) - {NONE}),
        models={plan.models[number]: int(count) for number, count in zip(*models, strict=True)},
        body_bytes=int(table["length"].sum()),
        prompt_tokens=_total(table["prompt_tokens"]),
        output_tokens=_total(table["output_tokens"]),
        shared_prefix=shared_prefix(list(itertools.islice(plan.each_text(), SAMPLE))),
        duration_s=float(due[-1]) if len(due) else None,
        mean_rate=len(gaps) / float(due[-1] - due[0]) if len(gaps) and due[-1] > due[0] else None,
        gap_cv=float(gaps.std() / gaps.mean()) if len(gaps) and gaps.mean() > 0 else None,
        notes=prepared.notes,
    )


def _total(column: NDArray[np.int64]) -> int | None:
    return int(column.sum()) if len(column) and (column != NONE).all() else None


def shared_prefix(texts: list[str]) -> float | None:
    """Share of all characters that stand in a prefix which an earlier text has too: in sorted order each text shares most with its neighbour, and the
    sum over neighbours is what a tree of all prefixes saves.
    """
    total = sum(map(len, texts))
    if not total:
        return None
    ordered = sorted(texts)
    return sum(_common(one, other) for one, other in itertools.pairwise(ordered)) / total


def _common(one: str, other: str) -> int:
    """Length of the longest common prefix, by halving."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def plan_page(prepared: Prepared, config: RunConfig) -> Page:
    """The page that `loadstone plan` prints, 80 columns wide."""
    found, table, say = figures_of(prepared), columns(prepared.plan), Page()
    say.line()
    say.wrapped(f"{found.requests} requests for backend {config.backend}, data set {config.dataset_name}, seed {config.seed}.", style="bold")
    say.line(f"  request bodies     {found.body_bytes / 1e6:.2f} MB")
    say.line(f"  prompt tokens      {_count(found.prompt_tokens)}")
    say.line(f"  output tokens      {_count(found.output_tokens)}{'' if found.output_tokens is None else ' at most'}")
    if found.shared_prefix is not None:
        say.line(f"  shared prefixes    {found.shared_prefix:.1%} of the text begins an earlier prompt too")
    if len(found.models) > 1:
        say.wrapped("models             " + ", ".join(f"{name} ({count})" for name, count in found.models.items()), "  ")
    if found.duration_s is None:
        say.line(f"  load               closed loop, at most {config.max_concurrency} in flight, as long as it takes")
    else:
        due_by = f"the last request due at {found.duration_s:.2f} s"
        say.line(f"  load               {'all at once' if found.mean_rate is None else f'{found.mean_rate:.2f} req/s on average, {due_by}'}")
    _histogram(say, "Prompt tokens", table["prompt_tokens"][table["prompt_tokens"] != NONE])
    _histogram(say, "Output tokens, at most", table["output_tokens"][table["output_tokens"] != NONE])
    due = np.sort(table["due_ns"][table["due_ns"] != NONE]) / 1e6
    if found.gap_cv is not None:
        _histogram(say, f"Gaps between due times in ms (coefficient of variation {found.gap_cv:.2f})", np.diff(due))
    if found.notes:
        say.heading("Notes")
        for note in found.notes:
            say.wrapped(note, "  - ", "    ")
    say.line()
    return say


def _count(tokens: int | None) -> str:
    return "not counted" if tokens is None else f"{tokens:,}"


def _histogram(say: Page, title: str, values: NDArray[Any]) -> None:
    """Bars over ten bins of equal width; one line where all values are alike, none where there are no values."""
    if not len(values):
        return
    points = np.percentile(values, [0, 50, 99, 100])
    say.heading(title)
    say.line(f"  mean {values.mean():.6g}   min {points[0]:.6g}   p50 {points[1]:.6g}   p99 {points[2]:.6g}   max {points[3]:.6g}")
    if points[0] == points[3]:
        return
    bins = _bins(values)
    most = max(count for count, _, _ in bins)
    for count, low, high in bins:
        bar = "#" * round(BAR * count / most)
        say.line(f"  {low:>9.6g} to {high:>9.6g} {count:>9}  {bar}".rstrip())


def _bins(values: NDArray[Any]) -> list[tuple[int, float, float]]:
    """(how many, from, to) of at most ten bins of equal width. Those of whole numbers are whole, and `to` belongs to them."""
    if not np.issubdtype(values.dtype, np.integer):
        counts, edges = np.histogram(values, BINS)
        return list(zip(counts.tolist(), edges.tolist(), edges[1:].tolist(), strict=False))
    low, high = int(values.min()), int(values.max())
    width = -(-(high - low + 1) // BINS)
    counts = np.bincount((values - low) // width).tolist()
    return [(count, low + width * number, min(low + width * (number + 1) - 1, high)) for number, count in enumerate(counts)]


def figures_json(prepared: Prepared) -> bytes:
    return msgspec.json.encode(figures_of(prepared))
