"""Error texts are the server's words, and some servers repeat the key they refused: it is taken out before anything is printed or saved."""

import os
from urllib.parse import unquote, urlsplit

from loadstone.config import RunConfig
from loadstone.redact import MASK
from loadstone.target import basic_credentials

KEY_VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")  # of whatever backend
PROXY_VARIABLES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY")
SHORTEST = 4  # a shorter header value is no secret, and masking it would blot out ordinary words


def secrets_of(config: RunConfig) -> list[str]:
    """What may stand in no output: values of headers, with and without their scheme (`Bearer`), keys, and the passwords in URLs of servers and
    proxies, each in the form in which it is sent and in the one in which it was given. The longest first: one may hold another.
    """
    values = [*config.request_headers().values(), *filter(None, map(os.environ.get, KEY_VARIABLES))]
    proxies = [config.proxy, *map(os.environ.get, PROXY_VARIABLES)]
    for url in (*config.base_urls, *(proxy if "://" in proxy else f"http://{proxy}" for proxy in proxies if proxy)):
        try:
            given = urlsplit(url).password
            values += [basic_credentials(url) or "", given or "", unquote(given or "")]
        except ValueError:
            continue
    found = {secret for value in values for secret in (value, value.partition(" ")[2]) if len(secret) >= SHORTEST}
    return sorted(found, key=len, reverse=True)


def without_secrets(text: str, config: RunConfig) -> str:
    """`text` with all of them masked."""
    for secret in secrets_of(config):
        text = text.replace(secret, MASK)
    return text
