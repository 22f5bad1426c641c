"""Files of the Hugging Face hub: from its cache on this machine without any import or network, else from the hub itself."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from loadstone.errors import UsageError

REACH_TIMEOUT_S = 3.0  # how long a hub that does not answer may hold up a run
TOGGLES = ("1", "ON", "YES", "TRUE")


def cache_folder() -> Path:
    """Where the hub's library keeps its files: HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub."""
    given = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(given or Path(home) / "hub").expanduser()


def is_hub_id(name: str) -> bool:
    """Whether `name` looks like organisation/name."""
    parts = name.split("/")
    return len(parts) == 2 and all(part and part.strip(".") and all(letter.isalnum() or letter in "-_." for letter in part) for part in parts)


def cached(hub_id: str, file: str) -> Path | None:
    """`file` of a hub repository in the cache: of the commit that `main` pointed to when it was last looked at, else of the newest one there."""
    repository = cache_folder() / f"models--{hub_id.replace('/', '--')}"
    try:
        main = repository / "snapshots" / (repository / "refs" / "main").read_text().strip() / file
        if main.is_file():
            return main
        found = [path for path in repository.glob(f"snapshots/*/{file}") if path.is_file()]
    except OSError:
        return None
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def fetch(hub_id: str, file: str) -> Path | None:
    """`file` of a hub repository, from the cache or downloaded into it; None where the repository has no such file.

    Raises UsageError with the remedy when the hub cannot be asked or has no such repository. A hub out of reach costs a few seconds, not the
    library's retries.
    """
    if path := cached(hub_id, file):
        return path
    remedy = "give --tokenizer a local folder with a tokenizer.json"
    if any(os.environ.get(name, "").upper() in TOGGLES for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")):
        raise UsageError(f"{hub_id} is not in the hub's cache ({cache_folder()}) and the hub is switched off (HF_HUB_OFFLINE); {remedy}")
    from huggingface_hub import constants, errors, hf_hub_download

    utils: Any = import_module("huggingface_hub.utils")
    showed = not utils.are_progress_bars_disabled()
    utils.disable_progress_bars()
    try:
        utils.get_session().head(constants.ENDPOINT, timeout=REACH_TIMEOUT_S)
        return Path(hf_hub_download(hub_id, file, etag_timeout=REACH_TIMEOUT_S))
    except errors.GatedRepoError:
        raise UsageError(f"{hub_id} is gated on the hub: ask for access there and log in (hf auth login), or {remedy}") from None
    except errors.RepositoryNotFoundError:
        raise UsageError(f"the hub has no repository {hub_id} that may be read without a login (hf auth login); or {remedy}") from None
    except errors.LocalEntryNotFoundError as error:
        raise UsageError(f"{file} of {hub_id} could not be had from the hub ({_line(error)}); {remedy}") from None
    except errors.EntryNotFoundError:
        return None
    except Exception as error:  # the hub's library has used two HTTP libraries, each with errors of its own
        raise UsageError(f"the hub ({constants.ENDPOINT}) cannot be reached ({_line(error)}); {remedy}") from None
    finally:
        if showed:
            utils.enable_progress_bars()


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
