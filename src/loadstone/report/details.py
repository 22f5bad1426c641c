"""The per-request arrays of --save-detailed: one entry a planned request in plan order, all arrays of one length."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from loadstone.config import RunConfig
from loadstone.metrics.itl import itl_ns
from loadstone.metrics.lengths import input_len, output_len
from loadstone.metrics.ttft import ttft_ns
from loadstone.records import Records, Spans, whole_text
from loadstone.report.secrets import without_secrets

NEVER_SENT = "not sent: the run was stopped before it was due"
ARRAYS = ("input_lens", "infer_input_lens", "output_lens", "ttfts", "itls", "input_texts", "generated_texts", "reasoning_contents", "errors")


def details(records: Records, planned: int, config: RunConfig, input_texts: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """The arrays by key. Times in seconds. Null: what is absent, and every number of a request that did not complete; its `errors` entry says why.

    `input_texts` are the prompts of all planned requests in plan order; without them their entries are null. A request that was never sent has
    nulls and an error that says so.
    """
    if len(records) and not 0 <= records.index[0] <= records.index[-1] < planned:
        raise ValueError(f"records {records.index[0]} to {records.index[-1]} are not of a plan of {planned} requests")
    arrays: dict[str, list[Any]] = {key: [None] * planned for key in ARRAYS}
    arrays["generated_texts"], arrays["reasoning_contents"], arrays["errors"] = [""] * planned, [""] * planned, [NEVER_SENT] * planned
    if input_texts is not None:
        arrays["input_texts"] = [whole_text(text) for text in input_texts]

    gaps = itl_ns(records)
    completed = records.completed
    prompt_tokens = np.where(completed, records.prompt_tokens, np.nan)
    ttfts = ttft_ns(records) / 1e9
    for column, values in (
        ("input_lens", _counts(input_len(records))),
        ("infer_input_lens", _counts(prompt_tokens)),
        ("output_lens", _counts(output_len(records))),
        ("ttfts", [None if np.isnan(value) else value for value in ttfts.tolist()]),
        ("itls", [(gaps.of(row) / 1e9).tolist() if completed[row] else None for row in range(len(records))]),
        ("generated_texts", [whole_text(text or "") for text in records.text]),
        ("reasoning_contents", [whole_text(text or "") for text in records.reasoning]),
        ("errors", [_error(records, row, config) for row in range(len(records))]),
    ):
        for index, value in zip(records.index.tolist(), values, strict=True):
            arrays[column][index] = value
    return arrays


def _counts(values: Spans) -> list[int | None]:
    return [None if np.isnan(value) else int(value) for value in values.tolist()]


def _error(records: Records, row: int, config: RunConfig) -> str:
    if records.completed[row]:
        return ""
    return whole_text(without_secrets(records.error[row] or records.reason[row] or str(records.status[row]), config))
