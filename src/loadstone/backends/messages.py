"""The server's own words in an error reply, whatever shape they come in."""

from typing import Any

LONGEST = 500  # characters kept
KEYS = ("message", "error", "detail", "msg", "error_msg", "error_message", "errors", "title")  # the most telling first


def server_message(error: Any) -> str:
    """One line for a person from an error as servers send it.

    OpenAI {"error": {"message", "type", "code"}}, older vLLM and SGLang {"object": "error", "message"}, FastAPI {"detail": "..."} and
    {"detail": [{"loc", "msg"}]}, plain text. Without any known key, what came, cut to length.
    """
    text = " ".join(_words(error, 0).split()) or "error without a message"
    return text if len(text) <= LONGEST else text[: LONGEST - 4] + " ..."


def _words(error: Any, depth: int) -> str:
    if isinstance(error, str):
        return error[: 4 * LONGEST]
    if isinstance(error, dict) and depth < 8:
        for key in KEYS:
            if words := _words(error.get(key), depth + 1) if error.get(key) else "":
                where = error.get("loc")
                return f"{'.'.join(map(str, where))}: {words}" if isinstance(where, list) else words
        for key in ("type", "code"):
            if isinstance(error.get(key), str | int):
                return f"{key} {error[key]}"
    if isinstance(error, list) and depth < 8:
        return "; ".join(filter(None, (_words(item, depth + 1) for item in error[:5])))
    return "" if error is None or depth >= 8 or error in ({}, []) else str(error)[: 4 * LONGEST]
