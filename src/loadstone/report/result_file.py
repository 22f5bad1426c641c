"""The result file: one JSON object a run, under the keys that existing scripts read. docs/result-file.md says what each key means.

It is written as one line, so that a later run can be appended to it (--append-result), and it is strict JSON: what is undefined is null.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

import loadstone
from loadstone.config import INFINITE, RunConfig
from loadstone.metrics.summary import Distribution, Percentile, ServerFigures, Summary
from loadstone.records import Records
from loadstone.redact import public_command
from loadstone.report.details import details
from loadstone.report.secrets import without_secrets

SCHEMA = "loadstone.result/1"
FROM_PLANNED = ("response_ttft", "response_e2el", "queue_delay")


def result_document(
    summary: Summary,
    records: Records,
    config: RunConfig,
    *,
    date: datetime,
    clock: str = "",
    command: Sequence[str] = (),
    input_texts: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The result of a run as it is written. `clock` names what stamped the times, `command` is the command line (secrets are removed here).

    Metadata stands at the top level but never over a key of the result: `prepare_output` has refused that before the load.
    """
    document: dict[str, Any] = {**_asked(config, date), **config.metadata, **_totals(summary)}
    for name in (*config.percentile_metrics, *(FROM_PLANNED if summary.open_loop else ())):
        document |= _figures(summary.distributions[name], config.metric_percentiles)
    document |= _added(summary, config)
    document |= {"schema": SCHEMA, "clock": clock, "loadstone_version": loadstone.__version__, "command": public_command(command)}
    if config.save_detailed:
        document |= details(records, summary.planned, config, input_texts)
    return document


def _asked(config: RunConfig, date: datetime) -> dict[str, Any]:
    ramp: dict[str, Any] = {}
    if config.ramp_up_strategy:
        ramp = {name: getattr(config, name) for name in ("ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps")}
    return {
        "date": date.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": config.backend,
        "backend": config.backend,
        "label": config.label,
        "model_id": config.model,
        "tokenizer_id": config.tokenizer or config.model,
        "num_prompts": config.num_prompts,
        "request_rate": "inf" if config.request_rate == INFINITE else config.request_rate,
        "burstiness": "inf" if config.burstiness == INFINITE else config.burstiness,
        "max_concurrency": config.max_concurrency,
        **({} if config.load is None else {"load": config.load}),
        **ramp,
    }


def _totals(summary: Summary) -> dict[str, Any]:
    return {
        "duration": summary.duration_s,
        "completed": summary.completed,
        "total_input_tokens": summary.total_input_tokens,
        "total_output_tokens": summary.total_output_tokens,
        "request_throughput": summary.request_throughput,
        "request_goodput": summary.goodput.per_s if summary.goodput else None,
        "output_throughput": summary.output_throughput,
        "total_token_throughput": summary.total_token_throughput,
    }


def _figures(found: Distribution, percentiles: Sequence[str]) -> dict[str, Any]:
    """mean_M_ms, median_M_ms, std_M_ms, pP_M_ms as the contract has them (no unit in the key of a length or a speed), then what was added to them."""
    key = f"{found.name}_ms" if found.unit == "ms" else found.name
    points = {f"p{text}": found.percentiles.get(text) for text in percentiles}
    return {
        f"mean_{key}": found.mean,
        f"median_{key}": found.median.value if found.median else None,
        f"std_{key}": found.std,
        **{f"{name}_{key}": point.value if point else None for name, point in points.items()},
        f"min_{key}": found.minimum,
        f"max_{key}": found.maximum,
        f"n_{found.name}": found.count,
        f"ci_median_{key}": _interval(found.median),
        **{f"ci_{name}_{key}": _interval(point) for name, point in points.items()},
    }


def _span(found: Distribution, percentiles: Sequence[str]) -> dict[str, Any]:
    """What a server said of one span, in ms."""
    return {
        "count": found.count,
        "mean": found.mean,
        "median": found.median.value if found.median else None,
        "std": found.std,
        "min": found.minimum,
        "max": found.maximum,
        **{f"p{text}": found.percentiles[text].value if text in found.percentiles else None for text in percentiles},
    }


def _server(found: ServerFigures, percentiles: Sequence[str]) -> dict[str, Any]:
    """The part of one server; its figures under the names that they have for all."""
    figures: dict[str, Any] = {}
    for each in found.distributions.values():
        key, points = f"{each.name}_ms", dict.fromkeys((*percentiles, "99"))
        figures |= {f"mean_{key}": each.mean, f"median_{key}": each.median.value if each.median else None}
        figures |= {f"p{text}_{key}": each.percentiles[text].value if text in each.percentiles else None for text in points}
        figures |= {f"n_{each.name}": each.count}
    names = ("url", "sent", "completed", "failed", "cancelled", "retried", "total_output_tokens", "request_throughput", "output_throughput")
    return {name: getattr(found, name) for name in names} | figures


def _interval(point: Percentile | None) -> list[float | None] | None:
    return [point.low, point.high] if point else None


def _added(summary: Summary, config: RunConfig) -> dict[str, Any]:
    goodput = summary.goodput
    return {
        "planned": summary.planned,
        "sent": summary.sent,
        "dropped": summary.dropped,
        "failed": summary.failed,
        "cancelled": summary.cancelled,
        "failures": {without_secrets(reason, config): count for reason, count in summary.failures.items()},
        "failure_examples": {
            without_secrets(reason, config): without_secrets(example, config) for reason, example in summary.failure_examples.items()
        },
        "open_loop": summary.open_loop,
        "planned_rate": summary.planned_rate,
        "sent_rate": summary.sent_rate,
        "max_output_tokens_per_s": summary.peak_output_tokens_per_s,
        "max_concurrent_requests": summary.peak_concurrency,
        "goodput": goodput and {"slos_ms": goodput.slos_ms, "good": goodput.good, "share": goodput.share, "missed": goodput.missed},
        "token_source": summary.token_source,
        "prompt_token_source": summary.prompt_token_source,
        "itl_basis": summary.itl_basis,
        "server_spans": {name: _span(each, config.metric_percentiles) for name, each in summary.server_spans.items()},
        "servers": [_server(each, config.metric_percentiles) for each in summary.servers],
        "attempts": summary.retries.attempts,
        "retried": summary.retries.reasons,
        "thresholds": msgspec.to_builtins(summary.thresholds),
        "distributions": {name: msgspec.to_builtins(each) for name, each in summary.distributions.items() if each.count},
        "warnings": summary.warnings,
        "notes": [without_secrets(note, config) for note in summary.notes],
        "client": summary.client,
    }
