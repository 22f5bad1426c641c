"""One run, from its configuration to its result: ready check, warm-up, profiler, measured load, numbers."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from loadstone import backends
from loadstone.backends.base import Options
from loadstone.bench.decoder import DecoderJob
from loadstone.bench.health import client_figures, verdict
from loadstone.bench.interrupts import Interrupts
from loadstone.bench.kept import Manifest, keep_template, kept_template, run_folder
from loadstone.bench.measure import Measured, Rules, measure
from loadstone.bench.prepare import Prepared, connections_for, job_of, measured_plan, options_of, warm_up_plan
from loadstone.bench.processes import Processes, raise_file_limit, workers_for
from loadstone.bench.result import DURATION, ERROR_RATE, INTERRUPT, Result, summary_of
from loadstone.bench.servers import Servers
from loadstone.config import INFINITE, RunConfig
from loadstone.engine.clock import KERNEL_STAMPS, realtime_offset_ns
from loadstone.engine.process import ENDLESS
from loadstone.engine.settings import Phase
from loadstone.engine.spool_reader import After
from loadstone.plan import Plan
from loadstone.records import COMPLETED, RunHeader
from loadstone.redact import public_command
from loadstone.report.live import Live
from loadstone.report.secrets import secrets_of
from loadstone.tokenizer import Tokenizer, load_tokenizer

__all__ = ["Result", "run", "with_model"]


def run(config: RunConfig, *, command: Sequence[str] = (), live: Live | None = None) -> Result:
    """Load-test the server that `config` names and return the numbers; prints nothing but progress, and that only if a `live` display is given.

    Raises UsageError before anything is sent when the configuration or the data cannot be, NotReadyError when the server is not ready. Failed
    requests never raise: they are in the result.
    """
    return _Run(config.validated(), list(command), live or Live(enabled=False)).go()


def with_model(config: RunConfig, tell: Callable[[str], None]) -> RunConfig:
    """`config` with its model: the one given, else the one that the server lists. Raises UsageError when that is not exactly one."""
    if config.model is not None:
        return config
    return msgspec.structs.replace(config, model=Servers(config, backends.get(config.backend, config.template)).model(tell))


class _Run:
    def __init__(self, config: RunConfig, command: list[str], live: Live) -> None:
        self.command, self.live = public_command(command), live
        self.backend = backends.get(config.backend, config.template)
        config = with_model(config, live.say)
        self.config = config = msgspec.structs.replace(config, workers=workers_for(config))
        self.options = options_of(config, config.served_model_name or config.model or "")
        self.endpoint = config.endpoint or self.backend.path_for(self.options)
        self.servers = Servers(config, self.backend)
        self.clock = "kernel" if KERNEL_STAMPS and config.clock != "user" and not config.uds else "user"

    def go(self) -> Result:
        config, options = self.config, self.options
        self.backend.check(options)
        tokenizer, note = load_tokenizer(config)
        self.servers.resolve()  # a name that has no address is told before anything else
        with run_folder(config.keep_wire) as folder, Interrupts() as interrupts:
            keep_template(config.template, folder)
            raise_file_limit(connections_for(config, config.num_prompts or ENDLESS))
            with Processes(config.workers, folder) as processes:  # they start while the plan is being made
                prepared = measured_plan(config, folder / "plan", self.backend, options, tokenizer)
                self._before(processes, folder, options, tokenizer, interrupts)
                manifest = self._manifest(prepared, tokenizer)
                manifest.write(folder)
                measured = self._measure(processes, folder, prepared, tokenizer, interrupts)
                manifest.sent, manifest.stopped = measured.sent, measured.stopped
                manifest.planned = measured.sent if prepared.repeat else len(prepared.plan)
                manifest.client = client_figures(processes, measured, self.clock)
                notes = [*([note] if note else []), *self.backend.notes(options), *self.servers.notes(), *prepared.notes, *self._after(measured)]
                manifest.notes = notes
                manifest.write(folder)  # the folder stays with --keep-wire, and where something in it could not be decoded
            return self._result(prepared, measured, manifest)

    # before and after the measured time

    def _before(self, processes: Processes, folder: Path, options: Options, tokenizer: Tokenizer | None, interrupts: Interrupts) -> None:
        """Ready check, warm-up, profiler. Each server has --num-warmups."""
        config = self.config
        plan = None
        if config.ready_check_timeout_sec > 0 or config.num_warmups:
            plan = warm_up_plan(config, max(config.num_warmups, 1) * len(self.servers), folder / "warm-up-plan", self.backend, options, tokenizer)
        if plan is not None and config.ready_check_timeout_sec > 0:
            self.servers.ready(self.endpoint, plan.body(0), self.live.say)
        self.servers.settle(self.endpoint)
        processes.begin(job_of(config, self.servers.places, folder / "counters"))
        if plan is not None and config.num_warmups:
            self._warm_up(processes, folder, plan, interrupts)
        if interrupts.count:
            raise KeyboardInterrupt
        if config.profile:
            self.servers.start_profile()

    def _warm_up(self, processes: Processes, folder: Path, plan: Plan, interrupts: Interrupts) -> None:
        cap = min(self.config.max_concurrency or len(plan), len(plan))
        spool = str(folder / "warm-up-spool")
        phase = Phase(plan=str(plan.folder), spool=spool, max_concurrency=cap, connections=cap, id_mark="-warm-up-")
        quiet = msgspec.structs.replace(self.config, records=None, save_detailed=False, debug=False, keep_wire=None)
        measured = measure(
            processes,
            phase,
            self._decoder(quiet, phase, folder / "warm-up-columns", None),
            planned=len(plan),
            last_due_ns=None,
            rules=Rules(grace_s=self.config.drain_grace),
            live=Live(enabled=False),
            interrupts=interrupts,
        )
        records = measured.records
        if failed := [error for error, status in zip(records.error, records.status, strict=True) if status != COMPLETED]:
            self.live.say(f"warning: {len(failed)} of {len(plan)} warm-up requests failed: {failed[0]}")

    def _after(self, measured: Measured) -> Iterator[str]:
        """Stop the profiler; say what went wrong on the way."""
        config = self.config
        if config.profile:
            yield from self.servers.stop_profile()
        for trouble in measured.lost_workers:
            yield f"a worker process died during the run ({trouble}): its requests in flight are lost, and what it had not sent was not sent"
        if measured.stopped == INTERRUPT:
            yield "the run was interrupted: these are the numbers up to then"
        if measured.stopped == ERROR_RATE:
            yield f"the run was given up: more than {config.max_error_rate:.0%} of the requests had failed (--max-error-rate)"
        yield from measured.notes
        if config.duration is not None:
            grace = f"requests in flight then got {config.drain_grace:g} s (--drain-grace)"
            yield f"nothing was sent later than {config.duration:g} s (--duration); {grace}"

    # the measured time

    def _measure(self, processes: Processes, folder: Path, prepared: Prepared, tokenizer: Tokenizer | None, interrupts: Interrupts) -> Measured:
        config, plan = self.config, prepared.plan
        phase = Phase(
            plan=str(plan.folder),
            spool=str(folder / "spool"),
            max_concurrency=config.max_concurrency,
            connections=connections_for(config, ENDLESS if prepared.repeat else len(plan)),
            duration_ns=round((config.duration or 0) * 1e9),
            repeat=prepared.repeat,
            balance=config.balance,
        )
        return measure(
            processes,
            phase,
            self._decoder(config, phase, folder / "columns", tokenizer),
            planned=0 if prepared.repeat else len(plan),
            last_due_ns=prepared.last_due_ns,
            rules=Rules(grace_s=config.drain_grace, duration_s=config.duration, max_error_rate=config.max_error_rate),
            live=self.live,
            interrupts=interrupts,
        )

    def _decoder(self, config: RunConfig, phase: Phase, out: Path, tokenizer: Tokenizer | None) -> DecoderJob:
        names = ("model", "tokenizer", "tokenizer_mode", "trust_remote_code")
        header = RunHeader(clock=self.clock, wall_clock_of_zero_ns=realtime_offset_ns(), command=self.command, config=config.public())
        return DecoderJob(
            plan=phase.plan,
            spool=phase.spool,
            workers=config.workers,
            after=After.COMPRESS if config.keep_wire else After.REMOVE,
            backend=config.backend,
            template=kept_template(config.template, out.parent),
            request_id_prefix=config.request_id_prefix,
            targets=[place.target for place in self.servers.places],
            urls=[place.shown for place in self.servers.places],
            secrets=[*secrets_of(config), *self.backend.secrets],
            keep_text=config.save_detailed or config.records is not None,
            records=str(Path(config.records).absolute()) if config.records else None,
            header=header,
            out=str(out),
            counters=str(out.parent / "counters"),
            tokenizer={name: getattr(config, name) for name in names} if tokenizer else None,
            debug=config.debug,
        )

    # numbers

    def _manifest(self, prepared: Prepared, tokenizer: Tokenizer | None) -> Manifest:
        config = self.config
        steady = config.ramp_up_strategy is None and config.request_rate != INFINITE
        return Manifest(
            config=config.public(),
            command=self.command,
            backend=config.backend,
            targets=[place.target for place in self.servers.places],
            urls=[place.shown for place in self.servers.places],
            workers=config.workers,
            clock=self.clock,
            wall_clock_of_zero_ns=realtime_offset_ns(),
            started=datetime.now().astimezone().isoformat(),
            open_loop=prepared.last_due_ns is not None,
            requested_rate=config.request_rate if steady else None,
            has_tokenizer=tokenizer is not None,
            planned=len(prepared.plan),
        )

    def _result(self, prepared: Prepared, measured: Measured, manifest: Manifest) -> Result:
        summary = summary_of(self.config, measured.records, manifest, manifest.client, manifest.notes)
        summary.client["verdict"] = verdict(summary.client, summary)
        return Result(
            config=msgspec.structs.replace(self.config, num_prompts=manifest.planned),
            summary=summary,
            records=measured.records,
            started=datetime.fromisoformat(manifest.started),
            clock=self.clock,
            command=self.command,
            input_texts=prepared.texts(manifest.planned) if self.config.save_detailed else None,
            stopped="" if measured.stopped == DURATION else measured.stopped,
            skipped_rows=prepared.skipped,
        )
