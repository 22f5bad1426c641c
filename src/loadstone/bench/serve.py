"""`loadstone bench serve` after its flags: prove that the result can be written, run, print, save, and say how it went by an exit code."""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loadstone.bench.result import ERROR_RATE, Result, thresholds_of
from loadstone.bench.run import run, with_model
from loadstone.config import RunConfig
from loadstone.metrics.thresholds import FAIL
from loadstone.report.junit import write_junit
from loadstone.report.live import Live
from loadstone.report.output import prepare_output, unused_output, write_result
from loadstone.report.pytorch_benchmark import write_pytorch_benchmark
from loadstone.report.result_file import result_document
from loadstone.report.terminal import print_report
from loadstone.workload import unused_path

DONE, NOTHING_SUCCEEDED, OWN_FAULT, MISSED, INTERRUPTED = 0, 1, 70, 99, 130


def serve(config: RunConfig, *, command: Sequence[str] = ()) -> int:
    """Run `config`, print the report to standard output, write the files that were asked for. Returns the exit code (interface.md)."""
    config = config.validated()
    thresholds_of(config)  # those that cannot be read are told before anything is sent
    now = datetime.now().astimezone()
    prepare_output(config, now)  # before the server is asked anything
    live = Live(sys.stderr, enabled=not config.disable_tqdm)
    for note in (*unused_output(config), *unused_path(config)):
        live.say(note)
    config = with_model(config, live.say)
    path = prepare_output(config, now)
    try:
        result = run(config, command=command, live=live)
    finally:
        live.close()
    _report(result, path)
    return exit_code(result)


def serve_again(folder: str, changes: Mapping[str, Any], *, command: Sequence[str] = ()) -> int:
    """Decode the run kept in `folder` again (see redecode.py), print the report, write the files that were asked for. Returns the exit code."""
    from loadstone.bench.redecode import redecode

    with TemporaryDirectory(prefix="loadstone-") as scratch:
        result = redecode(Path(folder), Path(scratch), changes, command=command)
        path = prepare_output(result.config, datetime.now().astimezone())
        _report(result, path)
    return judged(result)


def _report(result: Result, path: Path | None) -> None:
    """Print the report, and write the result to `path` if there is one."""
    print_report(result.summary, result.config)
    if result.config.junit is not None:
        write_junit(result.config.junit, result.summary.thresholds, result.config.label or "loadstone", result.summary.duration_s)
    if path is not None:
        document = result_document(
            result.summary, result.records, result.config,
            date=result.started, clock=result.clock, command=result.command, input_texts=result.input_texts,
        )  # fmt: skip
        written = write_result(path, document, append=result.config.append_result)
        print(f"Result written to {written}", file=sys.stderr)
        write_pytorch_benchmark(written, document, result.summary, result.config)


def exit_code(result: Result) -> int:
    if result.interrupted:
        return INTERRUPTED
    if result.summary.client.get("lost_workers") or result.summary.client.get("decoder_died"):
        return OWN_FAULT
    if result.stopped == ERROR_RATE:
        return MISSED
    return judged(result)


def judged(result: Result) -> int:
    """The exit code of a run that came to its end."""
    if not result.summary.completed:
        return NOTHING_SUCCEEDED
    return MISSED if any(each.verdict == FAIL for each in result.summary.thresholds) else DONE
