"""The servers of a run, one or several: each is asked what one would be, before and after the load."""

import contextlib
from collections.abc import Callable, Iterator

from loadstone.backends.base import Backend
from loadstone.bench.server import Place, Server
from loadstone.config import RunConfig
from loadstone.errors import NotReadyError, UsageError


class Servers:
    """In the order in which they were given: that is their number in records and results. `places` are where the load goes, once that is settled."""

    def __init__(self, config: RunConfig, backend: Backend) -> None:
        """Raises UsageError for what cannot be: a certificate's file, a proxy."""
        self._config, self._backend = config, backend
        urls: list[str | None] = [*config.base_urls]
        self._servers = [Server(config, backend, url) for url in urls or [None]]
        self.places: list[Place] = []

    def __len__(self) -> int:
        return len(self._servers)

    def resolve(self) -> None:
        """Look up all names. Raises NotReadyError for one that has no address."""
        for server in self._servers:
            server.dialer.resolve()

    def model(self, tell: Callable[[str], None]) -> str:
        """The one model that they list, and the same on all. Raises UsageError where there is no such: --model must then say which."""
        found = {server.target.url_of(""): server.model(self._config.ready_check_timeout_sec, tell) for server in self._servers}
        first, *others = found.items()
        for url, name in others:
            if name != first[1]:
                raise UsageError(
                    f"the servers have different models: {first[0]} lists {first[1]!r} and {url} lists {name!r}. Give --model if they take the same "
                    "name, or test them one by one"
                )
        return first[1]

    def ready(self, endpoint: str, body: bytes, tell: Callable[[str], None]) -> None:
        """Try a test request on each until it succeeds; each has the whole time. Raises NotReadyError naming the one that will not."""
        prefix, timeout_s = self._config.request_id_prefix, self._config.ready_check_timeout_sec
        for server in self._servers:
            server.ready(self._backend, endpoint, body, prefix, timeout_s, tell)

    def settle(self, endpoint: str) -> None:
        """Decide where on each the load goes, and which of its addresses is first."""
        self.places = [server.place or server.place_of(endpoint) for server in self._servers]
        for place in self.places:
            place.dialer.settle(self._config.connect_timeout)

    def start_profile(self) -> None:
        """Start the profiler on all. Raises NotReadyError if one does not; those that did are stopped again."""
        for number, server in enumerate(self._servers):
            if problem := server.profile("start_profile"):
                for started in self._servers[:number]:
                    with contextlib.suppress(OSError):
                        started.profile("stop_profile")
                raise NotReadyError(f"--profile: the server{self._name(server)} did not start its profiler: {problem}")

    def stop_profile(self) -> Iterator[str]:
        """Stop the profiler on all. Says which did not, and why."""
        for server in self._servers:
            if problem := server.profile("stop_profile"):
                yield f"--profile: the server{self._name(server)} did not stop its profiler: {problem}"

    def notes(self) -> list[str]:
        """What lies between here and them."""
        notes = [note for server, place in zip(self._servers, self.places, strict=True) for note in (server.note, *place.dialer.notes()) if note]
        return list(dict.fromkeys(notes))

    def _name(self, server: Server) -> str:
        return f" {server.target.url_of('')}" if len(self) > 1 else ""
