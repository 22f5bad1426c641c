"""A comparison in print: one table a pair, 80 columns wide, or Markdown for a pull request."""

from collections.abc import Iterator, Sequence

from loadstone.compare.alike import same_within
from loadstone.compare.fail_if import Outcome
from loadstone.compare.rows import BETTER, NOT_COMPARABLE, PER_SECOND, WORSE, Pair, Row
from loadstone.compare.run import FACTS, HIGHER, Run
from loadstone.report.labels import LABELS
from loadstone.report.page import Page

STYLES = {BETTER: "green", WORSE: "bold red", NOT_COMPARABLE: "yellow"}
NAMES = {"output": "output", "total": "in + out", "requests": "requests", "goodput": "goodput", "errors": "failed"}
OWN = {"response_ttft": "TTFT from due (ms)", "response_e2el": "E2EL from due (ms)", "queue_delay": "Sent after due (ms)"}
UNIT_FREE = ("input_len", "s_input_len", "output_len")
ONCE = (
    "Each side is one run: the verdicts say whether these two runs differ by more than chance within them. Whatever else changed between them is in"
    " the difference; repeats of each side tell that apart."
)


def page(sides: Sequence[Sequence[Run]], pairs: Sequence[Pair], outcomes: Sequence[Outcome]) -> Page:
    say = Page()
    say.line()
    for number, side in enumerate(sides):
        say.wrapped(f"{_letter(number)}  {_named(side)}", rest="   ")
    for pair in pairs:
        say.heading(f"{'':<10}{'A':>9}{pair.name:>9}{'change':>9}{'':>8}{'95 % interval':>15} verdict")
        section = ""
        for row in pair.rows:
            if (head := _section(row)) != section:
                section = head
                say.line(section, "cyan")
            say.line(_line(row), STYLES.get(row.verdict, ""))
        if not pair.rows:
            say.line("No metric is on both sides.")
    for text in dict.fromkeys(_remarks(sides, pairs)):
        say.line()
        say.wrapped(text)
    if outcomes:
        say.heading("Conditions (--fail-if)")
        for each in outcomes:
            verdict = {True: "TRUE: fail", False: "false", None: "cannot be decided"}[each.true]
            say.wrapped(f"{each.condition}: {verdict} ({each.why})", "  ", "    ", "bold red" if each.true else "yellow" if each.true is None else "")
    say.line()
    return say


def markdown(sides: Sequence[Sequence[Run]], pairs: Sequence[Pair], outcomes: Sequence[Outcome]) -> str:
    """The same as Markdown tables."""
    lines = [f"- **{_letter(number)}** {_escaped(_named(side))}" for number, side in enumerate(sides)]
    for pair in pairs:
        lines += ["", f"| metric | A | {pair.name} | change | 95 % interval | verdict |", "|---|---:|---:|---:|---|---|"]
        for row in pair.rows:
            name = f"{_section(row)}: {_name(row)}" if row.statistic else f"{_section(row)}: {NAMES[row.metric]}"
            verdict = f"**{row.verdict}**" if row.verdict in STYLES else row.verdict
            change = f"{row.difference:+.4g}" + ("" if row.percent is None else f" ({row.percent:+.1f} %)")
            lines.append(f"| {_escaped(name)} | {_short(row.a)} | {_short(row.b)} | {change} | {_interval(row)} | {verdict} |")
    lines += [line for text in dict.fromkeys(_remarks(sides, pairs)) for line in ("", _escaped(text))]
    if outcomes:
        marks = {True: "**fail**", False: "passes", None: "**cannot be decided**"}
        lines += ["", *(f"- `{each.condition}`: {marks[each.true]} ({_escaped(each.why)})" for each in outcomes)]
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _letter(number: int) -> str:
    return chr(ord("A") + number)


def _named(side: Sequence[Run]) -> str:
    tools = ", ".join(dict.fromkeys(run.tool for run in side))
    return f"{side[0].source} ({tools})" if len(side) == 1 else f"{len(side)} runs: {', '.join(run.source for run in side)} ({tools})"


def _section(row: Row) -> str:
    if row.metric in PER_SECOND:
        return "Requests or tokens a second"
    if row.metric == "errors":
        return "Requests that failed (%)"
    if row.metric in OWN:
        return OWN[row.metric]
    label = LABELS[row.metric].short if row.metric in LABELS else row.metric
    return label if row.metric in (*UNIT_FREE, "s_decode") else f"{label} (ms)"


def _name(row: Row) -> str:
    return row.statistic or NAMES[row.metric]


def _line(row: Row) -> str:
    percent = "" if row.percent is None else f"{row.percent:+.1f}%" if abs(row.percent) < 1000 else f"{row.percent:+.0f}%"
    change = f"{row.difference:+.2f}" if abs(row.difference) < 9999 else f"{row.difference:+.0f}"
    return f"  {_name(row)[:8]:<8}{_short(row.a):>9}{_short(row.b):>9}{change:>9}{percent:>8}{_interval(row):>15} {row.verdict}"


def _interval(row: Row) -> str:
    if row.low is not None and row.high is not None:
        text = f"{row.low:+.1f} to {row.high:+.1f}"
        return text if len(text) <= 14 else f"{row.low:+.0f} to {row.high:+.0f}"
    return "none"


def _short(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 9999.995 else f"{value:.1f}" if size < 99999.95 else f"{value:.0f}"


def _remarks(sides: Sequence[Sequence[Run]], pairs: Sequence[Pair]) -> Iterator[str]:
    """What a reader must know of the tables, in sentences."""
    rows = [row for pair in pairs for row in pair.rows]
    for pair in pairs:
        for name, words in pair.unlike.items():
            yield f"Not comparable: {pair.name} has another {FACTS[name]} than A ({words}). --allow {name} compares all the same."
    for row in rows:
        if row.why.startswith("definitions: "):
            yield f"Not comparable: {_plain(row)} is not the same on both sides ({row.why.removeprefix('definitions: ')})."
        if row.remark:
            yield f"{_plain(row)} is nearly the same on both sides, but not quite ({row.remark})."
    if reasons := dict.fromkeys(row.why for row in rows if row.why.startswith("no interval") and row.verdict != NOT_COMPARABLE):
        yield f"{'; '.join(reasons).capitalize()}. Give repeats of each side, results of --save-detailed, or records files."
    for number, side in enumerate(sides):
        if fault := same_within(side, _letter(number)):
            yield f"The runs of {_letter(number)} are no repeats of each other: {fault}."
    judged = [row for row in rows if row.p_value is not None and row.verdict != NOT_COMPARABLE]
    if judged:
        yield (
            f"Intervals are in % of A, each row alone. Verdicts hold at 5 % over all {len(judged)} rows together (Holm), so a row whose"
            " interval leaves 0 out may show no difference."
        )
        if all(len(side) == 1 for side in sides):
            yield ONCE
        elif alone := [_letter(number) for number, side in enumerate(sides) if len(side) == 1]:
            yield f"{', '.join(alone)}: a single run, which is taken to spread from run to run as the other side's repeats do."
    if any(row.metric in HIGHER for row in rows):
        yield "Better is more of what is counted a second, less of everything else."


def _plain(row: Row) -> str:
    return _section(row).removesuffix(" (ms)") if row.metric not in PER_SECOND else f"{NAMES[row.metric].capitalize()} a second"
