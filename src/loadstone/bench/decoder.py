"""The decoder as a process: follows the workers' spools as they grow and makes a record of each exchange, out of the engine's way.

On Linux it runs only when nobody else wants the processor, until the load is over: a worker that wakes up never waits for it. Records go to the
records file as requests finish, and to the columns in the folder `out` for the report at the end.
"""

import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from loadstone.backends import get
from loadstone.bench.earlier import Earlier
from loadstone.bench.record_file import RecordFile
from loadstone.config import RunConfig
from loadstone.decode.errors import masked, with_url
from loadstone.decode.reply import decode, retried
from loadstone.engine.counters import Count, Counters, Decoded
from loadstone.engine.exchange import Exchange
from loadstone.engine.lines import Lines
from loadstone.engine.spool_reader import After, SpoolReader
from loadstone.plan import Plan
from loadstone.records import CANCELLED, COMPLETED, FAILED, ColumnWriter, Record, RunHeader

PAUSE_S = 0.2  # between two looks at the spool: often enough for the live display, seldom enough to find some work each time
LAST_WORDS_S = 1.0
MOST = 1 << 62  # that a counter may hold, whatever a server claims


class DecoderJob(msgspec.Struct, frozen=True, kw_only=True):
    """What to decode and where to. `tokenizer` says how to load one, should a reply have to be counted; None: there is none."""

    plan: str
    spool: str
    workers: int
    after: After
    backend: str
    template: str | None = None
    request_id_prefix: str
    targets: list[str]  # the servers' URLs, as records name them
    urls: list[str]  # of the requests to each, for error texts
    secrets: list[str] = []  # that may stand in no error text
    keep_text: bool
    records: str | None
    header: RunHeader
    out: str  # folder of columns
    earlier: list[str] = []  # those of decoders of this run that have died; this one goes on after them
    counters: str
    tokenizer: dict[str, Any] | None  # fields of RunConfig
    debug: bool = False


class DecoderDone(msgspec.Struct, frozen=True, kw_only=True):
    """The decoder's last word."""

    cpu_s: float
    trouble: str = ""  # what could not be written


def records_of(
    exchanges: Iterator[Exchange], plan: Plan, job: DecoderJob, count_tokens: Callable[[str], int] | None
) -> Iterator[tuple[Record, Exchange]]:
    """Exchanges as records, completed by what the plan knows of them."""
    backend = get(job.backend, job.template)
    for exchange in exchanges:
        try:
            request = plan.body(exchange.index % len(plan)) if backend.held_to_request else b""
            record = decode(exchange, backend, request=request, count_tokens=count_tokens, keep_text=job.keep_text)
        except Exception as error:  # one reply that shows a fault of ours must not cost all the others
            trouble = f"loadstone could not decode the reply, which is a fault of its own: {type(error).__name__}: {error}"
            record = failed_record(exchange, "decoder fault", trouble)
        complete(record, plan, job, exchange.server)
        yield record, exchange


def failed_record(exchange: Exchange, reason: str, error: str) -> Record:
    """The record of an exchange whose bytes are not looked at."""
    return Record(
        index=exchange.index,
        status=FAILED,
        reason=reason,
        error=error,
        planned_ns=exchange.planned_ns,
        sent_ns=exchange.sent_ns,
        end_ns=exchange.end_ns,
        worker=exchange.worker,
        reused=exchange.reused,
        connect_ns=exchange.connect_ns,
        tls_ns=exchange.tls_ns,
        attempts=len(exchange.retried) + 1,
        retried=retried(exchange),
    )


def complete(record: Record, plan: Plan, job: DecoderJob, server: int) -> None:
    """Fill in what is in the plan and not on the wire. `server`: the number of the one that the request went to."""
    planned = plan[record.index % len(plan)]
    record.request_id = f"{job.request_id_prefix}{record.index}"
    record.target, record.model = job.targets[server], planned.model
    if record.error:
        record.error = masked(with_url(record.error, job.urls[server]), job.secrets)
    record.conversation, record.turn = planned.conversation, planned.turn
    record.local_prompt_tokens, record.wanted_output_tokens = planned.prompt_tokens, planned.output_tokens
    if record.prompt_tokens is None and planned.prompt_tokens is not None:
        record.prompt_tokens, record.prompt_token_source = planned.prompt_tokens, "local"


def token_counter(fields: dict[str, Any] | None) -> Callable[[str], int] | None:
    """Counts the tokens of a text, by a tokenizer that is loaded when the first text comes."""
    if fields is None:
        return None
    loaded: list[Callable[[str], int]] = []

    def count(text: str) -> int:
        if not loaded:
            from loadstone.tokenizer import load_tokenizer

            tokenizer, _ = load_tokenizer(RunConfig(**fields))
            assert tokenizer is not None
            loaded.append(tokenizer.count)
        return loaded[0](text)

    return count


