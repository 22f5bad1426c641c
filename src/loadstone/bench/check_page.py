"""A self-check as a page of text, 80 columns wide: the verdict first, then what to change, then the figures."""

import textwrap
from collections.abc import Iterable

from loadstone.bench.check import BEYOND, UNDECIDED, WITHIN, Report
from loadstone.bench.check_compare import Error
from loadstone.bench.check_find import Found

WIDTH = 80
FEW_CORES = 2


def page(report: Report) -> str:
    """The page of one load."""
    lines = ["", *_wrapped(verdict(report)), *(line for text in advice(report) for line in _wrapped(text, "  "))]
    lines += ["", *_wrapped(_asked(report)), "", *_measured(report), "", *_errors(report), "", *_delivered(report), "", *_health(report)]
    return "\n".join([*lines, *(line for text in remarks(report) for line in _wrapped(text)), ""])


def found_page(found: Found[Report]) -> str:
    """The verdict of a search and its attempts, and the page of the largest load that holds (of the last one if none does)."""
    head = f"{'streams':>10}{'tokens/s':>12}{'TTFT error, p99':>18}{'merged reads':>15}  verdict"
    rows = [
        f"{streams:>10,}{streams * each.load.tokens_per_second:>12,.0f}{_ms(each.ttft_error_ms):>15} ms{each.merged_reads:>15,}  {each.verdict}"
        for streams, each in sorted(found.tried, key=lambda pair: pair[0])
    ]
    shown = next((each for streams, each in found.tried if streams == found.largest), found.tried[-1][1])
    return "\n".join(["", *_wrapped(found_verdict(found)), "", head, *rows, page(shown)])


def verdict(report: Report) -> str:
    """One sentence."""
    load = _load(report)
    limit = f"{report.load.limit_ms:g} ms"
    if report.verdict == WITHIN:
        return f"Within: at {load}, {_off(report)} (limit {limit})."
    if report.verdict == BEYOND:
        return f"Beyond: at {load}, {_off(report)}; the limit is {limit}."
    return f"Undecided: {load} could not be checked here{_blame(report)}: {'; '.join(report.why)}."


def found_verdict(found: Found[Report]) -> str:
    """One sentence."""
    first = found.tried[0][1]
    limit = f"{first.load.limit_ms:g} ms"
    if found.largest is None:
        return f"No load was found at which the error of p99 TTFT stays within {limit}."
    streams = f"{found.largest:,} streams ({found.largest * first.load.tokens_per_second:,.0f} tokens/s)"
    said = f"{streams} is the largest load found at which the error of p99 TTFT stays within {limit}"
    ends = {
        "limit": "it is also the most that the system's limits on files and ports allow",
        "time": "the time was up (--budget-time)",
    }
    above = next((each for number, each in found.tried if number == found.smallest_not), None)
    if above is not None and above.verdict == UNDECIDED:
        return f"{said}; {found.smallest_not:,} streams could not be checked here, so the client may carry more."
    if found.stopped_by in ends:
        return f"{said}; {ends[found.stopped_by]}."
    return f"{said}; {found.smallest_not:,} streams are beyond."


def advice(report: Report) -> list[str]:
    """What to change when the load is not within."""
    if report.verdict == WITHIN:
        return []
    if report.verdict == UNDECIDED:
        if not _server_limited(report):
            return []
        return [
            f"At the load that did run, {_off(report)}.",
            "Check fewer streams or fewer tokens per second, or use a machine with more free cores.",
        ]
    workers = report.client.get("workers") or 1
    share = report.client.get("cpu_share") or 0.0
    tips = []
    if report.clock == "user" and report.load.clock == "user":
        tips.append("Leave out --clock user: the kernel's stamps do not depend on how busy the client is.")
    if report.cores > workers + 1:
        tips.append(f"Use more workers: --workers {workers + 1} ({workers} used {share:.0%} of a core each; {report.cores} cores).")
    tips.append("Use fewer streams per client, or a machine with more or faster free cores; end what else runs on this one.")
    return tips


def remarks(report: Report) -> list[str]:
    """What a reader must know of these figures."""
    said = []
    if report.cores <= FEW_CORES:
        cores = "only core" if report.cores == 1 else f"{report.cores} cores"
        said.append(
            f"The simulated server shares this machine's {cores} with the client: against a server elsewhere the client has more room than "
            "is shown here."
        )
    if report.verdict == WITHIN and (off := _others_beyond(report)):
        said.append(f"TTFT is judged; off by more than the limit at this load: {', '.join(off)}.")
    if report.comparison.without_arrival:
        said.append(
            f"The arrival of {report.comparison.without_arrival:,} requests is not known to the server's kernel: their sending counts as exact."
        )
    return said


