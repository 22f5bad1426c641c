"""The fixed block: labels that scripts search for, values after them with two decimals, 50 columns wide. Nothing here may change."""

from collections.abc import Iterator

from loadstone.config import RunConfig
from loadstone.metrics.summary import Summary
from loadstone.report.labels import LABELS, Label

WIDTH = 50


def block(summary: Summary, config: RunConfig) -> list[str]:
    """The lines of the block, from its title to the closing rule. A metric without a sample has no lines."""
    lines = [" Serving Benchmark Result ".center(WIDTH, "="), *_totals(summary)]
    for name, label in LABELS.items():
        if name in config.percentile_metrics:
            lines += _section(summary, config, name, label)
    return [*lines, "=" * WIDTH]


def _totals(summary: Summary) -> Iterator[str]:
    yield _line("Successful requests:", summary.completed)
    yield _line("Failed requests:", summary.failed)
    yield _line("Benchmark duration (s):", summary.duration_s)
    yield _line("Total input tokens:", summary.total_input_tokens)
    yield _line("Total generated tokens:", summary.total_output_tokens)
    yield _line("Request throughput (req/s):", summary.request_throughput)
    if summary.goodput is not None:
        yield _line("Request goodput (req/s):", summary.goodput.per_s)
    yield _line("Output token throughput (tok/s):", summary.output_throughput)
    if summary.peak_output_tokens_per_s is not None:
        yield _line("Peak output token throughput (tok/s):", summary.peak_output_tokens_per_s)
    yield _line("Peak concurrent requests:", summary.peak_concurrency)
    yield _line("Total Token throughput (tok/s):", summary.total_token_throughput)


def _section(summary: Summary, config: RunConfig, name: str, label: Label) -> Iterator[str]:
    found = summary.distributions.get(name)
    if found is None or found.mean is None or found.median is None:
        return
    yield label.heading.center(WIDTH, "-")
    yield _line(f"Mean {label.line}:", found.mean)
    yield _line(f"Median {label.line}:", found.median.value)
    for text in config.metric_percentiles:
        yield _line(f"P{text} {label.line}:", found.percentiles[text].value)


def _line(label: str, value: float) -> str:
    return f"{label:<40} {value if isinstance(value, int) else format(value, '.2f')}"
