"""What the report says of several servers, and of requests that were tried more than once."""

from loadstone.metrics.summary import Distribution, Summary

NAME = 22


def server_lines(summary: Summary) -> list[str]:
    """A title line, then one line a server. Empty for one server."""
    if not summary.servers:
        return []
    lines = [f"{'Server':<{NAME}}{'done':>7}{'failed':>7}{'req/s':>8}{'tok/s':>9}{'TTFT p50':>9}{'p99':>8}{'TPOT p50':>10}"]
    for each in summary.servers:
        ttft, tpot = each.distributions["ttft"], each.distributions["tpot"]
        rates = f"{_short(each.request_throughput):>8}{_short(each.output_throughput):>9}"
        latencies = f"{_point(ttft, '50'):>9}{_point(ttft, '99'):>8}{_point(tpot, '50'):>10}"
        lines.append(f"{_name(each.url):<{NAME}}{each.completed:>7}{each.failed:>7}{rates}{latencies}")
    return lines


def retry_line(summary: Summary) -> str:
    """How often requests were tried again; "" if none was."""
    retries = summary.retries
    if not retries.reasons:
        return ""
    reasons = ", ".join(f"{count} x {reason}" for reason, count in retries.reasons.items())
    count = sum(retries.reasons.values())
    return (
        f"{retries.attempts} attempts = {summary.sent} sent + {count} tried again ({reasons}); of the {retries.requests} requests that were, "
        f"{retries.completed} completed. Their times are from the first attempt."
    )


def _name(url: str) -> str:
    """The end of a URL, which tells servers apart."""
    name = url.removeprefix("http://").rstrip("/")
    return name if len(name) < NAME else ".." + name[3 - NAME :]


def _point(found: Distribution, percentile: str) -> str:
    return _short(found.percentiles[percentile].value) if percentile in found.percentiles else "-"


def _short(value: float) -> str:
    """Two decimals while they fit seven characters."""
    return f"{value:.2f}" if value < 9999.995 else f"{value:.0f}"
