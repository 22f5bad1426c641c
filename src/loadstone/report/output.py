"""Where the result goes: its name, the check before the load that it can be written, and the writing itself."""

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from loadstone.config import INFINITE, RunConfig
from loadstone.errors import LoadstoneError, UsageError
from loadstone.records import whole_text
from loadstone.report.details import ARRAYS

_NAMES = (
    "date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency load ramp_up_strategy"
    " ramp_up_start_rps ramp_up_end_rps duration completed total_input_tokens total_output_tokens request_throughput request_goodput"
    " output_throughput total_token_throughput planned sent dropped failed cancelled failures failure_examples open_loop planned_rate sent_rate"
    " max_output_tokens_per_s max_concurrent_requests goodput token_source prompt_token_source itl_basis server_spans thresholds warnings notes"
    " client servers attempts retried distributions schema clock loadstone_version command"
)
OWN_KEYS = frozenset(_NAMES.split()) | frozenset(ARRAYS)
_FIGURE = re.compile(
    r"(ci_)?(mean|median|std|min|max|n|p[\d.]+)_(response_)?(ttft|ttfot|tpot|itl|icl|e2el|queue_delay|s_\w+|input_len|output_len)(_ms)?"
)


def result_name(config: RunConfig, date: datetime) -> str:
    """The default file name: {label or backend}-{rate}qps[-concurrency{N}]-{last part of model}-{YYYYmmdd-HHMMSS}.json, the ramp, or the word
    load, in place of the rate.
    """
    if config.load is not None:
        rate = "load"
    elif config.ramp_up_strategy:
        rate = f"ramp-up-{config.ramp_up_strategy}-{config.ramp_up_start_rps:g}qps-{config.ramp_up_end_rps:g}qps"
    else:
        rate = f"{'inf' if config.request_rate == INFINITE else config.request_rate}qps"
    cap = f"-concurrency{config.max_concurrency}" if config.max_concurrency else ""
    model = (config.model or "model").rstrip("/").rsplit("/", 1)[-1]
    name = f"{config.label or config.backend}-{rate}{cap}-{model}-{date:%Y%m%d-%H%M%S}.json"
    return name.replace("/", "_")


def prepare_output(config: RunConfig, date: datetime) -> Path | None:
    """The path of the result file, its folder made and proven writable before anything is sent; None if no result is to be saved.

    Also proves that --records can be written, that --append-result would append to JSON lines, and that no metadata key is one of the result's own.
    Raises UsageError naming the place and the remedy.
    """
    for key in config.metadata:
        if key in OWN_KEYS or _FIGURE.fullmatch(key):
            raise UsageError(f"--metadata {key}=...: the result file has a key of that name already; choose another name")
    if config.records:
        _prove_writable(Path(config.records), "--records")
    if config.junit:
        _prove_writable(Path(config.junit), "--junit")
    if not (config.save_result or config.save_detailed or config.append_result):
        return None
    path = Path(config.result_dir or "") / (config.result_filename or result_name(config, date))
    if config.records and path.absolute() == Path(config.records).absolute():
        raise UsageError(f"--records and --result-filename name the same file, {path}: give one of them another name")
    _prove_writable(path, "--result-dir or --result-filename")
    if config.append_result:
        _prove_json_lines(path)
    return path


def unused_output(config: RunConfig) -> list[str]:
    """What to say of flags that name or describe a result file, given without any that writes one. No error, for `vllm bench serve` takes them."""
    if config.save_result or config.save_detailed or config.append_result:
        return []
    given = [
        flag
        for flag, value in (
            ("--result-dir", config.result_dir),
            ("--result-filename", config.result_filename),
            ("--label", config.label if config.junit is None else None),
            ("--metadata", config.metadata),
        )
        if value
    ]
    return [f"note: no result file is written, so {' and '.join(given)} has no effect: --save-result writes one"] if given else []


def write_result(path: Path, document: Any, append: bool = False) -> Path:
    """Write `document` as one line of strict JSON and return where it is. A whole file replaces the old one at once or not at all; `append` adds a
    line to what is there, after the newline that an older file may lack.

    When the place has become unwritable since it was checked, the result is written into the working directory, else into the system's temporary one:
    hours of load are not lost for it. Raises LoadstoneError only when there is no place left.
    """
    line = encode(document) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _append(path, line) if append else _replace(path, line)
        return path
    except OSError as error:
        fault = error
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        spare = folder / f"loadstone-result-{os.getpid()}.json"
        with contextlib.suppress(OSError):
            _replace(spare, line)
            return spare
    raise LoadstoneError(f"the result could not be written to {path} ({fault.strerror or fault}), nor to any other place") from fault


def encode(document: Any) -> bytes:
    """Strict JSON on one line: nan and infinities are null, numpy's numbers and arrays are numbers and lists, half surrogates are U+FFFD."""
    try:
        return msgspec.json.encode(document, enc_hook=_plain)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole_texts(document), enc_hook=_plain)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def _whole_texts(value: Any) -> Any:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, Mapping):
        return {_whole_texts(key): _whole_texts(item) for key, item in value.items()}
    return [_whole_texts(item) for item in value] if isinstance(value, list | tuple) else value


def _replace(path: Path, data: bytes) -> None:
    if _is_special(path):
        path.write_bytes(data)
        return
    path = path.resolve()  # a link stays a link
    beside = _beside(path)
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _append(path: Path, line: bytes) -> None:
    """All of the line or nothing: where the disk is full, the file is cut back to what it was."""
    if _is_special(path):
        path.write_bytes(line)
        return
    with path.open("a+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        if size > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = b"\n" + line
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise


def _is_special(path: Path) -> bool:
    """A device or a pipe (/dev/stdout): it is written to, never replaced."""
    return path.exists() and not path.is_file()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:200]}.{os.getpid()}.part")


def _prove_writable(path: Path, flags: str) -> None:
    """Make the folder of `path` and open files in it for writing, leaving none behind."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise UsageError(f"{path} is a folder; name a file in it with {flags}")
        if _is_special(path):
            return
        path = path.resolve()
        existed = path.exists()
        with path.open("ab"):  # the name itself may be too long, or hold what the file system refuses
            pass
        if not existed:
            path.unlink()
        _beside(path).touch()
        _beside(path).unlink()
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror or error}); choose another place with {flags}") from None


def _prove_json_lines(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                msgspec.json.decode(line, type=dict) if line.strip() else None
            except (msgspec.DecodeError, UnicodeDecodeError):
                raise UsageError(
                    f"--append-result: {path}, line {number} is not a JSON object on a line of its own; choose another --result-filename"
                ) from None
