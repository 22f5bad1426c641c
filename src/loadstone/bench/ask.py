"""One request and its whole reply, blocking: for the ready check, the list of models and the profiler, none of which are measured.

It captures an Exchange as the engine does, so that the same decoding says what a reply means; a connection of its own, closed afterwards.
"""

import contextlib
import ssl
import time
from collections.abc import Mapping

import numpy as np

from loadstone.bench.dialer import Dialer, ProxyError
from loadstone.engine.ends import End
from loadstone.engine.exchange import Exchange
from loadstone.engine.framing import Framing
from loadstone.engine.tls import tls_trouble

QUIET_AFTER_DONE_S = 0.5


def ask(
    dialer: Dialer,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes = b"",
    *,
    timeout_s: float,
    index: int = 0,
) -> Exchange:
    """Send one request and read its reply until it ends or `timeout_s` is over. Transport faults are in the Exchange, not raised."""
    fields = {"host": dialer.target.host_header, **headers, **dialer.headers, "connection": "close"}
    if body or method == "POST":
        fields["content-length"] = str(len(body))
    head = f"{method} {dialer.request_target(path)} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    until = time.monotonic() + timeout_s
    sent_ns: int | None = None
    reads: list[bytes] = []
    stamps: list[int] = []

    def exchange(end: End, detail: str = "") -> Exchange:
        return Exchange(
            index=index, worker=0, planned_ns=None, sent_ns=sent_ns, end_ns=stamps[-1] if end == End.COMPLETE and stamps else time.monotonic_ns(),
            end=end, detail=detail, raw=b"".join(reads), stamps_ns=np.array(stamps, np.int64),
            read_ends=np.cumsum([len(read) for read in reads], dtype=np.int64),
        )  # fmt: skip

    try:
        sock = dialer.open(timeout_s)
    except TimeoutError:
        return exchange(End.CONNECT_TIMEOUT, dialer.named(f"no connection within {timeout_s:g} s"))
    except ssl.SSLError as error:
        return exchange(End.NOT_CONNECTED, tls_trouble(error))
    except ProxyError as error:
        return exchange(End.NOT_CONNECTED, str(error))
    except OSError as error:
        return exchange(End.NOT_CONNECTED, dialer.named(error.strerror or str(error)))
    with sock:
        try:
            sent_ns = time.monotonic_ns()
            # A server that refuses a large body may hang up before it has all of it.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                sock.sendall(head.encode("latin-1") + body)
            framing = Framing()
            while (left := until - time.monotonic()) > 0:
                done = b"[DONE]" in b"".join(reads[-2:])
                sock.settimeout(min(left, QUIET_AFTER_DONE_S) if done else left)
                try:
                    data = sock.recv(65536)
                except TimeoutError:
                    if done:
                        return exchange(End.OPEN_AFTER_DONE)
                    break
                if not data:
                    by_close = framing.ends_by_close(b"".join(reads))
                    return exchange(End.COMPLETE if by_close else End.CLOSED, "" if by_close else "the server closed the connection")
                stamps.append(time.monotonic_ns())
                reads.append(data)
                if framing.feed(data):
                    return exchange(End.BAD_HTTP, framing.broken) if framing.broken else exchange(End.COMPLETE)
            return exchange(End.REQUEST_TIMEOUT, f"not finished within {timeout_s:g} s")
        except ssl.SSLError as error:
            return exchange(End.CLOSED if reads else End.NOT_CONNECTED, tls_trouble(error))
        except OSError as error:
            return exchange(End.RESET if isinstance(error, ConnectionError) else End.CLOSED, error.strerror or str(error))
