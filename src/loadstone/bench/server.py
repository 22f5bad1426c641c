"""What is asked of the server outside the measured time: is it ready, which model does it serve, start and stop its profiler."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from loadstone import __version__
from loadstone.backends.base import Backend
from loadstone.bench.ask import ask
from loadstone.bench.dialer import Dialer
from loadstone.config import RunConfig
from loadstone.decode.http import read_reply
from loadstone.decode.reply import decode
from loadstone.engine.ends import End
from loadstone.engine.exchange import Exchange
from loadstone.engine.redirect import FOLLOWED, MOST_HOPS, location_of, origin_of
from loadstone.errors import NotReadyError, UsageError
from loadstone.records import COMPLETED, Record
from loadstone.redact import public_url
from loadstone.target import PATH_SAFE, target_of

PAUSE_S = 1.0  # between two tries
PROBE_S = 60.0  # for a question that needs no generation
HOPELESS = {400, 401, 403, 404, 405, 407, 410, 413, 415, 422, 501}  # the server has understood, and will not
_REFUSED_TUNNEL = "answered CONNECT with 4"


def request_headers(config: RunConfig, backend: Backend, base_url: str | None = None) -> dict[str, str]:
    """The headers of every call to a server, by their names in small letters; those a person asked for win over our own and the backend's."""
    asked = config.request_headers(backend.headers, backend.key_variable, base_url=base_url)
    return _own_headers(backend) | {name.lower(): value for name, value in asked.items()}


def _own_headers(backend: Backend) -> dict[str, str]:
    return {"user-agent": f"loadstone/{__version__}", "accept": "*/*", "content-type": backend.content_type}


def id_header(prefix: str) -> str:
    """The header that numbers the requests. With --request-id-prefix '' it is one that no server reads: some want UUIDs in x-request-id."""
    return "x-request-id" if prefix else "x-loadstone-request"


WORDLESS = (
    "It does not say why. Some servers, llama-cpp-python's among them, refuse an x-request-id that is no UUID in this way: "
    "--request-id-prefix '' sends none."
)
REMEDIES = {
    401: "Give the key: with --api-key, in OPENAI_API_KEY (backend anthropic: ANTHROPIC_API_KEY), or with --header Authorization='Bearer ...'.",
    403: "The key that was sent may not use this model or path.",
    404: "Is the path right (--base-url, --endpoint) and the model one that the server has (--model, --served-model-name)?",
    405: "Is the path right (--endpoint)?",
    407: "It is the proxy that wants credentials: give user:password@ in its URL (--proxy, HTTP_PROXY).",
}


def _sentence(text: str) -> str:
    """`text` with one full stop at its end."""
    return text.rstrip().rstrip(".") + "."


class Place(NamedTuple):
    """Where requests go: a path on a server, and the headers that it may see."""

    dialer: Dialer
    path: str
    headers: dict[str, str]

    @property
    def url(self) -> str:
        return f"{self.dialer.target.scheme}://{self.dialer.target.host_header}{self.path}"

    @property
    def shown(self) -> str:
        """The URL for error texts: without credentials, and with what lies on the way."""
        proxy, uds = self.dialer.proxy, self.dialer.config.uds
        way = f" through the proxy {proxy.url} ({proxy.source})" if proxy else f" (--uds {uds})" if uds else ""
        return public_url(self.url) + way

    @property
    def target(self) -> str:
        """The server's own URL, as records name it."""
        return self.dialer.target.url_of("")


