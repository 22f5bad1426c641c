"""Every number of a run, with its unit, its sample size and how far it can be trusted. Reports and comparisons read only this."""

from typing import Any

import msgspec


class Percentile(msgspec.Struct, frozen=True, kw_only=True):
    """A percentile with its distribution-free 95 % confidence interval. A bound that the sample is too small for is None; `needs` says how many
    samples would give both (None for p0 and p100, which have no bounds at any size).
    """

    value: float
    low: float | None
    high: float | None
    needs: int | None
    early_stopping: float | None = None  # MLPerf's bound from above, at 99 % confidence; None where the sample is too small for it


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A mean or a rate with its 95 % confidence interval by batch means; no interval (None) where there are too few samples for one."""

    value: float
    low: float | None = None
    high: float | None = None


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """One metric over its samples. `unit` is ms, tokens or tok/s. All figures are None when `count` is 0."""

    name: str  # ttft, tpot, itl, icl, e2el, ttfot, s_ttft ...
    unit: str
    count: int  # samples
    mean: float | None = None
    mean_low: float | None = None  # 95 % confidence interval of the mean, by batch means; None for fewer than 100 requests
    mean_high: float | None = None
    std: float | None = None  # population standard deviation
    minimum: float | None = None
    median: Percentile | None = None
    maximum: float | None = None
    percentiles: dict[str, Percentile] = {}  # key as the person gave it: "99", "99.9"


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """Completed requests that met every SLO."""

    slos_ms: dict[str, float]
    good: int
    per_s: float
    share: float  # of all requests sent
    missed: dict[str, int]  # completed requests that missed each SLO


class Overload(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the server kept up with an open loop (overload.py). `kept_up` is None where that cannot be told, and `why` says why. The other figures
    are of the judged part.
    """

    kept_up: bool | None = None
    why: str = ""
    asked_rate: float | None = None  # requests that were due a second
    delivered_rate: float | None = None  # requests that completed a second
    saturated_at: float | None = None  # the delivered rate, where the server did not keep up
    backlog_before: int | None = None  # due and not over, at its beginning ...
    backlog_after: int | None = None  # ... and at its end
    refused: int = 0  # answered with 429 or 503
    drift: float = 0.0  # by how much of itself the median response E2EL rose, where it rose steadily


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a part of the run (window.py). Without a part, `start_s` is None and `why` says why there is none."""

    asked: bool = False  # by --warmup-time, --measure-time or --cooldown-time; else it is the steady part, found
    why: str = ""  # how it was chosen, or why there is none
    start_s: float | None = None  # from the first send, like its end
    end_s: float | None = None
    sent: int = 0  # requests that were sent in it: of these are the latencies
    completed: int = 0  # requests that completed in it
    in_flight: float | None = None  # mean
    request_throughput: Estimate | None = None
    output_throughput: Estimate | None = None
    total_token_throughput: Estimate | None = None
    distributions: dict[str, Distribution] = {}


class ServerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one of several servers in a run (servers.py)."""

    url: str
    sent: int  # requests whose last attempt went there
    completed: int
    failed: int
    cancelled: int
    retried: dict[str, int] = {}  # attempts there that were followed by another, by reason
    total_output_tokens: int
    request_throughput: float  # over the duration of the run, like all rates
    output_throughput: float
    distributions: dict[str, Distribution] = {}  # ttft, tpot, e2el


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that were tried more than once (servers.py)."""

    attempts: int = 0  # of all requests, the first ones included
    requests: int = 0  # that were tried more than once ...
    completed: int = 0  # ... and completed
    reasons: dict[str, int] = {}  # attempts that were followed by another, by reason, most common first


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one threshold. `value` is in the unit that was written; None where there is none."""

    threshold: str
    unit: str
    value: float | None
    samples: int | None
    verdict: str  # pass, fail, not enough samples
    why: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of one run."""

    planned: int
    sent: int
    dropped: int
    completed: int
    failed: int
    cancelled: int
    failures: dict[str, int] = {}  # failed and cancelled, by reason, most common first
    failure_examples: dict[str, str] = {}  # one full error text a reason

    duration_s: float
    total_input_tokens: int
    total_output_tokens: int
    request_throughput: float
    output_throughput: float
    total_token_throughput: float
    peak_output_tokens_per_s: float | None = None  # most tokens in a one-second bin
    peak_concurrency: int = 0  # most requests in flight at one instant
    open_loop: bool = False  # requests were due at times of their own: there are figures from planned
    max_concurrency: int | None = None
    requested_rate: float | None = None  # None: all at once or closed loop
    planned_rate: float | None = None  # of the schedule as drawn: (sent - 1) / (last due - first due); None in a closed loop
    sent_rate: float | None = None  # (sent - 1) / (last send - first send)

    goodput: Goodput | None = None
    distributions: dict[
        str, Distribution
    ] = {}  # by metric name, from sent; response_ttft, response_e2el and queue_delay from planned, open loop only
    server_spans: dict[str, Distribution] = {}  # what servers say took how long, by their names for it, less those that are metrics
    itl_basis: str = "event"  # token, event
    token_source: dict[str, int] = {}  # completed requests by where their output token count came from
    prompt_token_source: dict[str, int] = {}
    overload: Overload = Overload()
    window: Measured = Measured()
    servers: list[ServerFigures] = []  # where there are several
    retries: Retries = Retries()
    thresholds: list[Judgement] = []
    warnings: list[str] = []  # what a reader must know before believing a number, in plain words
    notes: list[str] = []  # what was done on the way: rows repeated or left out, lengths counted in words ...
    client: dict[str, Any] = {}  # health of the client, see the engine