def _others_beyond(report: Report) -> list[str]:
    """Figures of ITL and E2EL that are off by more than the limit that TTFT is held to."""
    return [
        f"{name.upper()} {point} ({abs(report.measured_ms[name][point] - report.comparison.true_ms[name][point]):.3f} ms)"
        for name in ("itl", "e2el")
        for point in ("mean", "p50", "p99")
        if name in report.measured_ms
        and name in report.comparison.true_ms
        and abs(report.measured_ms[name][point] - report.comparison.true_ms[name][point]) > report.load.limit_ms
    ]


def _off(report: Report) -> str:
    each = report.comparison.ttft
    if report.p99_ttft_error_ms is None or each is None:
        return "nothing could be measured"
    return f"this client's p99 TTFT is off by {_ms(report.p99_ttft_error_ms)} ms, and 99 % of its TTFTs by at most {_ms(each.p99_us / 1e3)} ms"


def _load(report: Report) -> str:
    load = report.load
    each = f"{load.tokens_per_second:g} tokens/s each"
    if load.request_rate is None:
        return f"{_count(load.concurrency or 0, 'stream')} with {each}"
    cap = f", at most {load.concurrency:,} at once" if load.concurrency else ""
    return f"{load.request_rate:g} requests/s with {each}{cap}"


def _asked(report: Report) -> str:
    workers = report.client.get("workers") or 1
    sent = f"{report.planned:,} requests of {report.load.output_tokens} tokens, {report.token_events:,} token events"
    return f"{sent}; {_count(workers, 'worker')}, {report.clock} stamps, {_count(report.cores, 'core')}."


def _measured(report: Report) -> list[str]:
    lines = [f"{'In ms':<26}{'measured':>14}{'true':>14}{'error':>14}"]
    for name, label in (("ttft", "TTFT"), ("itl", "ITL"), ("e2el", "E2EL")):
        mine, true = report.measured_ms.get(name), report.comparison.true_ms.get(name)
        if mine and true:
            for point in ("mean", "p50", "p99"):
                lines.append(f"  {label + ' ' + point:<24}{mine[point]:>14.3f}{true[point]:>14.3f}{mine[point] - true[point]:>+14.3f}")
    return lines


def _errors(report: Report) -> list[str]:
    found = report.comparison
    kinds: Iterable[tuple[str, Error | None]] = (
        ("first token received", found.first_token),
        ("last token received", found.last_token),
        ("every token received", found.every_token),
        ("request sent", found.sending),
        ("TTFT", found.ttft),
        ("ITL", found.itl),
        ("E2EL", found.e2el),
    )
    lines = [f"{'Errors one by one, in us':<26}{'n':>10}{'mean':>11}{'median':>11}{'p99 size':>11}{'max size':>11}"]
    lines += [f"  {label:<24}{_figures(each)}" for label, each in kinds if each]
    if found.server_wait:
        lines += ["Not the client's error:", f"  {'wait for the server':<24}{_figures(found.server_wait)}"]
    return lines


def _figures(each: Error) -> str:
    return f"{each.count:>10,}{each.mean_us:>11,.1f}{each.median_us:>11,.1f}{each.p99_us:>11,.1f}{each.max_us:>11,.1f}"


def _delivered(report: Report) -> list[str]:
    load, found = report.load, report.comparison
    lines = [f"{'Load':<26}{'asked':>14}{'at the server':>14}"]
    if load.request_rate is not None:
        drawn = load.request_rate if report.planned_rate is None else report.planned_rate
        lines.append(f"  {'requests/s, as drawn':<24}{drawn:>14.2f}{_or_dash(found.arrival_rate, '.2f'):>14}")
        if report.late_p99_ms is not None:
            lines.append(f"  {'sent late, p99 (ms)':<24}{0:>14}{report.late_p99_ms:>14.3f}")
    streams = f"{load.streams:,.0f}" if load.request_rate is None else f"about {load.streams:,.0f}"
    lines.append(f"  {'streams at once, most':<24}{streams:>14}{report.server.peak_streams:>14,}")
    lines.append(f"  {'tokens/s per stream':<24}{load.tokens_per_second:>14.2f}{_or_dash(found.token_pace, '.2f'):>14}")
    return lines


def _health(report: Report) -> list[str]:
    share, read_late = report.client.get("cpu_share"), report.client.get("read_late_p99_ms")
    client = [f"merged reads {report.merged_reads:,} of {report.token_events:,}"]
    if share is not None:
        client.insert(0, f"each worker {share:.0%} of a core")
    if read_late is not None:
        client.append(f"read {read_late:.2f} ms late (p99)")
    late = report.server.step_late_p99_ms
    server = f"{report.server.cpu_share:.0%} of a core" + ("" if late is None else f", steps served {late:.2f} ms late (p99)")
    return [*_wrapped(f"Client: {', '.join(client)}."), *_wrapped(f"Simulated server: {server}.")]


def _server_limited(report: Report) -> bool:
    return report.completed == report.planned and not report.comparison.unmatched


def _blame(report: Report) -> str:
    return ", because the simulated server could not keep up" if _server_limited(report) else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{abs(value):.3f}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
