"""Loadstone load-tests servers of large language models and reports what their users would feel."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["LoadstoneError", "Result", "RunConfig", "run"]

if TYPE_CHECKING:
    from loadstone.bench.run import Result, run
    from loadstone.config import RunConfig
    from loadstone.errors import LoadstoneError

_HOMES = {"RunConfig": "loadstone.config", "LoadstoneError": "loadstone.errors", "Result": "loadstone.bench.run", "run": "loadstone.bench.run"}


def __getattr__(name: str) -> Any:
    """Load the public names on first use, so that `loadstone --help` stays fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'loadstone' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
