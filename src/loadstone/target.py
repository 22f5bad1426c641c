"""Where requests go: a server's address, and the path of an endpoint on it."""

import re
from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from loadstone.errors import UsageError
from loadstone.redact import public_url

DEFAULT_PORTS = {"http": 80, "https": 443}
PATH_SAFE = "/%:@!$&'()*+,;=~-._"  # RFC 3986 path characters, and % so that what is escaped already stays as it is


@dataclass(frozen=True, slots=True)
class Target:
    """One server. `host` is what to connect to (an IPv6 address without brackets); `host_header` is what HTTP wants to hear (with them, and with
    the port where it is not the scheme's own). `base_path` is "" or starts with a slash and does not end with one.
    """

    scheme: str
    host: str
    port: int
    base_path: str
    host_header: str

    def path_of(self, endpoint: str) -> str:
        """The request path of `endpoint`: base path and endpoint joined by one slash, no part of either lost, its query kept."""
        path, question, query = endpoint.partition("?")
        return self.base_path + "/" + quote(path.lstrip("/"), safe=PATH_SAFE) + question + quote(query, safe=PATH_SAFE + "?")

    def url_of(self, endpoint: str) -> str:
        """The whole URL of `endpoint`, for messages. It holds no credentials."""
        return f"{self.scheme}://{self.host_header}{self.path_of(endpoint)}"

    @property
    def origin(self) -> str:
        """scheme://host:port: what two places have in common that may see the same credentials."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """host:port as CONNECT names it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(base_url: str | None, host: str, port: int) -> Target:
    """The server at `base_url`, else at http://host:port. Raises UsageError naming --base-url, --host or --port."""
    if base_url is None:
        name = _host_name(host)
        return Target("http", name, _port_number(port, "--port"), "", _host_header("http", name, port))
    shown = f"--base-url {public_url(base_url)!r}"
    if not re.match(r"(?i)https?://", base_url):
        raise UsageError(f"{shown} must start with http:// or https://")
    if re.search(r"[\x00-\x20\x7f]", base_url):
        raise UsageError(f"{shown} holds a blank or a control character")
    try:
        parts = urlsplit(base_url)
        number = parts.port
    except ValueError as error:
        raise UsageError(f"{shown} is no valid URL: {error}") from None
    if not parts.hostname:
        raise UsageError(f"{shown} names no host")
    if parts.query or parts.fragment:
        raise UsageError(f"{shown} may not hold a query or a fragment: put the query into --endpoint")
    name = _ascii(parts.hostname, shown)
    number = DEFAULT_PORTS[parts.scheme] if number is None else _port_number(number, shown)
    return Target(parts.scheme, name, number, quote(parts.path.rstrip("/"), safe=PATH_SAFE), _host_header(parts.scheme, name, number))


def basic_credentials(base_url: str | None) -> str | None:
    """The Authorization header that `user:password@` in the base URL stands for, or None."""
    parts = urlsplit(base_url or "")
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + b64encode(pair.encode()).decode()


def _host_name(host: str) -> str:
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if "/" in name:
        raise UsageError(f"--host {public_url(host)!r} must be a name or an address; give a URL with --base-url")
    if name.count(":") == 1:
        raise UsageError(f"--host {host!r} must not hold the port: give it with --port")
    if not name or re.search(r"[\x00-\x20\x7f@?#\[\]]", name):
        raise UsageError(f"--host {host!r} is no name or address")
    return _ascii(name, f"--host {host!r}")


def _ascii(name: str, shown: str) -> str:
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode()
    except UnicodeError:
        raise UsageError(f"{shown} is no valid host name") from None


def _port_number(port: int, shown: str) -> int:
    if not 1 <= port <= 65535:
        raise UsageError(f"{shown}: the port must be from 1 to 65535, not {port}")
    return port


def _host_header(scheme: str, name: str, port: int) -> str:
    host = f"[{name.partition('%')[0]}]" if ":" in name else name  # the zone of a link-local address is this machine's own affair
    return host if port == DEFAULT_PORTS[scheme] else f"{host}:{port}"