class Server:
    """One server, as the run's own questions reach it. `place` is where the load goes, once the server was found ready."""

    def __init__(self, config: RunConfig, backend: Backend, base_url: str | None = None) -> None:
        """The server at `base_url`, else at --host and --port. Raises UsageError for what cannot be: a certificate's file, a proxy."""
        self.target = target_of(base_url, config.host, config.port)
        self.dialer = Dialer(config, self.target)
        self.headers = request_headers(config, backend, base_url)
        self._abroad = _own_headers(backend) | backend.abroad  # what another host may see: nothing that a person gave
        self.place: Place | None = None
        self.note = ""  # how `place` is another one than was asked for

    def place_of(self, endpoint: str) -> Place:
        """Where `endpoint` is before anybody is asked."""
        return Place(self.dialer, self.target.path_of(endpoint), self.headers)

    def _ask(self, method: str, endpoint: str, more: Mapping[str, str], body: bytes = b"", *, timeout_s: float) -> tuple[Exchange, Place]:
        """Ask, and follow redirects. Returns the last reply and where it came from."""
        place, until = self.place_of(endpoint), time.monotonic() + timeout_s
        for hops in range(MOST_HOPS + 1):
            exchange = ask(place.dialer, method, place.path, {**place.headers, **more}, body, timeout_s=max(until - time.monotonic(), 0.001))
            moved = self._moved(place, exchange, method) if hops < MOST_HOPS else None
            if moved is None:
                break
            place = moved
        return exchange, place

    def _moved(self, place: Place, exchange: Exchange, method: str) -> Place | None:
        """Where a reply sends the request; None if it does not, or to no place that can be gone to."""
        status = read_reply(exchange).status if exchange.raw else None
        if status not in (FOLLOWED if method == "POST" else (*FOLLOWED, 301, 302, 303)):
            return None
        location = location_of(exchange.raw.partition(b"\r\n\r\n")[0] + b"\r\n")
        try:
            url = urlsplit(urljoin(place.url, location))
            origin = origin_of(url.geturl())
            if not location or not origin:
                return None
            path = quote(url._replace(scheme="", netloc="", fragment="").geturl() or "/", safe=PATH_SAFE + "?")
            if origin == place.dialer.target.origin:
                return place._replace(path=path)
            if self.dialer.config.uds:
                return None
            name = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
            target = target_of(f"{url.scheme}://{name}{f':{url.port}' if url.port else ''}", "", 1)
        except (ValueError, UsageError):
            return None
        config = msgspec.structs.replace(self.dialer.config, server_name=None, client_cert=None, client_key=None)
        return Place(Dialer(config, target), path, self._abroad)

    def ready(
        self,
        backend: Backend,
        endpoint: str,
        body: bytes,
        prefix: str,
        timeout_s: float,
        tell: Callable[[str], None],
    ) -> Record:
        """Try one test request until it succeeds. Raises NotReadyError with the server's own words when it will not, or when the time is over."""
        until = time.monotonic() + timeout_s
        told = ""
        while True:
            headers = {id_header(prefix): f"{prefix}-ready"}
            left = max(until - time.monotonic(), 0.001)
            exchange, place = self._ask("POST", endpoint, headers, body, timeout_s=left)
            record = decode(exchange, backend, request=body)
            if record.status == COMPLETED:
                self._go_to(place, endpoint)
                return record
            self._give_up_on(record, place)
            if time.monotonic() + PAUSE_S >= until:
                asked = "" if record.http_status else " Is it running, and is this its address?"
                raise NotReadyError(
                    f"the server at {place.shown} was not ready within {timeout_s:g} s: {_sentence(record.error)}{asked} "
                    "--ready-check-timeout-sec sets how long to wait."
                )
            if record.error != told:
                told = record.error
                tell(f"waiting for {place.shown}: {told}")
            time.sleep(PAUSE_S)

    def _go_to(self, place: Place, endpoint: str) -> None:
        """The load goes where the test request was answered."""
        self.place = place
        if place.url != (asked := self.place_of(endpoint).url):
            self.note = f"{asked} redirects to {place.url}: requests went straight there"
            if place.dialer is not self.dialer:
                self.note += ", without the credentials, --header and client certificate, which are for the first host alone"

    def _give_up_on(self, record: Record, place: Place) -> None:
        """Raise when trying again cannot help."""
        url, status = place.shown, record.http_status
        if status is not None and 300 <= status < 400:
            raise NotReadyError(
                f"the test request to {url} was not answered: {_sentence(record.error)} Give that place with --base-url and --endpoint."
            )
        if status in HOPELESS:
            if status == 400 and ":" not in record.error:  # no word of why
                raise NotReadyError(f"the server refused the test request to {url}: {_sentence(record.error)} {WORDLESS}")
            remedy = REMEDIES.get(status or 0, "The test request is a prompt of the workload's kind; --ready-check-timeout-sec 0 skips it.")
            if status in (401, 403) and place.dialer is not self.dialer:
                remedy = (
                    "The request was redirected there, and no other host is sent your credentials: give that one with --base-url if it may have them."
                )
            raise NotReadyError(f"the server refused the test request to {url}: {_sentence(record.error)} {remedy}")
        if record.reason == "tls":
            raise NotReadyError(f"no secure connection to {url}: {_sentence(record.error)}")
        if _REFUSED_TUNNEL in record.error:
            raise NotReadyError(f"no way to {url}: {_sentence(record.error)}")

    def model(self, timeout_s: float, tell: Callable[[str], None]) -> str:
        """The one model that the server lists. Raises UsageError when it lists none or several: --model must then say which; NotReadyError when it
        does not answer in time, or refuses.
        """
        until = time.monotonic() + timeout_s
        url = self.target.url_of("/v1/models")
        told = False
        while True:
            exchange, _ = self._ask("GET", "/v1/models", {}, timeout_s=PROBE_S)
            reply = read_reply(exchange)
            if reply.status is not None and reply.status < 500:
                break
            trouble = f"HTTP {reply.status}" if reply.status else exchange.detail
            if exchange.detail.startswith("TLS") or _REFUSED_TUNNEL in exchange.detail:
                raise NotReadyError(f"no --model was given, and there is no way to {url}: {_sentence(trouble)}")
            if time.monotonic() + PAUSE_S >= until:
                raise NotReadyError(f"no --model was given, and {url} does not list any: {_sentence(trouble)} Is the server running?")
            if not told:
                told = True
                tell(f"waiting for {url}, since no --model was given: {trouble}")
            time.sleep(PAUSE_S)
        if reply.status in (401, 403, 407):
            raise NotReadyError(f"the server refused {url} (HTTP {reply.status}). {REMEDIES[reply.status]}")
        try:
            names = [entry["id"] for entry in msgspec.json.decode(reply.body)["data"]] if reply.status == 200 else []
        except (msgspec.DecodeError, KeyError, TypeError):
            names = []
        if len(names) == 1:
            return str(names[0])
        listed = f"lists {len(names)} models ({', '.join(map(str, names[:5]))})" if names else f"lists none (HTTP {reply.status})"
        raise UsageError(f"give --model: {url} {listed}")

    def profile(self, action: str) -> str | None:
        """POST start_profile or stop_profile. None if the server did it, else why not."""
        exchange, _ = self._ask("POST", f"/{action}", {}, timeout_s=PROBE_S)
        if exchange.end not in (End.COMPLETE, End.CLOSED) or not exchange.raw:
            return f"{action}: {exchange.detail}"
        status = read_reply(exchange).status
        return None if status is not None and 200 <= status < 300 else f"{action}: HTTP {status}"
