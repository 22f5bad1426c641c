"""`loadstone show` after its flags: the report of a file, by the code that printed it when the run ended."""

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from loadstone.compare import record_file
from loadstone.compare.read import check_schema, choose, documents, is_records, looks_like, split
from loadstone.compare.readers import READERS, loadstone_result
from loadstone.compare.readers.keys import number
from loadstone.config import INFINITE, RunConfig
from loadstone.errors import UsageError
from loadstone.metrics.catalogue import METRICS
from loadstone.metrics.statistics import needed_samples
from loadstone.metrics.summary import Distribution, Judgement, Percentile, Summary
from loadstone.report.terminal import print_report

_POINT = re.compile(r"p(\d+(?:\.\d+)?)_(\w+?)(_ms)?")


def show(name: str, pick: str | None = None) -> int:
    """Print the report of the file `name` (with FILE#N in place of `pick` too). Returns the exit code. Raises UsageError for what is no file of
    ours."""
    path, marked = split(name)
    pick = pick or marked
    if path.is_dir():
        hint = f"`loadstone decode {path}` shows a kept run" if (path / "run.json").exists() else "name a file in it"
        raise UsageError(f"{path} is a folder: {hint}")
    if is_records(path):
        if pick is not None:
            raise UsageError(f"{path} is a records file, of one run: leave --index, --all and # out")
        config, records, _ = record_file.read(path)
        print_report(record_file.summary_of(config, records, f"computed again from {path}, which does not hold the health of the client"), config)
        return 0
    chosen = choose(documents(path), pick, path)
    for place, document in chosen:
        refuse(document, path)
        if len(chosen) > 1:
            print(f"\n{path}#{place}: {document.get('label') or document.get('backend')}, {document.get('date')}")
        print_report(summary_of(document), config_of(document))
    return 0


def refuse(document: Mapping[str, Any], path: Path) -> None:
    """UsageError if it is no result of loadstone, or of a later version."""
    check_schema(dict(document), path)
    if loadstone_result.knows(dict(document)):
        return
    if other := next((reader.tool for reader in READERS if reader.knows(dict(document))), None):
        raise UsageError(f"{path} is a result of {other}: `loadstone compare` reads it, show prints loadstone's own")
    raise UsageError(f"{path} is no result of loadstone: {looks_like(document)}")


def config_of(document: Mapping[str, Any]) -> RunConfig:
    """As much of the run's configuration as its report needs."""
    points = [match for key in document if (match := _POINT.fullmatch(key)) and match[2] in METRICS]
    chosen = [name for name in METRICS if any(f"mean_{name}{end}" in document for end in ("", "_ms")) and not METRICS[name].planned]
    fields: dict[str, Any] = {name: document.get(name) for name in ("label", "max_concurrency", "load", "ramp_up_strategy")}
    fields |= {name: document.get(name) for name in ("ramp_up_start_rps", "ramp_up_end_rps")}
    rate = number(document.get("request_rate"))
    return RunConfig(
        model=document.get("model_id"),
        backend=str(document.get("backend") or document.get("endpoint_type")),
        request_rate=INFINITE if rate is None else rate,
        num_prompts=int(number(document.get("num_prompts")) or 0),
        percentile_metrics=tuple(chosen),
        metric_percentiles=tuple(dict.fromkeys(match[1] for match in points)) or ("99",),
        **fields,
    )


def summary_of(document: Mapping[str, Any]) -> Summary:
    """The summary that a result file was made of, as far as the file holds it."""
    try:
        return _summary(document)
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        raise UsageError(f"the result is damaged or was changed: {error}") from None


def _summary(document: Mapping[str, Any]) -> Summary:
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(Summary):
        with contextlib.suppress(msgspec.ValidationError):  # a key that the file has in another form, made below or left at its default
            if field.name in document:
                fields[field.name] = msgspec.convert(document[field.name], field.type)
    fields |= {
        "duration_s": document["duration"],
        "peak_output_tokens_per_s": document.get("max_output_tokens_per_s"),
        "peak_concurrency": document.get("max_concurrent_requests", 0),
        "goodput": _goodput(document),
        "thresholds": msgspec.convert(document.get("thresholds", []), list[Judgement]),
        "distributions": _distributions(document),
        "server_spans": {name: _span(name, found) for name, found in document.get("server_spans", {}).items()},
    }
    return msgspec.convert(msgspec.to_builtins(fields), Summary)


def _goodput(document: Mapping[str, Any]) -> dict[str, Any] | None:
    found = document.get("goodput")
    return found and {**found, "per_s": document.get("request_goodput") or 0.0}


def _distributions(document: Mapping[str, Any]) -> dict[str, Distribution]:
    """As the file has them, where those without a sample are left out; of an older file, those that the run was asked for, made of their keys."""
    whole = document.get("distributions")
    found = msgspec.convert(whole, dict[str, Distribution]) if isinstance(whole, dict) else {}
    if isinstance(whole, dict):
        there = {name: metric for name, metric in METRICS.items() if document.get("open_loop") or not metric.planned}
        found = {name: Distribution(name=name, unit=metric.unit, count=0) for name, metric in there.items()} | found
    for name, metric in METRICS.items():
        key = f"{name}_ms" if metric.unit == "ms" else name
        if name not in found and f"n_{name}" in document:
            found[name] = _distribution(name, metric.unit, key, document)
    return {name: found[name] for name in METRICS if name in found}


def _distribution(name: str, unit: str, key: str, document: Mapping[str, Any]) -> Distribution:
    count = document[f"n_{name}"]
    if not count:
        return Distribution(name=name, unit=unit, count=0)
    median = _percentile(50.0, document[f"median_{key}"], document.get(f"ci_median_{key}"))
    points = {match[1]: key_of for key_of in document if (match := _POINT.fullmatch(key_of)) and match[2] + (match[3] or "") == key}
    percentiles = {text: _percentile(float(text), document[key_of], document.get(f"ci_{key_of}")) for text, key_of in points.items()}
    return Distribution(
        name=name,
        unit=unit,
        count=count,
        mean=document[f"mean_{key}"],
        std=document.get(f"std_{key}"),
        minimum=document.get(f"min_{key}"),
        median=median,
        maximum=document.get(f"max_{key}"),
        percentiles={"50": median, **percentiles},
    )


def _percentile(p: float, value: float, interval: Any) -> Percentile:
    low, high = interval or (None, None)
    return Percentile(value=value, low=low, high=high, needs=needed_samples(p))


def _span(name: str, found: Mapping[str, Any]) -> Distribution:
    points = {key[1:]: value for key, value in found.items() if re.fullmatch(r"p\d+(\.\d+)?", key) and value is not None}
    return Distribution(
        name=name,
        unit="ms",
        count=found["count"],
        mean=found["mean"],
        std=found["std"],
        minimum=found["min"],
        median=None if found["median"] is None else _percentile(50.0, found["median"], None),
        maximum=found["max"],
        percentiles={text: _percentile(float(text), value, None) for text, value in points.items()},
    )
