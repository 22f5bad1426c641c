"""The result of a run, and how it is made of records: the same for a run that has just ended and for one decoded again."""

from datetime import datetime
from typing import Any

import msgspec

from loadstone.bench.kept import Manifest
from loadstone.config import RunConfig
from loadstone.metrics.summarise import summarise
from loadstone.metrics.summary import Summary
from loadstone.metrics.thresholds import Threshold, threshold_of
from loadstone.records import Records

INTERRUPT, DURATION, ERROR_RATE = "interrupt", "duration", "error rate"  # why a run was stopped before its plan was done


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a run gives back. `config` has its model filled in. `input_texts` only where they were asked for (save_detailed)."""

    config: RunConfig
    summary: Summary
    records: Records
    started: datetime  # when the measured load began, local time with its zone
    clock: str  # what stamped the reads: kernel, user
    command: list[str]
    input_texts: list[str] | None = None
    stopped: str = ""
    skipped_rows: dict[str, int] = {}

    @property
    def interrupted(self) -> bool:
        return self.stopped == INTERRUPT


def summary_of(config: RunConfig, records: Records, manifest: Manifest, client: dict[str, Any], notes: list[str]) -> Summary:
    """Every number. Requests that were planned and have no record were not sent."""
    planned = max(manifest.planned, len(records))
    return summarise(
        records,
        planned=planned,
        dropped=planned - len(records),
        percentiles=config.metric_percentiles,
        slos_ms=config.goodput,
        thresholds=thresholds_of(config),
        open_loop=manifest.open_loop,
        requested_rate=manifest.requested_rate,
        max_concurrency=config.max_concurrency,
        servers=manifest.targets,
        client=client,
        notes=notes,
    )


def thresholds_of(config: RunConfig) -> list[Threshold]:
    """The thresholds of --slo. Raises UsageError for what is none."""
    return [threshold_of(text) for text in config.slo]