class _Tally:
    """The decoder's row of the shared counters, for the live display and the rate of failures."""

    def __init__(self, counters: Counters, earlier: Earlier) -> None:
        self._row = counters.row(0)
        self._row[Decoded.COMPLETED], self._row[Decoded.CANCELLED] = earlier.statuses[COMPLETED], earlier.statuses[CANCELLED]
        self._row[Decoded.FAILED], self._row[Decoded.OUTPUT_TOKENS] = earlier.statuses[FAILED], min(earlier.output_tokens, MOST)

    def add(self, record: Record) -> None:
        row = self._row
        row[{COMPLETED: Decoded.COMPLETED, CANCELLED: Decoded.CANCELLED}.get(record.status, Decoded.FAILED)] += 1
        if record.status == COMPLETED:
            row[Decoded.OUTPUT_TOKENS] = min(row[Decoded.OUTPUT_TOKENS] + (record.output_tokens or 0), MOST)


def follow(job: DecoderJob, finished: Callable[[], bool]) -> str:
    """Decode until `finished` and nothing is left, into the columns and the records file. Returns what could not be done, "" if all was."""
    plan = Plan(Path(job.plan))
    counters = Counters(Path(job.counters))
    earlier = Earlier.of([Path(folder) for folder in job.earlier], job.records, job.header)
    tally = _Tally(counters, earlier)
    readers = [SpoolReader(Path(job.spool), worker, job.after) for worker in range(job.workers)]
    for reader in readers:
        if job.earlier:
            reader.resume()
        elif job.after == After.KEEP:
            reader.begin()
    count_tokens = token_counter(job.tokenizer)
    unwritten = len(earlier.columns) - len(earlier.lines)
    with RecordFile(job.records, job.header, begun=earlier.begun) as lines, ColumnWriter(Path(job.out)) as out:
        while True:
            last = finished()
            fresh = False
            for reader in readers:
                before = reader.bytes_read
                for record, exchange in records_of(earlier.left(reader.read()), plan, job, count_tokens):
                    if record.index not in earlier.lines:
                        lines.add(record)
                    if record.index in earlier.columns:
                        unwritten -= 1
                        continue
                    if job.debug:
                        _show(record, exchange, plan)
                    _add(out, record)
                    tally.add(record)
                counters.row(1 + reader.worker)[Count.DECODED_BYTES] = reader.bytes_read
                fresh = fresh or reader.bytes_read > before
            if fresh:
                out.flush()  # before the next reading may remove what these came from
                lines.flush()
            elif last:
                return lines.trouble or (f"--records: {unwritten} records are missing from the file" if unwritten > 0 else "")
            else:
                select.select([0], [], [], PAUSE_S)  # or until there is word on standard input


def tidy(job: DecoderJob) -> None:
    """Do with the last segment of each worker what was done with the others, once the workers are known to have left."""
    for worker in range(job.workers):
        reader = SpoolReader(Path(job.spool), worker, job.after)
        reader.resume()
        while reader.exists():
            reader.finish()
        reader.forget()


def _add(out: ColumnWriter, record: Record) -> None:
    """Append a record; one that holds a number beyond 64 bits becomes a failed one that says so."""
    try:
        out.add(record)
    except OverflowError as error:
        trouble = f"a number of the reply is too large: {error}"
        out.add(
            Record(
                index=record.index,
                request_id=record.request_id,
                status=FAILED,
                reason="number too large",
                error=trouble,
                end_ns=record.end_ns,
                target=record.target,
                attempts=record.attempts,
                retried=record.retried,
            )
        )


def _show(record: Record, exchange: Exchange, plan: Plan) -> None:
    body = plan.body(exchange.index % len(plan)).decode("utf-8", "replace")
    reply = exchange.raw.decode("utf-8", "replace")
    print(f"--- {record.request_id} {record.status} {record.error}\n> {body}\n{reply}", file=sys.stderr, flush=True)


def _step_back(idle: bool) -> None:
    """Take the processor only when nobody else wants it, or as any other process again."""
    if sys.platform == "linux":
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE if idle else os.SCHED_OTHER, os.sched_param(0))
        except OSError:  # some containers forbid it: then it competes, and the health figures show it
            return


def main() -> None:
    """Job after job until standard input ends. A job's end is announced by any line, or by that end itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)  # records hold no circles: looking for some would only cost
    lines = Lines(0)
    while (line := lines.next()) is not None:
        job = msgspec.json.decode(line, type=DecoderJob)
        _step_back(True)
        over: list[bytes] = []

        def finished(over: list[bytes] = over) -> bool:
            if not over and (lines.arrived() or lines.closed):
                over.append(b"")
                _step_back(False)
                if lines.closed:
                    time.sleep(LAST_WORDS_S)  # the parent is gone: the workers are writing what they have, and leave
            return bool(over)

        trouble = follow(job, finished)
        if not lines.closed:  # else nobody has said that the workers have left
            tidy(job)
        times = os.times()
        os.write(1, msgspec.json.encode(DecoderDone(cpu_s=times.user + times.system, trouble=trouble)) + b"\n")


if __name__ == "__main__":
    main()
