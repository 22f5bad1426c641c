"""A records file (--records): the run's records in columns, its configuration, and what `show` and `compare` make of them.

The file tells what was sent, not what was planned: where a run was stopped before its plan was done, `planned` is the number of prompts that it was
asked for, or, for a run by time, the highest index that was sent.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from loadstone.compare.estimate import Series
from loadstone.compare.readers.keys import facts, load_of
from loadstone.compare.readers.loadstone_result import definitions
from loadstone.compare.run import Rate, Run
from loadstone.config import INFINITE, RunConfig
from loadstone.errors import UsageError
from loadstone.metrics.batch_means import batches_for
from loadstone.metrics.catalogue import METRICS, MS
from loadstone.metrics.spans import Mask
from loadstone.metrics.summarise import summarise
from loadstone.metrics.summary import Summary
from loadstone.metrics.thresholds import threshold_of
from loadstone.records import ABSENT, FAILED, ColumnWriter, Records, open_records

OUTPUT_FIELDS = {  # what belongs to that run alone: secrets (masked anyway), its output, files that may be gone
    "header", "api_key", "keep_wire", "records", "save_result", "save_detailed", "append_result", "result_filename", "result_dir", "debug", "junit",
    "template", "proxy", "base_url", "ca_file", "client_cert", "client_key", "plan",
}  # fmt: skip


def read(path: Path) -> tuple[RunConfig, Records, str]:
    """The configuration, the records and the clock of a run. Raises UsageError for what is no records file, or one of another schema."""
    header, lines = open_records(path)
    known = {name: value for name, value in header.config.items() if name in RunConfig.__struct_fields__ and name not in OUTPUT_FIELDS}
    if known.get("backend") == "template":
        del known["backend"]
    with TemporaryDirectory(prefix="loadstone-") as scratch:  # on disk: a run of any length fits a small memory
        with ColumnWriter(Path(scratch) / "columns") as columns:
            for record in lines:
                columns.add(record)
        return RunConfig.from_mapping(known, f"{path}, line 1"), Records.open(Path(scratch) / "columns"), header.clock


def summary_of(config: RunConfig, records: Records, note: str = "") -> Summary:
    """Every number of the run, computed again."""
    sent = int(records.index[-1]) + 1 if len(records) else 0
    planned = max(config.num_prompts if config.duration is None else 0, sent, len(records))
    paced = config.request_rate != INFINITE and config.ramp_up_strategy is None and config.load is None
    return summarise(
        records,
        planned=planned,
        dropped=planned - len(records),
        percentiles=config.metric_percentiles,
        slos_ms=config.goodput,
        thresholds=[threshold_of(text) for text in config.slo],
        open_loop=bool((records.planned_ns != ABSENT).any()),
        requested_rate=config.request_rate if paced else None,
        max_concurrency=config.max_concurrency,
        notes=[note] if note else [],
    )


def read_run(path: Path) -> Run:
    """The run as a comparison sees it: figures of the metrics that the run was asked for and of E2EL, samples of every metric."""
    config, records, _ = read(path)
    if not len(records):
        raise UsageError(f"{path} holds no record: the run was cut before its first request ended")
    summary = summary_of(config, records)
    figures: dict[str, dict[str, float]] = {}
    chosen = (*config.percentile_metrics, "e2el", *(("response_ttft", "response_e2el") if summary.open_loop else ()))
    for name in dict.fromkeys(chosen):
        found = summary.distributions[name]
        if found.mean is not None and found.median is not None:
            points = {f"p{text}": found.percentiles[text].value for text in config.metric_percentiles if float(text) != 50}
            figures[name] = {"mean": found.mean, "median": found.median.value, **points}
    figures |= {
        "requests": {"": summary.request_throughput},
        "output": {"": summary.output_throughput},
        "total": {"": summary.total_token_throughput},
    }
    if summary.completed + summary.failed:
        figures["errors"] = {"": 100 * summary.failed / (summary.completed + summary.failed)}
    if summary.goodput is not None:
        figures["goodput"] = {"": summary.goodput.per_s}
    asked: dict[str, Any] = config.public()
    completed = summary.completed
    return Run(
        source=str(path),
        tool="loadstone records",
        figures=figures,
        definitions=definitions(summary.itl_basis),
        facts=facts(
            model=config.model,
            load=load_of(asked),
            data=config.dataset_name,
            lengths=(summary.total_input_tokens / completed, summary.total_output_tokens / completed) if completed else None,
            seed=str(config.seed),
        ),
        samples=_samples(records),
        rates=_rates(records),
        seconds=summary.duration_s,
        slos=", ".join(f"{name} {limit:g}" for name, limit in sorted(config.goodput.items())),
    )


def _samples(records: Records) -> dict[str, Series]:
    """All samples, in the order of the sends."""
    order = np.argsort(records.sent_ns, kind="stable")
    found: dict[str, Series] = {}
    values: Any
    for name, metric in METRICS.items():
        per_unit = 1e6 if metric.unit == MS else 1.0
        if metric.samples is not None:
            values = metric.samples(records)[order]
            if len(values := values[~np.isnan(values)]):
                found[name] = Series(values / per_unit)
        elif metric.gaps is not None:
            by_row: list[Any] = [None] * len(records)
            for (rows, _), block in zip(records.blocks(), metric.gaps(records), strict=True):
                places = np.arange(len(records))[rows]
                for place, values in zip(places.tolist(), np.split(block.values, block.rows[1:-1]), strict=True):
                    by_row[place] = values
            gaps = [by_row[row] for row in order.tolist() if by_row[row] is not None and len(by_row[row])]
            if gaps:
                found[name] = Series(np.concatenate(gaps) / per_unit, np.array([len(each) for each in gaps], np.int64))
    over = (records.completed | records.status.equal(FAILED))[order]
    if over.any():
        found["errors"] = Series(np.where(records.completed[order][over], 0.0, 100.0))
    return found


def _rates(records: Records) -> dict[str, Rate]:
    """What ended in each of equal parts of the run, a second: the tokens of a reply count where it ended."""
    ended: Mask = records.completed & (records.end_ns != ABSENT)
    count = batches_for(int(ended.sum()))
    sent = records.sent_ns[records.sent_ns != ABSENT]
    if count is None or not len(sent):
        return {}
    edges = np.linspace(float(sent.min()), float(records.end_ns.max()), count + 1)
    seconds = float(edges[-1] - edges[0]) / count / 1e9
    ends, output = records.end_ns[ended], np.nan_to_num(records.output_tokens[ended])
    both = output + np.nan_to_num(records.prompt_tokens[ended])
    weights: dict[str, Any] = {"requests": np.ones(len(ends)), "output": output, "total": both}
    return {name: Rate(np.histogram(ends, edges, weights=each)[0] / seconds) for name, each in weights.items()} if seconds else {}
