"""The report that is printed: the fixed block for scripts, and around it what a person needs to judge it.

Above the block one verdict; below it the sums of requests, a table with sample sizes and confidence intervals, failures by reason, warnings and
notes. Everything fits 80 columns. Colours are for terminals alone; a pipe gets plain text.
"""

import sys
import unicodedata
from typing import TextIO

from loadstone.config import INFINITE, RunConfig
from loadstone.metrics.summary import Summary
from loadstone.report.block import block
from loadstone.report.page import Page
from loadstone.report.secrets import without_secrets
from loadstone.report.servers import retry_line, server_lines
from loadstone.report.table import latency_table, server_table
from loadstone.report.thresholds import threshold_lines

EXAMPLE = 300  # characters of an error text that are shown


def print_report(summary: Summary, config: RunConfig, stream: TextIO | None = None) -> None:
    """Print the report, with colours if `stream` (default: standard output) is a terminal that wants them."""
    _page(summary, config).write(stream or sys.stdout)


def render(summary: Summary, config: RunConfig) -> str:
    """The report as plain text."""
    return _page(summary, config).plain()


def _page(summary: Summary, config: RunConfig) -> Page:
    say = Page()
    say.line()
    say.wrapped(_verdict(summary), style=_mood(summary))
    say.wrapped(_asked_and_delivered(summary, config))
    if verdict := summary.client.get("verdict"):
        say.wrapped(f"Client: {verdict}")
    say.line()
    for text in block(summary, config):
        say.line(text, style="bold" if text.startswith("==") else "cyan" if text.startswith("--") else "")

    say.heading("Requests")
    say.line(f"  {summary.planned} planned = {summary.sent} sent + {summary.dropped} dropped")
    say.line(f"  {summary.sent} sent = {summary.completed} completed + {summary.failed} failed + {summary.cancelled} cancelled")
    if retried := retry_line(summary):
        say.wrapped(retried, "  ")
    if summary.completed:
        say.wrapped(_counting(summary), "  ")
    if summary.goodput is not None:
        say.wrapped(_goodput(summary), "  ")

    if table := latency_table(summary, config):
        say.heading(table[0])
        for text in table[1:]:
            say.line(text)
        if not summary.open_loop:
            say.line("From due time: not applicable (closed loop).", style="dim")
        say.wrapped("Percentiles interpolate linearly; intervals take the samples as independent.", style="dim")
    threshold_lines(say, summary.thresholds)
    if table := server_table(summary, config):
        say.heading(table[0])
        for text in table[1:]:
            say.line(text)
    if table := server_lines(summary):
        say.heading(table[0])
        for text in table[1:]:
            say.line(text)
    if summary.failures:
        say.heading("Failures")
        for reason, count in summary.failures.items():
            say.wrapped(f"{count} x {_one_line(without_secrets(reason, config))}", "  ", style="red")
            if example := _one_line(without_secrets(summary.failure_examples.get(reason, ""), config)):
                say.wrapped(f"for example: {example}", "    ")
    if summary.warnings:
        say.heading("Warnings")
        for text in summary.warnings:
            say.wrapped(text, "  ! ", "    ", style="yellow")
    if summary.notes:
        say.heading("Notes")
        for text in summary.notes:
            say.wrapped(without_secrets(text, config), "  - ", "    ")
    say.line()
    return say


def _verdict(summary: Summary) -> str:
    if summary.sent == 0:
        return f"Nothing was sent: all {summary.planned} requests were dropped."
    if summary.completed == 0:
        return f"No request succeeded: {_unfinished(summary)}."
    if summary.completed == summary.planned:
        return f"All {summary.planned} requests completed in {summary.duration_s:.2f} s." if summary.planned > 1 else "The request completed."
    return f"{summary.completed} of {summary.planned} requests completed in {summary.duration_s:.2f} s; {_unfinished(summary)}."


def _unfinished(summary: Summary) -> str:
    counts = {"failed": summary.failed, "cancelled": summary.cancelled, "never sent": summary.dropped}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _mood(summary: Summary) -> str:
    if summary.completed == 0:
        return "bold red"
    return "bold green" if summary.completed == summary.planned else "bold yellow"


def _asked_and_delivered(summary: Summary, config: RunConfig) -> str:
    if config.load is not None:
        asked = f"{config.load!r}"
    elif config.ramp_up_strategy:
        asked = f"a {config.ramp_up_strategy} ramp from {config.ramp_up_start_rps or 0:.2f} to {config.ramp_up_end_rps or 0:.2f} req/s"
    elif config.request_rate != INFINITE:
        asked = f"{config.request_rate:.2f} req/s"
        if summary.planned_rate is not None and abs(summary.planned_rate - config.request_rate) > 0.02 * config.request_rate:
            asked += f" on average ({summary.planned_rate:.2f} as the seed drew them)"
    elif config.max_concurrency:
        asked = "requests without pause"
    else:
        asked = "all requests at once"
    if config.max_concurrency:
        asked += f", at most {config.max_concurrency} in flight"
    paced = config.request_rate != INFINITE or config.ramp_up_strategy or config.load
    sent = f"sent at {summary.sent_rate:.2f} req/s" if summary.sent_rate is not None and paced else f"sent {summary.sent}"
    return f"Asked for {asked}; {sent}, at most {summary.peak_concurrency} in flight."


def _counting(summary: Summary) -> str:
    basis = "per token, by running usage" if summary.itl_basis == "token" else "per event"
    return f"Output tokens by {_sources(summary.token_source)}. Input tokens by {_sources(summary.prompt_token_source)}. ITL {basis}."


def _sources(counts: dict[str, int]) -> str:
    names = {"usage": "usage", "tokenizer": "tokenizer", "events": "events", "local": "the client's tokenizer", "unknown": "nobody"}
    return ", ".join(f"{names.get(name, name)} ({count})" for name, count in counts.items())


def _goodput(summary: Summary) -> str:
    assert summary.goodput is not None
    limits = ", ".join(f"{name} <= {limit:g} ms" for name, limit in summary.goodput.slos_ms.items())
    missed = ", ".join(f"{name} {count}" for name, count in summary.goodput.missed.items())
    since = "; times from due" if summary.open_loop else ""
    return f"{summary.goodput.good} of {summary.sent} sent ({summary.goodput.share:.1%}) met {limits}{since}. Missed: {missed}."


def _one_line(text: str) -> str:
    """`text` without line breaks and control characters (an error text is a stranger's: it must not steer the terminal), cut if long."""
    visible = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
    line = " ".join(visible.split())
    return line if len(line) <= EXAMPLE else line[:EXAMPLE] + " ..."
