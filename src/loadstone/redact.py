"""Taking secrets out of what is printed or saved: header values, API keys, credentials and keys in URLs."""

import re
from collections.abc import Sequence

MASK = "***"
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]*@")  # greedy to the last @ before the path: a password may hold one itself
_QUERY_SECRET = re.compile(r"(?i)([?&][^=&#\s]*(?:key|token|secret|password|signature|sig|auth)[^=&#\s]*=)[^&#\s]+")
_HEADER_FLAG, _KEY_FLAG, _PROXY_FLAG = "--header", "--api-key", "--proxy"


def public_url(text: str) -> str:
    """`text` with `user:password@` and the values of query parameters that look like keys masked. A text without a URL comes back as it is."""
    return _QUERY_SECRET.sub(rf"\g<1>{MASK}", _CREDENTIALS.sub(f"{MASK}@", text))


def public_proxy(text: str) -> str:
    """The URL of a proxy, which may lack its scheme, without `user:password@`."""
    return public_url(text) if "://" in text or "@" not in text else f"{MASK}@{text.rpartition('@')[2]}"


def public_header(text: str) -> str:
    """KEY=VALUE without its value. A text without `=` is masked whole: it may be half of a secret that was not quoted."""
    name, equals, _ = text.partition("=")
    return f"{name}={MASK}" if equals else MASK


def public_command(argv: Sequence[str]) -> list[str]:
    """The command line with every secret masked: safe to print and to save."""
    command: list[str] = []
    flag = ""
    for word in argv:
        if word.startswith("--"):
            spelled, equals, value = word.partition("=")
            flag = spelled.replace("_", "-")
            command.append(f"{spelled}={_public_value(flag, value)}" if equals else word)
        else:
            command.append(_public_value(flag, word))
    return command


def _public_value(flag: str, value: str) -> str:
    if flag == _HEADER_FLAG:
        return public_header(value)
    if flag == _PROXY_FLAG:
        return public_proxy(value)
    return MASK if flag == _KEY_FLAG else public_url(value)
