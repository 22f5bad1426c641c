"""The table of latencies: how many samples each rests on, and how far its highest percentile can be trusted."""

from loadstone.config import RunConfig
from loadstone.metrics.summary import Distribution, Percentile, Summary
from loadstone.report.labels import LABELS

SERVICE = ("ttft", "ttfot", "tpot", "itl", "icl", "e2el", "s_ttft", "s_itl", "s_e2el")
FROM_DUE = {"response_ttft": "TTFT from due", "response_e2el": "E2EL from due", "queue_delay": "Sent after due"}
SERVER_TITLE = "Server's own times in ms"
HEADLINE = ("ttft", "tpot", "itl", "e2el")


def latency_table(summary: Summary, config: RunConfig) -> list[str]:
    """A title line, then one line a latency: chosen ones, the headline ones, and in an open loop those from due time. Empty without any sample."""
    names = [name for name in SERVICE if name in HEADLINE or name in config.percentile_metrics]
    rows = {name: LABELS[name].short for name in names} | (FROM_DUE if summary.open_loop else {})
    found = {name: summary.distributions[name] for name in rows if name in summary.distributions}
    if not any(each.count for each in found.values()):
        return []
    top = max(config.metric_percentiles, key=float)
    columns = [text for text in ("50", "90") if float(text) != float(top)] + [top]
    head = f"{'Latency in ms':<15}{'n':>9}{'mean':>9}" + "".join(f"{'p' + text:>9}" for text in columns) + f"  95 % CI of p{top}"
    return [head, *(_row(rows[name], each, columns) for name, each in found.items())]


def server_table(summary: Summary, config: RunConfig) -> list[str]:
    """A title line, then one line a span that servers stated, with S_TTFT and S_E2EL if the latency table has them not. Empty without any span."""
    metrics = {
        name: summary.distributions[name] for name in ("s_ttft", "s_e2el") if name in summary.distributions and name not in config.percentile_metrics
    }
    found = {LABELS[name].short: each for name, each in metrics.items() if each.count} | summary.server_spans
    if not summary.server_spans:
        return []
    top = max(config.metric_percentiles, key=float)
    lines = [f"{SERVER_TITLE:<36}{'n':>8}{'mean':>10}{'median':>10}{'p' + top:>10}"]
    for name, each in found.items():
        if each.mean is not None and each.median is not None:
            figures = (each.mean, each.median.value, each.percentiles[top].value)
            lines.append(f"{name[:35]:<36}{each.count:>8}" + "".join(f"{_short(value):>10}" for value in figures))
    return lines


def _row(label: str, found: Distribution, columns: list[str]) -> str:
    if found.mean is None:
        return f"{label:<15}{0:>9}{'-':>9}"
    points = [found.percentiles.get(text) for text in columns]  # an older result file has those alone that were asked for
    figures = "".join(f"{'-' if point is None else _short(point.value):>9}" for point in points)
    return f"{label:<15}{found.count:>9}{_short(found.mean):>9}{figures}  {_interval(points[-1]) if points[-1] else ''}".rstrip()


def _interval(point: Percentile) -> str:
    if point.low is None or point.high is None:
        return "none" if point.needs is None else f"needs {point.needs}"
    return f"{_short(point.low)} to {_short(point.high)}"


def _short(value: float) -> str:
    """Two decimals while they fit eight characters."""
    size = abs(value)
    return f"{value:.2f}" if size < 9999.995 else f"{value:.1f}" if size < 99999.95 else f"{value:.0f}"
