"""Which tokenizer a run has: the one it was told, or the model's where it can be had without fuss."""

from functools import partial
from pathlib import Path

from loadstone.config import RunConfig
from loadstone.errors import UsageError
from loadstone.tokenizer.base import Tokenizer
from loadstone.tokenizer.fast import FILE, FastTokenizer
from loadstone.tokenizer.hub import fetch, is_hub_id

MODES = ("auto", "slow", "mistral", "custom")


def load_tokenizer(config: RunConfig) -> tuple[Tokenizer | None, str | None]:
    """The run's tokenizer and a note for the report; (None, why there is none) when --model names none that can be had.

    A tokenizer that was asked for, by --tokenizer or by a --tokenizer-mode other than auto, is loaded or UsageError is raised.
    """
    if config.tokenizer_mode not in MODES:
        raise UsageError(f"--tokenizer-mode {config.tokenizer_mode} is unknown: give one of {', '.join(MODES)}")
    name = config.tokenizer or config.model
    if config.tokenizer or config.tokenizer_mode != "auto":
        if not name:
            raise UsageError(f"--tokenizer-mode {config.tokenizer_mode} needs --tokenizer")
        return _load(name, config), None
    if not name:
        return None, "no tokenizer: neither --tokenizer nor --model was given"
    if not is_hub_id(name) and not Path(name).expanduser().exists():
        return None, f"no tokenizer: --model {name} is neither a path nor a hub id; --tokenizer gives one"
    try:
        return _fast(name), None
    except UsageError as error:
        return None, f"no tokenizer: {error}"


def _load(name: str, config: RunConfig) -> Tokenizer:
    match config.tokenizer_mode:
        case "slow":
            from loadstone.tokenizer.slow import SlowTokenizer

            return SlowTokenizer(name, trust_remote_code=config.trust_remote_code)
        case "mistral":
            from loadstone.tokenizer.mistral import MistralTokenizer

            return MistralTokenizer(name)
        case "custom":
            from loadstone.tokenizer.custom import custom_tokenizer

            return custom_tokenizer(name)
        case _:
            return _fast(name)


def _fast(name: str) -> FastTokenizer:
    """The fast tokenizer of a file, a folder or a hub id (a path wins over a hub id of the same name)."""
    path = Path(name).expanduser()
    if path.is_file():
        return FastTokenizer(name, path, partial(_beside, path.parent))
    if path.is_dir():
        if file := _beside(path, FILE):
            return FastTokenizer(name, file, partial(_beside, path))
        raise UsageError(f"the folder {name} has no {FILE}; if it has another kind of tokenizer, try --tokenizer-mode slow or mistral")
    if not is_hub_id(name):
        raise UsageError(f"there is no tokenizer {name}: --tokenizer wants a {FILE}, a folder with one, or a hub id such as org/name")
    file = fetch(name, FILE)
    if file is None:
        raise UsageError(f"{name} has no {FILE} on the hub; try --tokenizer-mode slow or mistral")
    return FastTokenizer(name, file, partial(fetch, name))


def _beside(folder: Path, file: str) -> Path | None:
    path = folder / file
    return path if path.is_file() else None
