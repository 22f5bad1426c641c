"""Driving a worker in this process: a plan of equal bodies against a port of this machine."""

import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loadstone.engine.counters import Counters
from loadstone.engine.exchange import Exchange
from loadstone.engine.pacing import Stripe
from loadstone.engine.settings import Address, Job, Phase, Site, Tls
from loadstone.engine.spool_reader import SpoolReader
from loadstone.engine.worker import Worker
from loadstone.plan import build
from loadstone.workload.base import Prompt

HEAD = "POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\nx-request-id: r"
TAIL = "\r\ncontent-type: application/json\r\ncontent-length: "


def drive(
    folder: Path,
    port: int | list[int],  # several: of as many servers
    requests: int,
    *,
    cap: int | None = None,
    due_ns: Sequence[int] | None = None,
    body: bytes = b"{}",
    connections: int = 1,
    clock: str = "auto",
    tls: Tls | None = None,
    family: int = socket.AF_INET,
    segment_bytes: int = 64 << 20,
    duration_ns: int = 0,
    repeat: bool = False,
    spool_limit_bytes: int = 4 << 30,
    balance: str = "round-robin",
    while_running: Callable[[Worker], None] | None = None,
    **settings: Any,
) -> tuple[list[Exchange], Worker, memoryview]:
    """Run one phase to its end. Returns the exchanges in order of index, the worker, its counters."""
    spool = folder / "spool"
    spool.mkdir()
    plan = build(folder / "plan", [Prompt(text="hello")] * requests, due_ns, lambda _: body, model="m")
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    ports = [port] if isinstance(port, int) else port
    sites = [Site(addresses=[Address(family=family, sockaddr=(address, each))], head=HEAD, tls=tls) for each in ports]
    job = Job(sites=sites, tail=TAIL, clock=clock, counters="", **settings)
    counters = Counters(folder / "counters", rows=2).row(1)
    worker = Worker(job, counters)
    phase = Phase(
        plan=str(plan.folder),
        spool=str(spool),
        max_concurrency=cap,
        connections=connections,
        segment_bytes=segment_bytes,
        duration_ns=duration_ns,
        balance=balance,
        repeat=repeat,
        spool_limit_bytes=spool_limit_bytes,
    )
    worker.prepare(phase)
    if while_running:
        while_running(worker)
    worker.run(Stripe(0, 1, 1 << 62 if repeat else requests), time.monotonic_ns())
    worker.close()
    reader = SpoolReader(spool, 0)
    exchanges: list[Exchange] = []
    while fresh := list(reader.read()):
        exchanges += fresh
    return sorted(exchanges, key=lambda exchange: exchange.index), worker, counters
