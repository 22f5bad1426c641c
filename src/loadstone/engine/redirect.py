"""Redirects in the middle of a run: 307 and 308, which keep method and body, are followed where they stay on the server that was asked.

To another server they are not: the headers of a request carry its credentials. Such a reply is captured as it is, and decoding names the place.
"""

import re
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from loadstone.engine.framing import final_head
from loadstone.engine.settings import Route

FOLLOWED = (307, 308)
MOST_HOPS = 5  # of one request
PORTS = {"http": 80, "https": 443}
_LOCATION = re.compile(rb"(?i)\r\nlocation:[ \t]*([^\r\n]*)")


class Moved(NamedTuple):
    """Where a request has been redirected to: what its request line asks for now, and how often that happened."""

    target: bytes
    hops: int

    def over(self, request: bytes) -> bytes:
        """`request` with this target in its first line."""
        method, _, rest = request.split(b" ", 2)
        return b"%b %b %b" % (method, self.target, rest)


def origin_of(url: str) -> str:
    """scheme://host:port of a URL, with the port that is the scheme's own where it names none; "" for what is no such URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname and parts.scheme in PORTS else ""


def location_of(head: bytes) -> str:
    """The Location header of a reply, "" if it has none."""
    found = _LOCATION.search(head)
    return found[1].decode("latin-1").strip() if found else ""


def moved(reply: bytes, request: bytes, before: Moved | None, route: Route) -> Moved | None:
    """Where the reply sends its request; None if that is not to be followed. `request` begins with the line as it was first sent."""
    hops = before.hops if before else 0
    location = location_of(final_head(reply) + b"\r\n")
    if not location or not route.origin or hops >= MOST_HOPS:
        return None
    asked = (before.target if before else request.split(b" ", 2)[1]).decode("latin-1")
    try:
        url = urljoin(asked if route.absolute else route.origin + asked, location)
        parts = urlsplit(url)
    except ValueError:
        return None
    if origin_of(url) != route.origin or re.search(r"[^\x21-\x7e]", url):
        return None
    path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
    return Moved((parts._replace(fragment="").geturl() if route.absolute else path).encode("ascii"), hops + 1)
