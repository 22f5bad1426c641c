"""Error texts are the server's words, and some servers repeat the key they refused: it is taken out before anything is printed or saved."""

import os

from loadstone.config import RunConfig
from loadstone.redact import MASK

KEY_VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")  # of whatever backend
SHORTEST = 4  # a shorter header value is no secret, and masking it would blot out ordinary words


def without_secrets(text: str, config: RunConfig) -> str:
    """`text` with every value of the run's headers masked, with and without its scheme (`Bearer`)."""
    for value in (*config.request_headers().values(), *filter(None, map(os.environ.get, KEY_VARIABLES))):
        for secret in (value, value.partition(" ")[2]):
            if len(secret) >= SHORTEST:
                text = text.replace(secret, MASK)
    return text
