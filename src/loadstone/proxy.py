"""Which proxy the calls of a run go through: one rule for the load and for every question before and after it. docs/http.md states it."""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from loadstone.errors import UsageError
from loadstone.redact import public_proxy
from loadstone.target import Target, basic_credentials

NONE = "none"  # as --proxy's value: no proxy, whatever the environment says


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy. `url` is its address without credentials; `source` is what named it: --proxy or a variable."""

    host: str
    port: int
    url: str
    source: str
    authorization: str | None = None  # for Proxy-Authorization


def proxy_of(text: str, source: str) -> Proxy:
    """The proxy that `text` names: http://[user:password@]host[:port], the scheme may be missing. Raises UsageError naming `source`."""
    shown = f"{source} {public_proxy(text)!r}"
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{shown} is no valid URL: {error}") from None
    if parts.scheme != "http":
        kind = "a proxy that is itself spoken to by TLS" if parts.scheme == "https" else f"a {parts.scheme} proxy"
        raise UsageError(
            f"{shown}: {kind} cannot be used; name an HTTP proxy, http://host:port (https servers are reached through it by CONNECT), or none"
        )
    if not parts.hostname or re.search(r"[\x00-\x20\x7f]", url) or not parts.hostname.isascii() or port == 0:
        raise UsageError(f"{shown} is no proxy: give http://host:port, or none")
    number = port or 80
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Proxy(parts.hostname, number, f"http://{name}:{number}", source, basic_credentials(url))


def proxy_for(target: Target, flag: str | None, environment: Mapping[str, str] = os.environ) -> Proxy | None:
    """The proxy for calls to `target`, or None. `flag` is --proxy: it wins over the environment, NO_PROXY included. Raises UsageError."""
    if flag is not None:
        return None if flag.strip().lower() == NONE else proxy_of(flag, "--proxy")
    name = f"{target.scheme}_proxy"
    found = next((variable for variable in (name, name.upper()) if variable in environment), "")
    if found == "HTTP_PROXY" and "REQUEST_METHOD" in environment:
        return None  # in a CGI process a visitor's Proxy header sets this one
    value = environment.get(found, "").strip()
    if not value or is_loopback(target.host):
        return None
    excluded = environment.get("no_proxy", environment.get("NO_PROXY", ""))
    return None if is_excluded(target, excluded) else proxy_of(value, found)


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine itself, which a proxy elsewhere could not reach."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def is_excluded(target: Target, no_proxy: str) -> bool:
    """Whether NO_PROXY names the target: `*`, a host or domain (and all below it, a leading dot or not), an address, a network (10.0.0.0/8), each of
    them with :port if only that port is meant.
    """
    host = target.host.rstrip(".").lower()
    address = _address(host)
    for entry in re.split(r"[\s,]+", no_proxy.lower()):
        name, port = _without_port(entry)
        if not name or (port and port != target.port):
            continue
        if name == "*":
            return True
        if address is not None:
            try:
                if address in ipaddress.ip_network(name, strict=False):
                    return True
            except ValueError:
                continue
        elif host == (name := name.removeprefix("*").strip(".")) or (name and host.endswith("." + name)):
            return True
    return False


def _without_port(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        port = rest.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, port = entry.partition(":")
    else:
        return entry, None
    return name, int(port) if port.isdigit() else None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
