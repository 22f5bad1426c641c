"""One run, from its configuration to its result: ready check, warm-up, profiler, measured load, numbers."""

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from loadstone import backends
from loadstone.backends.base import Backend, Options
from loadstone.bench.decoder import DecoderJob
from loadstone.bench.interrupts import Interrupts
from loadstone.bench.measure import Measured, Processes, SpoolKeptError, client_health, measure, raise_file_limit
from loadstone.bench.prepare import Prepared, connections_for, job_of, measured_plan, options_of, resolve, warm_up_plan
from loadstone.bench.server import Server, request_headers, tls_context
from loadstone.config import RunConfig
from loadstone.engine.clock import KERNEL_STAMPS, realtime_offset_ns
from loadstone.engine.settings import Phase
from loadstone.errors import NotReadyError
from loadstone.metrics.summarise import summarise
from loadstone.metrics.summary import Summary
from loadstone.plan import Plan
from loadstone.records import COMPLETED, Records, RunHeader
from loadstone.report.live import Live
from loadstone.tokenizer import Tokenizer, load_tokenizer


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a run gives back. `config` has its model filled in. `input_texts` only where they were asked for (save_detailed)."""

    config: RunConfig
    summary: Summary
    records: Records
    started: datetime  # when the measured load began, local time with its zone
    clock: str  # what stamped the reads: kernel, user
    command: list[str]
    input_texts: list[str] | None = None
    interrupted: bool = False
    skipped_rows: dict[str, int] = {}


def run(config: RunConfig, *, command: Sequence[str] = (), live: Live | None = None) -> Result:
    """Load-test the server that `config` names and return the numbers; prints nothing but progress, and that only if a `live` display is given.

    Raises UsageError before anything is sent when the configuration or the data cannot be, NotReadyError when the server is not ready. Failed
    requests never raise: they are in the result.
    """
    return _Run(config.validated(), list(command), live or Live(enabled=False)).go()


def with_model(config: RunConfig) -> RunConfig:
    """`config` with its model: the one given, else the one that the server lists. Raises UsageError when that is not exactly one."""
    if config.model is not None:
        return config
    target = config.target()
    server = Server(target, request_headers(config), tls_context(target))
    return msgspec.structs.replace(config, model=server.model(config.ready_check_timeout_sec))


class _Run:
    def __init__(self, config: RunConfig, command: list[str], live: Live) -> None:
        self.command, self.live = command, live
        self.backend: Backend = backends.get(config.backend)
        self.config = with_model(config)
        self.target = config.target()
        self.endpoint = config.endpoint or self.backend.path
        self.headers = request_headers(config)
        self.server = Server(self.target, self.headers, tls_context(self.target))

    def go(self) -> Result:
        config = self.config
        options = options_of(config, config.served_model_name or config.model or "")
        self.backend.check(options)
        tokenizer, note = load_tokenizer(config)
        addresses = resolve(self.target)
        with _scratch() as folder, Interrupts() as interrupts:
            counters = folder / "counters"
            job = job_of(config, self.target, self.endpoint, self.headers, addresses, counters)
            raise_file_limit(connections_for(config, config.num_prompts))
            jobs = [msgspec.structs.replace(job, worker=worker) for worker in range(config.workers)]
            with Processes(jobs, folder) as processes:  # they start while the plan is being made
                prepared = measured_plan(config, folder / "plan", self.backend, options, tokenizer)
                self._before(processes, folder, options, tokenizer, interrupts)
                started = datetime.now().astimezone()
                measured = self._measure(processes, folder, prepared, tokenizer, interrupts)
                notes = [*([note] if note else []), *prepared.notes, *self._after(measured)]
                return self._result(processes, prepared, measured, started, notes)

    def _before(self, processes: Processes, folder: Path, options: Options, tokenizer: Tokenizer | None, interrupts: Interrupts) -> None:
        """Ready check, warm-up, profiler: outside the measured time."""
        config = self.config
        count = max(config.num_warmups, 1)
        plan = None
        if config.ready_check_timeout_sec > 0 or config.num_warmups:
            plan = warm_up_plan(config, count, folder / "warm-up-plan", self.backend, options, tokenizer)
        if plan is not None and config.ready_check_timeout_sec > 0:
            self.server.ready(self.backend, self.endpoint, plan.body(0), config.request_id_prefix, config.ready_check_timeout_sec, self.live.say)
        if plan is not None and config.num_warmups:
            self._warm_up(processes, folder, plan, interrupts)
        if config.profile and (problem := self.server.profile("start_profile")):
            raise NotReadyError(f"--profile: the server did not start its profiler: {problem}")

    def _warm_up(self, processes: Processes, folder: Path, plan: Plan, interrupts: Interrupts) -> None:
        cap = min(self.config.max_concurrency or len(plan), len(plan))
        phase = Phase(plan=str(plan.folder), spool=str(folder / "warm-up-spool"), max_concurrency=cap, connections=cap)
        quiet = msgspec.structs.replace(self.config, records=None, save_detailed=False, debug=False)
        measured = measure(
            processes, phase, self._decoder(quiet, phase, folder / "warm-up.out", None), planned=len(plan), last_due_ns=None,
            drain_grace_s=self.config.drain_grace, live=Live(enabled=False), interrupts=interrupts,
        )  # fmt: skip
        records = measured.records
        if interrupts.count:
            raise KeyboardInterrupt
        if failed := [error for error, status in zip(records.error, records.status, strict=True) if status != COMPLETED]:
            self.live.say(f"warning: {len(failed)} of {len(plan)} warm-up requests failed: {failed[0]}")

    def _measure(self, processes: Processes, folder: Path, prepared: Prepared, tokenizer: Tokenizer | None, interrupts: Interrupts) -> Measured:
        config, plan = self.config, prepared.plan
        phase = Phase(
            plan=str(plan.folder), spool=str(folder / "spool"), max_concurrency=config.max_concurrency, connections=connections_for(config, len(plan))
        )
        return measure(
            processes, phase, self._decoder(config, phase, folder / "records.out", tokenizer), planned=len(plan),
            last_due_ns=prepared.last_due_ns, drain_grace_s=config.drain_grace, live=self.live, interrupts=interrupts,
        )  # fmt: skip

    def _decoder(self, config: RunConfig, phase: Phase, out: Path, tokenizer: Tokenizer | None) -> DecoderJob:
        names = ("model", "tokenizer", "tokenizer_mode", "trust_remote_code")
        header = RunHeader(clock=_clock(config), wall_clock_of_zero_ns=realtime_offset_ns(), command=self.command, config=config.public())
        return DecoderJob(
            plan=phase.plan,
            spool=phase.spool,
            workers=config.workers,
            remove=True,
            backend=config.backend,
            request_id_prefix=config.request_id_prefix,
            target=self.target.url_of(""),
            keep_text=config.save_detailed or config.records is not None,
            records=str(Path(config.records).absolute()) if config.records else None,
            header=header,
            out=str(out),
            counters=str(out.parent / "counters"),
            tokenizer={name: getattr(config, name) for name in names} if tokenizer else None,
            debug=config.debug,
        )

    def _after(self, measured: Measured) -> Iterator[str]:
        """Stop the profiler; say what went wrong on the way."""
        if self.config.profile and (problem := self.server.profile("stop_profile")):
            yield f"--profile: the server did not stop its profiler: {problem}"
        for trouble in measured.lost_workers:
            yield f"a worker process died during the run ({trouble}): its requests in flight are lost, and what it had not sent was not sent"
        if measured.interrupted:
            yield "the run was interrupted: these are the numbers up to then"

    def _result(self, processes: Processes, prepared: Prepared, measured: Measured, started: datetime, notes: list[str]) -> Result:
        config, records = self.config, measured.records
        finite = config.request_rate if config.ramp_up_strategy is None and config.request_rate != float("inf") else None
        wall_s = (time.monotonic_ns() - measured.start_ns) / 1e9
        summary = summarise(
            records,
            planned=measured.planned,
            dropped=measured.planned - len(records),
            percentiles=config.metric_percentiles,
            slos_ms=config.goodput,
            open_loop=prepared.last_due_ns is not None,
            requested_rate=finite,
            max_concurrency=config.max_concurrency,
            client={"clock": _clock(config), **client_health(processes, measured, wall_s)},
            notes=notes,
        )
        return Result(
            config=config, summary=summary, records=records, started=started, clock=_clock(config), command=self.command,
            input_texts=prepared.plan.texts(), interrupted=measured.interrupted, skipped_rows=prepared.skipped,
        )  # fmt: skip


def _clock(config: RunConfig) -> str:
    return "kernel" if KERNEL_STAMPS and config.clock != "user" else "user"


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for the run's plan and spool, removed at the end unless what it holds could not be decoded."""
    folder = Path(tempfile.mkdtemp(prefix="loadstone-"))
    try:
        yield folder
    except SpoolKeptError:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
