"""Records and results again from kept bytes: with other definitions, other percentiles, other SLOs, or after a crash."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from loadstone.bench.decoder import DecoderJob, follow
from loadstone.bench.health import verdict
from loadstone.bench.kept import Manifest, kept_template, read_manifest
from loadstone.bench.lost import UNDECODED
from loadstone.bench.result import Result, summary_of
from loadstone.config import RunConfig
from loadstone.engine.counters import Counters
from loadstone.engine.spool_reader import After
from loadstone.plan import Plan
from loadstone.records import Records, RunHeader

TOKENIZER_FIELDS = ("model", "tokenizer", "tokenizer_mode", "trust_remote_code")


def redecode(folder: Path, scratch: Path, changes: Mapping[str, Any], *, command: Sequence[str] = ()) -> Result:
    """Decode the run kept in `folder` again. `changes` are fields of the configuration (metrics, percentiles, SLOs, output, backend, tokenizer) that
    replace those of the run; `scratch` is an empty folder for what is needed on the way. The folder itself is only read.

    Raises UsageError if the folder holds no kept run, LoadstoneError if its spool is damaged.
    """
    manifest = read_manifest(folder)
    config = RunConfig.from_mapping({**_asked(manifest), **changes}, f"{folder}/run.json")
    plan = Plan(folder / "plan")
    Counters(scratch / "counters", rows=1 + manifest.workers)
    job = DecoderJob(
        plan=str(folder / "plan"),
        spool=str(folder / "spool"),
        workers=manifest.workers,
        after=After.KEEP,
        backend=config.backend,
        template=kept_template(config.template, folder),
        request_id_prefix=config.request_id_prefix,
        targets=manifest.targets,
        urls=manifest.urls,
        keep_text=config.save_detailed or config.records is not None,
        records=config.records,
        header=RunHeader(
            clock=manifest.clock, wall_clock_of_zero_ns=manifest.wall_clock_of_zero_ns, command=manifest.command, config=config.public()
        ),
        out=str(scratch / "columns"),
        counters=str(scratch / "counters"),
        tokenizer={name: getattr(config, name) for name in TOKENIZER_FIELDS} if manifest.has_tokenizer or config.tokenizer else None,
        debug=config.debug,
    )
    trouble = follow(job, lambda: True)
    records = Records.open(Path(job.out))
    notes = [*(note for note in manifest.notes if UNDECODED not in note), f"decoded again from {folder}", *([trouble] if trouble else [])]
    if manifest.sent is None:
        notes.append("the run did not come to its end: requests that were in flight then left no trace, and are counted as not sent")
    elif len(records) < manifest.sent:
        notes.append(
            f"{manifest.sent - len(records)} of the {manifest.sent} requests that were sent have left no trace: the spool is cut or incomplete, and "
            "they are counted as not sent"
        )
    summary = summary_of(config, records, manifest, dict(manifest.client), notes)
    if manifest.client:
        summary.client["verdict"] = verdict(summary.client, summary)
    return Result(
        config=config,
        summary=summary,
        records=records,
        started=datetime.fromisoformat(manifest.started),
        clock=manifest.clock,
        command=list(command),
        input_texts=plan.texts() if config.save_detailed else None,
        stopped=manifest.stopped,
    )


def _asked(manifest: Manifest) -> dict[str, Any]:
    """The configuration of the run, less what belongs to that run alone: its secrets (masked anyway), its output, its folder."""
    ours = {
        "header",
        "api_key",
        "keep_wire",
        "records",
        "save_result",
        "save_detailed",
        "append_result",
        "result_filename",
        "result_dir",
        "debug",
        "junit",
    }
    return {name: value for name, value in manifest.config.items() if name not in ours}
