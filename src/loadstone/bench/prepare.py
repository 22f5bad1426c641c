"""From a configuration to what can be executed: the workload encoded into plans, the server's addresses, the job of each worker."""

import math
from itertools import cycle, islice
from pathlib import Path

import msgspec
import numpy as np

from loadstone import plan as plans
from loadstone.backends.base import Backend, Options
from loadstone.bench.server import Place, id_header
from loadstone.config import RunConfig, load_hyperparameters
from loadstone.engine.settings import Job, Site
from loadstone.plan import NONE, Plan
from loadstone.schedule import arrivals
from loadstone.schedule.base import ArrivalProcess
from loadstone.schedule.shape import MOST, shape_of
from loadstone.tokenizer import Tokenizer
from loadstone.workload import load_workload
from loadstone.workload.seeds import rng_for

WARM_UP_SEED = 0x5741524D  # warm-ups draw from another seed: their prompts must not warm a prefix cache for the measured ones
REPEATED = 1000  # prompts that a closed loop repeats until its duration ends
AHEAD_S, FEW, MANY = 0.5, 4, 512  # open loop: connections ready at the start, for so many seconds of arrivals, and the bounds of that guess


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with what the workload had to say about it."""

    plan: Plan
    notes: list[str]
    skipped: dict[str, int]
    last_due_ns: int | None  # None in a closed loop
    repeat: bool = False  # the plan is sent again and again until a duration ends

    def texts(self, requests: int) -> list[str] | None:
        """The prompts of the first `requests` requests as text, or None if they were not kept."""
        texts = self.plan.texts()
        return list(islice(cycle(texts), requests)) if texts else texts


def options_of(config: RunConfig, model: str) -> Options:
    """What all requests of the run share."""
    sampling = {name: value for name in ("temperature", "top_p", "top_k", "min_p") if (value := getattr(config, name)) is not None}
    return Options(
        model=model,
        stream=not config.no_stream_request,
        sampling=sampling,
        ignore_eos=config.ignore_eos,
        logprobs=config.logprobs,
        use_beam_search=config.use_beam_search,
        continuous_usage=config.continuous_usage_stats,
        max_tokens_field=config.max_tokens_field,
        pd_metrics=config.pd_metrics,
        overrides=load_hyperparameters(config),
    )


def measured_plan(config: RunConfig, folder: Path, backend: Backend, options: Options, tokenizer: Tokenizer | None) -> Prepared:
    """The plan of the measured run."""
    process = arrivals(config)
    repeat = config.num_prompts == 0 and process is None
    offsets = None if process is None else _offsets(process, config)
    config = msgspec.structs.replace(config, num_prompts=REPEATED if repeat else config.num_prompts if offsets is None else len(offsets))
    workload = load_workload(config, tokenizer)
    plan = plans.build(
        folder, workload.prompts, offsets, lambda prompt: backend.payload(prompt, options), model=options.model, keep_texts=config.save_detailed
    )
    last = plan.due_ns(len(plan) - 1) if len(plan) else NONE
    notes = [*workload.notes, f"the {len(plan)} prompts were sent again and again until the time was over"] if repeat else workload.notes
    return Prepared(plan=plan, notes=notes, skipped=workload.skipped, last_due_ns=None if last == NONE else last, repeat=repeat)


def _offsets(process: ArrivalProcess, config: RunConfig) -> list[int]:
    """Due times of --num-prompts requests; without that, of as many as are due within --duration or --load."""
    if config.num_prompts or config.load is not None:
        return list(process.offsets(config.num_prompts or MOST, rng_for(config.seed, "gaps")).tolist())
    end_ns, count = (config.duration or 0) * 1e9, 1024
    while True:
        offsets = process.offsets(count, rng_for(config.seed, "gaps"))
        if offsets[-1] >= end_ns:
            return list(offsets[: max(int(np.searchsorted(offsets, end_ns)), 1)].tolist())
        count *= 4


def warm_up_plan(config: RunConfig, count: int, folder: Path, backend: Backend, options: Options, tokenizer: Tokenizer | None) -> Plan:
    """The plan of `count` requests that are not measured: of the same kind, from another seed, in a closed loop, by the run's own model."""
    other = msgspec.structs.replace(config, num_prompts=count, seed=config.seed ^ WARM_UP_SEED, shuffle=True, no_oversample=False)
    return plans.build(folder, load_workload(other, tokenizer).prompts, None, lambda prompt: backend.payload(prompt, options), model=options.model)


def connections_for(config: RunConfig, requests: int) -> int:
    """Connections to have open before the clock starts: as many as a closed loop or a burst will use; in an open loop, some to begin with."""
    if config.connections == "new":
        return 0
    cap = min(config.max_concurrency or requests, requests)
    if config.load is not None:
        shape = shape_of(config.load)
        return min(cap, max(FEW, min(MANY, math.ceil(float(shape.rates.max()) * AHEAD_S)), int(shape.jumps.max())))
    if math.isinf(config.request_rate) and config.ramp_up_strategy is None:
        return cap
    rate = config.ramp_up_start_rps if config.ramp_up_strategy else config.request_rate
    return min(cap, max(FEW, min(MANY, math.ceil((rate or 0) * AHEAD_S))))


def job_of(config: RunConfig, places: list[Place], counters: Path) -> Job:
    """What a worker is told (worker 0; the others differ by their number)."""
    return Job(
        workers=config.workers,
        sites=[_site(config, place) for place in places],
        fresh=config.connections == "new",
        tail="\r\ncontent-length: ",
        retries=config.retries,
        seed=config.seed,
        clock="user" if config.uds else config.clock,
        connect_timeout_s=config.connect_timeout,
        request_timeout_s=config.request_timeout,
        idle_timeout_s=config.idle_timeout,
        counters=str(counters),
    )


def _site(config: RunConfig, place: Place) -> Site:
    dialer = place.dialer
    fields = {"host": dialer.target.host_header, **place.headers, **dialer.headers}
    if config.connections == "new":
        fields["connection"] = "close"
    lines = [f"POST {dialer.request_target(place.path)} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return Site(
        addresses=dialer.resolve(),
        tls=dialer.tls,
        route=dialer.route,
        head="\r\n".join(lines) + f"\r\n{id_header(config.request_id_prefix)}: {config.request_id_prefix}",
    )
