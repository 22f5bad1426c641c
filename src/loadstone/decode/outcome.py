"""Whether a request succeeded, and if not, why: a sentence for a person and a short kind to count by.

Success needs a 2xx status, a body that ended properly, no error of the server anywhere in it, a finish_reason that is no error, and a proper end:
[DONE] or a finish_reason. What happens on the wire after [DONE] does not matter any more.
"""

from typing import NamedTuple

from loadstone.backends.base import BAD_FINISHES, json_object
from loadstone.backends.messages import server_message
from loadstone.decode.body import Response
from loadstone.decode.reading import Reading
from loadstone.engine.exchange import End, Exchange
from loadstone.records import CANCELLED, COMPLETED, FAILED
from loadstone.redact import public_url

_TRANSPORT = {
    End.CLOSED: ("closed", "connection closed by the server before the reply was complete"),
    End.RESET: ("reset", "connection reset by the server"),
    End.NOT_CONNECTED: ("not connected", "could not connect"),
    End.CONNECT_TIMEOUT: ("connect timeout", "connect timeout: no connection in time (--connect-timeout)"),
    End.REQUEST_TIMEOUT: ("request timeout", "request timeout: the reply was not complete in time (--request-timeout)"),
    End.IDLE_TIMEOUT: ("idle timeout", "idle timeout: the server sent nothing for too long"),
    End.OPEN_AFTER_DONE: ("no end", "the body was left open, and without an end mark"),
    End.CANCELLED: ("cancelled", "cancelled: the run was stopped while this request was in flight"),
    End.NOT_SENT: ("not sent", "not sent: the run stopped before"),
    End.BAD_HTTP: ("bad http", "not an HTTP reply"),
}


UNEXPLAINED = "no finish_reason"  # the reason of a reply that ended without one, and is completed all the same
CLOCK_ERROR_NS = 2_000  # by which a kernel's stamp, converted, may seem early


class Outcome(NamedTuple):
    status: str
    reason: str = ""
    error: str = ""


def outcome(exchange: Exchange, response: Response, reading: Reading | None, has_end_mark: bool = True) -> Outcome:
    """The verdict. `reading` is None for a reply whose body says nothing about tokens (no head, or a status other than 2xx). `has_end_mark`: this
    API's streams say when they are at their end; else a token and the proper end of the body have to do.
    """
    if exchange.end == End.NOT_SENT:
        return _transport(exchange, response)
    if exchange.sent_ns is not None and len(exchange.stamps_ns) and int(exchange.stamps_ns[0]) < exchange.sent_ns - CLOCK_ERROR_NS:
        return Outcome(FAILED, "stray bytes", "bytes came before the request was sent: the server has said more than it was asked on this connection")
    if response.status is not None and not 200 <= response.status < 300:
        return Outcome(FAILED, f"http {response.status}", _refusal(response, exchange.detail))
    if reading is not None and not (exchange.end == End.CANCELLED and not reading.reply.done):
        reply = reading.reply
        broken = not reading.streamed and not _ended(exchange, response)  # half a document is no malformed document
        if reply.error is not None:
            return Outcome(FAILED, "server error", reply.error)
        if reading.malformed and not broken:
            return Outcome(FAILED, "json", reading.malformed)
        if reply.finish_reason is not None and reply.finish_reason.lower() in BAD_FINISHES:
            return Outcome(FAILED, f"finish {reply.finish_reason.lower()}", f"the server ended the reply with finish_reason {reply.finish_reason}")
        if reply.done:
            return _at_end_mark(reading)
    if exchange.end == End.CANCELLED or not _ended(exchange, response):
        return _transport(exchange, response)
    if reading is not None and (reading.reply.finished or (reading.reply.begun and not has_end_mark)):
        return Outcome(COMPLETED)
    if said := _no_stream(response.body):
        return Outcome(FAILED, "incomplete", said)
    if not has_end_mark:
        return Outcome(FAILED, "incomplete", "the stream ended without a token")
    return Outcome(FAILED, "incomplete", "the stream ended without its end mark ([DONE] or a finish_reason)")


def attempt_reason(end: End, status: int) -> str:
    """The short kind of an attempt that was followed by another; `status` is 0 where no reply came."""
    return f"http {status}" if status else _TRANSPORT[end][0]


def _no_stream(body: bytes) -> str:
    """What a body is that holds no event at all: empty, or a page of something else, in its own words; "" for one that may hold events."""
    words = body.strip()
    if not words:
        return "the reply is empty"
    if b"data:" in words or words[:1] in (b"{", b":"):
        return ""
    return f"the reply is no stream of events: {server_message(words[:4000].decode('utf-8', 'replace'))}"


def _at_end_mark(reading: Reading) -> Outcome:
    """The end mark alone proves no reply. After tokens it is taken for the end, though nobody has said why it is one: llama-cpp-python breaks a
    stream off with [DONE] when another request comes.
    """
    reply = reading.reply
    if reply.finished or not reading.streamed:
        return Outcome(COMPLETED)
    if not len(reading.ends):
        return Outcome(FAILED, "incomplete", "the stream said [DONE] without a token and without a finish_reason")
    return Outcome(COMPLETED, UNEXPLAINED)


def _ended(exchange: Exchange, response: Response) -> bool:
    """Whether the body came to its proper end."""
    return not response.fault and (response.complete or (response.until_close and exchange.end == End.COMPLETE))


def _transport(exchange: Exchange, response: Response) -> Outcome:
    reason, error = _TRANSPORT.get(exchange.end, ("incomplete", "the reply is incomplete"))
    if response.fault:
        coding = response.status is not None and "content-encoding" in response.headers
        reason, error = ("encoding", response.fault) if coding else ("bad http", f"broken HTTP: {response.fault}")
    if exchange.detail.startswith("TLS"):
        reason = "tls"
    if exchange.detail:
        error += f" ({exchange.detail})"
    return Outcome(CANCELLED if exchange.end in (End.CANCELLED, End.NOT_SENT) else FAILED, reason, error)


def _refusal(response: Response, detail: str = "") -> str:
    """Status and the server's own words; for a redirect, where it points."""
    said = f"HTTP {response.status}"
    if location := response.headers.get("location", "").strip():
        return f"{said}: redirected to {public_url(location[:500])}{f' ({detail})' if detail else ''}"
    if response.status == 407:
        return f"{said}: the proxy wants credentials (user:password@ in its URL)"
    body = response.body.strip()
    if not body:
        return f"{said} {response.phrase}".rstrip()
    try:
        return f"{said}: {server_message(json_object(body))}"
    except ValueError:
        return f"{said}: {server_message(body[:4000].decode('utf-8', 'replace'))}"
