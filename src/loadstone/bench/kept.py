"""The folder of a run: plan, spool and a manifest. Usually it is scratch; with --keep-wire it stays, and can be decoded again, after a crash too.

run.json       what the run was (Manifest)
template.yaml  of backend template, the file that says how replies are read, without what may be a secret in it
plan/          what was to be sent
spool/         what came back, as captured (NN-NNNNNN.spool, or .spool.gz once decoded)
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from loadstone.backends import template_file
from loadstone.errors import LoadstoneError, UsageError

SCHEMA = "loadstone.wire/3"
TEMPLATE = "template.yaml"
STAYS = "stays"  # a file that marks a scratch folder that is not to be removed


class SpoolKeptError(LoadstoneError):
    """What was captured could not be decoded: it stays on disk."""

    exit_code = 1


class Manifest(msgspec.Struct, kw_only=True):
    """What `loadstone decode` needs to know of the run. Written before the load; `sent` and `client` are filled in when it is over: where `sent` is
    missing, the run did not come to its end.
    """

    schema: str = SCHEMA
    config: dict[str, Any]  # RunConfig.public(): without secrets
    command: list[str]
    backend: str
    targets: list[str]  # the servers' URLs
    urls: list[str]  # of the requests to each, for error texts
    workers: int
    clock: str
    wall_clock_of_zero_ns: int
    started: str = ""  # ISO 8601
    open_loop: bool = False
    requested_rate: float | None = None
    has_tokenizer: bool = False
    notes: list[str] = []
    planned: int = 0
    sent: int | None = None
    stopped: str = ""
    client: dict[str, Any] = {}

    def write(self, folder: Path) -> None:
        path = folder / "run.json"
        partial = path.with_suffix(".partial")
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(self)))
        partial.replace(path)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a kept run. Raises UsageError when the folder holds none."""
    try:
        manifest = msgspec.json.decode((folder / "run.json").read_bytes(), type=Manifest)
    except OSError as error:
        raise UsageError(f"{folder} is no folder that --keep-wire has written: run.json: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{folder}/run.json cannot be read: {error}") from None
    if manifest.schema != SCHEMA:
        raise UsageError(f"{folder}/run.json has schema {manifest.schema!r}; this version of loadstone reads {SCHEMA!r}")
    return manifest


@contextmanager
def run_folder(keep: str | None) -> Iterator[Path]:
    """The folder `keep`, made if missing, which stays; else a scratch one, removed at the end unless what it holds could not be decoded: then it
    stays too, less what the run alone needed.
    """
    if keep is not None:
        folder = Path(keep)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise UsageError(f"--keep-wire {keep}: the folder is not empty; name a new one")
        except OSError as error:
            raise UsageError(f"--keep-wire {keep}: {error.strerror}") from None
        yield folder
        _clean(folder)
        return
    folder = Path(tempfile.mkdtemp(prefix="loadstone-"))
    try:
        yield folder
    except SpoolKeptError:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if (folder / STAYS).exists():
        _clean(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def keep_template(template: str | None, folder: Path) -> None:
    """Put the file of --template into the folder: it may change while the run is on, and be gone when it is decoded again."""
    if template is not None:
        (folder / TEMPLATE).write_bytes(msgspec.json.format(msgspec.json.encode(template_file.public(template))))


def kept_template(template: str | None, folder: Path) -> str | None:
    """Where `keep_template` has put it."""
    return None if template is None else str(folder / TEMPLATE)


def let_stay(folder: Path) -> None:
    """Have `run_folder` keep this folder."""
    (folder / STAYS).touch()


def _clean(folder: Path) -> None:
    for name in ("counters", STAYS):
        (folder / name).unlink(missing_ok=True)
    for name in ("columns", "warm-up-plan", "warm-up-spool", "warm-up-columns"):
        shutil.rmtree(folder / name, ignore_errors=True)
