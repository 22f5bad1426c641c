"""What the readers share: figures by key, arrays by request, numbers that are numbers."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from loadstone.compare.estimate import Floats, Series

Figures = dict[str, dict[str, float]]


def number(value: Any) -> float | None:
    """`value` if it is a finite number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def put(figures: Figures, metric: str, statistic: str, value: Any, per_unit: float = 1.0) -> None:
    """Add a figure, if it is a number, times `per_unit`."""
    if (found := number(value)) is not None:
        figures.setdefault(metric, {})[statistic] = found * per_unit


def figures_of(document: Mapping[str, Any], names: Mapping[str, str]) -> Figures:
    """The figures under keys such as `p99_ttft_ms`; `names`: the key's word for a metric, by metric. A metric whose run had no sample has none,
    though some tools write 0 for it.
    """
    found: Figures = {}
    for metric, word in names.items():
        form = re.compile(rf"(mean|median|std|min|max|p\d+(?:\.\d+)?)_{re.escape(word)}")
        for key, value in document.items():
            if (match := form.fullmatch(key)) and match[1] != "std":
                put(found, metric, "median" if match[1] == "p50" else match[1], value)
        if metric in found and not any(found[metric].values()) and "n_" + metric not in document:
            del found[metric]
    return found


def totals_of(document: Mapping[str, Any], goodput: str = "request_goodput") -> Figures:
    """Rates and the error rate under the keys that vLLM's file and its descendants share."""
    found: Figures = {}
    put(found, "requests", "", document.get("request_throughput"))
    put(found, "output", "", document.get("output_throughput"))
    put(found, "total", "", document.get("total_token_throughput", document.get("total_throughput")))
    put(found, "goodput", "", document.get(goodput))
    completed, failed = number(document.get("completed")), number(document.get("failed"))
    if completed is not None and failed is not None and completed + failed > 0:
        put(found, "errors", "", 100 * failed / (completed + failed))
    return found


def samples_of(document: Mapping[str, Any], per_token: bool = True) -> dict[str, Series]:
    """What the per-request arrays of --save-detailed (SGLang: --output-details) give: TTFT, ITL, and TPOT and E2EL made of them, in ms.

    Requests that failed, and those without a first token, are left out; so is everything if the arrays are not of one length. `per_token`: the gaps
    of a reply add up to the time from its first to its last token event.
    """
    ttfts, itls = document.get("ttfts"), document.get("itls")
    if not isinstance(ttfts, list) or not ttfts:
        return {}
    n = len(ttfts)
    errors = document.get("errors")
    errors = errors if isinstance(errors, list) and len(errors) == n else [""] * n
    failures = np.array([100.0 if error else 0.0 for error in errors])
    good = [i for i in range(n) if not errors[i] and (number(ttfts[i]) or 0.0) > 0]
    found = {"ttft": Series(np.array([ttfts[i] for i in good], np.float64) * 1e3)} if good else {}
    if isinstance(document.get("errors"), list):
        found["errors"] = Series(failures)
    if not isinstance(itls, list) or len(itls) != n or not good:
        return found
    gaps = [np.array([gap for gap in itls[i] or () if number(gap) is not None], np.float64) * 1e3 for i in good]
    sizes = np.array([len(each) for each in gaps], np.int64)
    if sizes.any():
        found["itl"] = Series(np.concatenate(gaps), sizes)
    if per_token:
        flow = np.array([each.sum() for each in gaps])
        found["e2el"] = Series(found["ttft"].values + flow)
        found |= _tpot(flow, document.get("output_lens"), good, n)
    return found


def _tpot(flow: Floats, output: Any, good: list[int], n: int) -> dict[str, Series]:
    if not isinstance(output, list) or len(output) != n:
        return {}
    tokens = np.array([number(output[i]) or 0.0 for i in good])
    return {"tpot": Series(flow[tokens > 1] / (tokens[tokens > 1] - 1))} if (tokens > 1).any() else {}


def lengths_of(completed: Any, total_input: Any, total_output: Any) -> tuple[float | None, float | None] | None:
    """(input, output) tokens a completed request."""
    count = number(completed)
    if not count:
        return None
    both = tuple(None if (total := number(each)) is None else total / count for each in (total_input, total_output))
    return (both[0], both[1]) if any(both) else None


def load_of(document: Mapping[str, Any]) -> str | None:
    """How requests came, in words: '10 req/s', 'all at once, at most 32 in flight'."""
    text: str
    if isinstance(document.get("load"), str):
        text = document["load"]
    elif document.get("ramp_up_strategy"):
        text = f"{document['ramp_up_strategy']} ramp {document.get('ramp_up_start_rps')} to {document.get('ramp_up_end_rps')} req/s"
    elif "request_rate" not in document:
        return None
    else:
        text = rate_words(document["request_rate"])
        burstiness = document.get("burstiness", 1.0)
        if text != "all at once" and burstiness not in (1, "1.0"):
            text += f", burstiness {burstiness}"
    cap = number(document.get("max_concurrency"))
    if cap:
        return f"{text}, at most {cap:g} in flight"
    if text == "all at once" and document.get("num_prompts") is not None:
        return f"{document['num_prompts']} requests at once"
    return text


def rate_words(value: Any) -> str:
    try:
        rate = float(value)
    except (TypeError, ValueError):
        return "all at once"
    return f"{rate:g} req/s" if math.isfinite(rate) else "all at once"


def flag_of(command: Any, flag: str) -> str | None:
    """The value of a flag in a command line."""
    if not isinstance(command, list):
        return None
    for place, word in enumerate(command):
        name, equals, value = str(word).partition("=")
        if name.replace("_", "-") == flag:
            following = command[place + 1 : place + 2]
            return value if equals else str(following[0]) if following else None
    return None


def facts(**known: Any) -> dict[str, Any]:
    return {name: value for name, value in known.items() if value is not None}
