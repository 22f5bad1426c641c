"""`loadstone bench serve` after its flags: prove that the result can be written, run, print, save, and say how it went by an exit code."""

import sys
from collections.abc import Sequence
from datetime import datetime

from loadstone.bench.run import Result, run, with_model
from loadstone.config import RunConfig
from loadstone.report.live import Live
from loadstone.report.output import prepare_output, write_result
from loadstone.report.pytorch_benchmark import write_pytorch_benchmark
from loadstone.report.result_file import result_document
from loadstone.report.terminal import print_report

DONE, NOTHING_SUCCEEDED, INTERRUPTED = 0, 1, 130


def serve(config: RunConfig, *, command: Sequence[str] = ()) -> int:
    """Run `config`, print the report to standard output, write the files that were asked for. Returns the exit code (interface.md)."""
    config = config.validated()
    now = datetime.now().astimezone()
    prepare_output(config, now)  # before the server is asked anything
    config = with_model(config)
    path = prepare_output(config, now)
    live = Live(sys.stderr, enabled=not config.disable_tqdm)
    try:
        result = run(config, command=command, live=live)
    finally:
        live.close()
    print_report(result.summary, result.config)
    if path is not None:
        document = result_document(
            result.summary, result.records, result.config,
            date=result.started, clock=result.clock, command=result.command, input_texts=result.input_texts,
        )  # fmt: skip
        written = write_result(path, document, append=config.append_result)
        print(f"Result written to {written}", file=sys.stderr)
        write_pytorch_benchmark(written, document, result.summary, result.config)
    return exit_code(result)


def exit_code(result: Result) -> int:
    if result.interrupted:
        return INTERRUPTED
    return DONE if result.summary.completed else NOTHING_SUCCEEDED
