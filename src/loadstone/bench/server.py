"""What is asked of the server outside the measured time: is it ready, which model does it serve, start and stop its profiler."""

import ssl
import time
from collections.abc import Callable, Mapping

import msgspec

from loadstone import __version__
from loadstone.backends.base import Backend
from loadstone.bench.ask import ask
from loadstone.config import RunConfig
from loadstone.decode.http import read_reply
from loadstone.decode.reply import decode
from loadstone.engine.ends import End
from loadstone.errors import NotReadyError, UsageError
from loadstone.records import COMPLETED, Record
from loadstone.target import Target

PAUSE_S = 1.0  # between two tries
PROBE_S = 60.0  # for a question that needs no generation
HOPELESS = {400, 401, 403, 404, 405, 410, 413, 415, 422, 501}  # the server has understood, and will not


def request_headers(config: RunConfig, backend: Backend) -> dict[str, str]:
    """The headers of every call of the run, by their names in small letters; those a person asked for win over our own and the backend's."""
    own = {"user-agent": f"loadstone/{__version__}", "accept": "*/*", "content-type": backend.content_type}
    return own | {name.lower(): value for name, value in config.request_headers(backend.headers, backend.key_variable).items()}


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
}


def _sentence(text: str) -> str:
    """`text` with one full stop at its end."""
    return text.rstrip().rstrip(".") + "."


class Server:
    """One server, as the run's own questions reach it."""

    def __init__(self, target: Target, headers: Mapping[str, str], tls: ssl.SSLContext | None = None) -> None:
        self.target, self.headers, self.tls = target, headers, tls

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
            headers = {**self.headers, id_header(prefix): f"{prefix}-ready"}
            left = max(until - time.monotonic(), 0.001)
            exchange = ask(self.target, "POST", self.target.path_of(endpoint), headers, body, timeout_s=left, tls=self.tls)
            record = decode(exchange, backend)
            if record.status == COMPLETED:
                return record
            self._give_up_on(record, endpoint)
            if time.monotonic() + PAUSE_S >= until:
                asked = "" if record.http_status else " Is it running, and is this its address?"
                raise NotReadyError(
                    f"the server at {self.target.url_of(endpoint)} was not ready within {timeout_s:g} s: {_sentence(record.error)}{asked} "
                    "--ready-check-timeout-sec sets how long to wait."
                )
            if record.error != told:
                told = record.error
                tell(f"waiting for {self.target.url_of(endpoint)}: {told}")
            time.sleep(PAUSE_S)

    def _give_up_on(self, record: Record, endpoint: str) -> None:
        """Raise when trying again cannot help."""
        url, status = self.target.url_of(endpoint), record.http_status
        if status in HOPELESS:
            if status == 400 and ":" not in record.error:  # no word of why
                raise NotReadyError(f"the server refused the test request to {url}: {_sentence(record.error)} {WORDLESS}")
            remedy = REMEDIES.get(status or 0, "The test request is a prompt of the workload's kind; --ready-check-timeout-sec 0 skips it.")
            raise NotReadyError(f"the server refused the test request to {url}: {_sentence(record.error)} {remedy}")
        if record.reason == "tls" or "certificate" in record.error.lower():
            raise NotReadyError(f"no secure connection to {url}: {_sentence(record.error)}")

    def model(self, timeout_s: float, tell: Callable[[str], None]) -> str:
        """The one model that the server lists. Raises UsageError when it lists none or several: --model must then say which; NotReadyError when it
        does not answer in time, or refuses.
        """
        until = time.monotonic() + timeout_s
        url = self.target.url_of("/v1/models")
        told = False
        while True:
            exchange = ask(self.target, "GET", self.target.path_of("/v1/models"), self.headers, timeout_s=PROBE_S, tls=self.tls)
            reply = read_reply(exchange)
            if reply.status is not None and reply.status < 500:
                break
            trouble = f"HTTP {reply.status}" if reply.status else exchange.detail
            if time.monotonic() + PAUSE_S >= until:
                raise NotReadyError(f"no --model was given, and {url} does not list any: {_sentence(trouble)} Is the server running?")
            if not told:
                told = True
                tell(f"waiting for {url}, since no --model was given: {trouble}")
            time.sleep(PAUSE_S)
        if reply.status in (401, 403):
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
        exchange = ask(self.target, "POST", self.target.path_of(f"/{action}"), self.headers, timeout_s=PROBE_S, tls=self.tls)
        if exchange.end not in (End.COMPLETE, End.CLOSED) or not exchange.raw:
            return f"{action}: {exchange.detail}"
        status = read_reply(exchange).status
        return None if status is not None and 200 <= status < 300 else f"{action}: HTTP {status}"


def tls_context(target: Target) -> ssl.SSLContext | None:
    """How https is spoken: verified, by the system's authorities. None for plain http."""
    return ssl.create_default_context() if target.scheme == "https" else None
