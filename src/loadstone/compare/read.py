"""From what a person names to runs: FILE, FILE#N, FOLDER, and several of them joined by commas.

FILE is a result file of any tool that a reader knows, or a records file. Of JSON lines (--append-result) and of a file with several results the
last one is taken; FILE#N takes the Nth, FILE#-1 the last, FILE#all each of them. A FOLDER stands for every result in it.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from loadstone.compare import record_file
from loadstone.compare.readers import READERS, guidellm
from loadstone.compare.run import Run
from loadstone.errors import UsageError
from loadstone.report.result_file import SCHEMA

RESULT_SCHEMA, _, NEWEST = SCHEMA.rpartition("/")
WHOLE_FOLDERS = ("benchmark_summary.json", "profile_export_aiperf.json")  # the result among other files of one run: evalscope, AIPerf
ENDINGS = (".json", ".jsonl")
_PICK = re.compile(r"(.+)#(all|-?\d+)")


def side(text: str) -> list[Run]:
    """The runs of one side of a comparison. Raises UsageError naming what cannot be read and why."""
    words = [text] if Path(text).exists() else [word for word in text.split(",") if word]
    runs = [run for word in words for run in _runs(word)]
    if not runs:
        raise UsageError(f"{text!r} names no result: give a file, FILE#N, a folder, or several of them joined by commas")
    return runs


def _runs(word: str) -> Iterator[Run]:
    path, pick = split(word)
    if not path.is_dir():
        yield from read(path, pick)
        return
    if pick is not None:
        raise UsageError(f"{word!r}: {path} is a folder; #{pick} chooses a result of a file")
    for name in WHOLE_FOLDERS:
        if (path / name).is_file():
            yield from read(path / name, None)
            return
    found = [each for each in sorted(path.iterdir()) if each.suffix in ENDINGS and not each.name.endswith(".pytorch.json")]
    if not found:
        what = "a run kept by --keep-wire: `loadstone decode` makes a result of it" if (path / "run.json").exists() else "empty of them"
        raise UsageError(f"{path} is a folder without a result file (*.json, *.jsonl); it is {what}")
    for each in found:
        yield from read(each, None)


def split(word: str) -> tuple[Path, str | None]:
    """FILE and what stands behind the #, unless a file has that very name."""
    found = None if Path(word).exists() else _PICK.fullmatch(word)
    return (Path(found[1]), found[2]) if found else (Path(word), None)


def read(path: Path, pick: str | None = None) -> list[Run]:
    """The runs that `pick` (None: the last; all; a number from 1, or from -1 backwards) chooses in one file."""
    if is_records(path):
        if pick not in (None, "all", "1", "-1"):
            raise UsageError(f"{path} is a records file, of one run: leave #{pick} out")
        return [record_file.read_run(path)]
    found = choose(documents(path), pick, path)
    return [_run(document, path, "" if len(found) == 1 and pick is None else f"#{number}") for number, document in found]


def is_records(path: Path) -> bool:
    """Whether the first line says that this is a records file, of whatever version."""
    try:
        with path.open("rb") as file:
            return b'"schema":"loadstone.records/' in file.readline(1 << 20).replace(b": ", b":")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def documents(path: Path) -> list[dict[str, Any]]:
    """The results in a file: one JSON object, or one a line. Raises UsageError for anything else."""
    try:
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    if not data.strip():
        raise UsageError(f"{path} is empty")
    try:
        whole = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _lines(data, path)
    if isinstance(whole, dict) and "metrics" not in whole and (several := guidellm.several(whole)):
        return several
    return [_object(whole, path, "")]


def _lines(data: bytes, path: Path) -> list[dict[str, Any]]:
    """vLLM's --append-result and SGLang write Infinity and NaN where they have no number, which is no JSON: Python's own reader takes them."""
    import json

    found = []
    text = data.decode("utf-8", "replace")
    try:
        return [_object(json.loads(text), path, "")]
    except ValueError:
        pass
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(_object(json.loads(line), path, f", line {number}"))
            except ValueError as error:
                raise UsageError(f"{path}, line {number} is not JSON ({error}); it should be a result file, or JSON lines of results") from None
    return found


def _object(value: Any, path: Path, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}{place} is no result: {looks_like(value)}")
    return value


def choose(found: list[dict[str, Any]], pick: str | None, path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Those that `pick` chooses, each with its number from 1."""
    numbered = list(enumerate(found, 1))
    if pick == "all":
        return numbered
    place = -1 if pick is None else int(pick)
    if place == 0 or not -len(found) <= place <= len(found):
        raise UsageError(f"{path} holds {len(found)} result{'s'[: len(found) > 1]}: number them from 1, or from -1 backwards, not {place}")
    return [numbered[place - 1 if place > 0 else place]]


def check_schema(document: dict[str, Any], path: Path) -> None:
    """UsageError for a result of a later version than this one reads."""
    schema = document.get("schema")
    if isinstance(schema, str) and schema.startswith(f"{RESULT_SCHEMA}/") and schema.rpartition("/")[2] not in map(str, range(int(NEWEST) + 1)):
        raise UsageError(f"{path} has the schema {schema!r}; this version of loadstone reads up to {SCHEMA}: use a newer one")


def _run(document: dict[str, Any], path: Path, mark: str) -> Run:
    check_schema(document, path)
    for reader in READERS:
        if reader.knows(document):
            run = reader.read(document, path)
            run.source += mark
            return run
    raise UsageError(f"{path} is no result that loadstone knows: {looks_like(document)}")


def looks_like(value: Any) -> str:
    """What a JSON value seems to be, for the error about it."""
    if isinstance(value, list):
        inner = value[0] if value else None
        if isinstance(inner, dict) and "benchmark" in inner:
            return "it looks like the PyTorch benchmark form; give the result file beside it"
        if isinstance(inner, dict) and "Percentiles" in inner:
            return "it looks like evalscope's percentiles; give benchmark_summary.json beside it"
        return f"it is a list of {len(value)}"
    if not isinstance(value, dict):
        return f"it is the JSON value {str(value)[:40]!r}"
    keys = set(value)
    for names, what in (
        ({"token_ns", "request_id"}, "it looks like a line of a records file whose header is missing"),
        ({"config", "backend", "workers"}, "it looks like run.json of a kept run; `loadstone decode` takes its folder"),
        ({"verdict", "rows"}, "it looks like what compare --json writes"),
        ({"messages"}, "it looks like a chat request"),
        ({"prompt"}, "it looks like a row of a data set"),
        ({"choices"}, "it looks like a server's reply"),
    ):
        if names <= keys:
            return what
    shown = ", ".join(list(value)[:5])
    return f"its keys are {shown}{' ...' if len(value) > 5 else ''}" if value else "it is an empty object"
