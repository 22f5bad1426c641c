"""Thresholds in the report: a table of what was asked, what was found and what that makes."""

from collections.abc import Sequence

from loadstone.metrics.summary import Judgement
from loadstone.metrics.thresholds import FAIL, PASS, TOO_FEW
from loadstone.report.page import Page

STYLES = {PASS: "green", FAIL: "bold red", TOO_FEW: "yellow"}


def found(judgement: Judgement) -> str:
    """The value in the unit of its threshold."""
    if judgement.value is None:
        return "none"
    return f"{judgement.value:.5g}{'' if judgement.unit == '%' else ' '}{judgement.unit}"


def threshold_lines(page: Page, judgements: Sequence[Judgement]) -> None:
    """The table, 80 columns wide; nothing where no threshold was given."""
    if not judgements:
        return
    missed = sum(each.verdict == FAIL for each in judgements)
    page.heading(f"Thresholds: {missed} of {len(judgements)} missed" if missed else f"Thresholds: none of {len(judgements)} missed")
    width = max(len(each.threshold) for each in judgements)
    for each in judgements:
        why = f" ({each.why})" if each.why else ""
        page.wrapped(f"{each.threshold:<{width}}  {found(each):>14}  {each.verdict}{why}", "  ", "    ", STYLES[each.verdict])
