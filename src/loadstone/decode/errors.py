"""Error texts as a person reads them: which URL they are about, and without the secrets that some servers repeat."""

import re
from collections.abc import Iterable

from loadstone.redact import MASK

_STATUS = re.compile(r"HTTP \d{3}[^:]*")


def with_url(error: str, url: str) -> str:
    """`error` with the URL that it is about: after the status of a reply, else before all. Unchanged without either."""
    if not error or not url:
        return error
    if status := _STATUS.match(error):
        return f"{status[0]} from {url}{error[status.end() :]}"
    return f"{url}: {error}"


def masked(text: str, secrets: Iterable[str]) -> str:
    """`text` with every one of `secrets` blotted out."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text
