"""Values from the wire, which may be anything: each as the type that is due, or as nothing."""

import json
from typing import Any

MOST_TOKENS = 10**9  # of one request: what states more states no count. So sums stay exact as 64-bit floats, too


def text(value: Any) -> str:
    """`value` if it is a text, else ""."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int | None:
    """`value` if it is a count of tokens, else None. JSON does not tell 7.0 from 7, nor do some gateways."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None


def mapping(value: Any) -> dict[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in `value` if it is a list, else none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def compact(value: Any) -> str:
    """`value` as compact JSON; "" for an empty one. Raises ValueError for one that is nested too deeply."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value else ""
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
