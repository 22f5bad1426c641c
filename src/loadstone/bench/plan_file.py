"""A plan as one file: what `loadstone plan --out FILE` writes and `loadstone bench serve --plan FILE` sends, byte for byte.

A tar archive: `head.json` (what the plan is: Head), `plan/` and `warm-up/` (the folders of two plans, see loadstone.plan). The same flags give
the same file. Nothing in it is secret: keys are in request heads, which are made when a plan is sent.
"""

import io
import tarfile
from pathlib import Path
from typing import Any

import msgspec

import loadstone
from loadstone.bench.prepare import Prepared
from loadstone.errors import UsageError
from loadstone.plan import Plan

SCHEMA = "loadstone.planfile/1"
WORKLOAD = (  # fields of the configuration that a plan has settled: what bench serve takes from it
    *("backend", "model", "served_model_name", "dataset_name", "num_prompts", "seed", "request_rate", "burstiness", "load", "ramp_up_strategy"),
    *("ramp_up_start_rps", "ramp_up_end_rps", "duration", "no_stream_request"),
)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan file says of itself."""

    schema: str = SCHEMA
    loadstone: str = loadstone.__version__
    config: dict[str, Any]  # RunConfig.public() of the flags that made it
    requests: int
    last_due_ns: int | None
    repeat: bool = False
    notes: list[str] = []
    skipped: dict[str, int] = {}


def write_plan_file(path: Path, prepared: Prepared, warm_up: Plan, config: dict[str, Any]) -> None:
    """Write the file, whole or not at all. Raises UsageError when it cannot be written."""
    head = Head(
        config=config,
        requests=len(prepared.plan),
        last_due_ns=prepared.last_due_ns,
        repeat=prepared.repeat,
        notes=prepared.notes,
        skipped=prepared.skipped,
    )
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as archive:
            _add(archive, "head.json", msgspec.json.format(msgspec.json.encode(head)))
            for name, plan in (("plan", prepared.plan), ("warm-up", warm_up)):
                for file in sorted(plan.folder.iterdir()):
                    archive.add(file, f"{name}/{file.name}", filter=_same_everywhere)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"cannot write the plan --out {path}: {error.strerror or error}") from None


def read_head(path: Path) -> Head:
    """What a plan file says of itself. Raises UsageError for what is no plan file."""
    try:
        with tarfile.open(path) as archive:
            member = archive.extractfile("head.json")
            head = msgspec.json.decode(member.read() if member else b"", type=Head)
    except OSError as error:
        raise UsageError(f"cannot read --plan {path}: {error.strerror or error}") from None
    except (tarfile.TarError, KeyError, msgspec.DecodeError):
        raise UsageError(f"--plan {path} is no plan file: give one that `loadstone plan --out FILE` has written") from None
    if head.schema != SCHEMA:
        raise UsageError(f"--plan {path} has schema {head.schema!r}; this version of loadstone reads {SCHEMA!r}")
    return head


def open_plan_file(path: Path, folder: Path) -> tuple[Prepared, Plan]:
    """The plan of the measured run and that of the warm-up, unpacked into `folder`."""
    head = read_head(path)
    try:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
        plan, warm_up = Plan(folder / "plan"), Plan(folder / "warm-up")
    except (OSError, tarfile.TarError, msgspec.DecodeError) as error:
        raise UsageError(f"--plan {path} is damaged: {error}") from None
    if len(plan) != head.requests:
        raise UsageError(f"--plan {path} is damaged: it says {head.requests} requests and holds {len(plan)}")
    notes = [*head.notes, f"the plan {path.name} was sent as it stands"]
    return Prepared(plan=plan, notes=notes, skipped=head.skipped, last_due_ns=head.last_due_ns, repeat=head.repeat), warm_up


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _same_everywhere(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member
