"""What people write in flags and YAML files, turned into values of the configuration. Each function takes either form and returns the one form;
every error names the flag.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from loadstone.errors import UsageError

METRICS = ("ttft", "s_ttft", "ttfot", "tpot", "itl", "icl", "s_itl", "e2el", "s_e2el", "s_decode", "input_len", "s_input_len", "output_len")
SLO_METRICS = ("ttft", "tpot", "itl", "e2el")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING = ("content-length", "transfer-encoding")
_PERCENTILE = re.compile(r"\d+(\.\d+)?|\.\d+")


def nearest(word: str, choices: Iterable[str], prefix: str = "") -> str:
    """' (did you mean X?)' for the choice most like `word`, or ''."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(choices), n=1)
    return f" (did you mean {prefix}{found[0]}?)" if found else ""


def request_rate(value: Any) -> Any:
    """Requests per second."""
    return _number_or_inf(value, "--request-rate")


def burstiness(value: Any) -> Any:
    """Shape of the gamma distribution of gaps."""
    return _number_or_inf(value, "--burstiness")


def headers(value: Any) -> dict[str, str]:
    """KEY=VALUE texts, split at the first `=`, or a mapping. No error shows a value: it may be a secret."""
    found = _pairs(value, "--header", "X-Tenant=team-a", secret=True)
    for name, text in found.items():
        if not _HEADER_NAME.fullmatch(name):
            raise UsageError(f"--header {name!r} is no header name: give KEY=VALUE, for example X-Tenant=team-a")
        if name.lower() in _FRAMING:
            raise UsageError(f"--header {name} cannot be set: it says where the request's body ends")
        if name.lower() == "x-request-id":
            raise UsageError("--header X-Request-Id cannot be set: each request has an id of its own; --request-id-prefix says how ids begin")
        check_header_text(text, f"--header {name}")
    return found


def check_header_text(text: str, what: str) -> None:
    """UsageError if `text` cannot be sent as the value of a header. It is not shown: it may be a secret."""
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text):
        raise UsageError(f"the value of {what} holds a line break or another control character")
    if not text.isascii():
        raise UsageError(f"the value of {what} holds a character that is not ASCII")


def metadata(value: Any) -> dict[str, str]:
    """KEY=VALUE texts, split at the first `=`, or a mapping."""
    return _pairs(value, "--metadata", "gpu=H100")


def goodput(value: Any) -> dict[str, float]:
    """SLOs in milliseconds from METRIC:MS texts or a mapping."""
    slos: dict[str, float] = {}
    for name, limit in _goodput_pairs(value):
        if name not in SLO_METRICS:
            raise UsageError(f"--goodput {name!r}: there is no such metric; choose from {', '.join(SLO_METRICS)}")
        if name in slos:
            raise UsageError(f"--goodput gives {name} twice")
        try:
            slos[name] = float(limit)
        except (TypeError, ValueError):
            raise UsageError(f"--goodput {name}: {limit!r} is no number of milliseconds") from None
        if not 0 <= slos[name] < math.inf:
            raise UsageError(f"--goodput {name}: the limit must be a number of milliseconds, at least 0, not {limit}")
    return slos


def _goodput_pairs(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [(str(name), limit) for name, limit in value.items()]
    pairs = [str(item).partition(":") for item in _items(value, "--goodput", None)]
    for name, colon, _ in pairs:
        if not colon:
            raise UsageError(f"--goodput {name!r} must be METRIC:MS, for example ttft:200")
    return [(name, limit) for name, _, limit in pairs]


def percentile_metrics(value: Any) -> tuple[str, ...]:
    """Names of metrics, separated by commas, or a list of them."""
    names = _items(value, "--percentile-metrics", ",")
    for name in names:
        if name not in METRICS:
            raise UsageError(f"--percentile-metrics {name!r}: there is no such metric{nearest(name, METRICS)}; choose from {', '.join(METRICS)}")
    if not names:
        raise UsageError(f"--percentile-metrics names no metric; choose from {', '.join(METRICS)}")
    return tuple(dict.fromkeys(names))


def metric_percentiles(value: Any) -> tuple[str, ...]:
    """Percentiles, separated by commas, or a list of them. They stay as they were written: they become names of keys (p99, p99.9)."""
    texts = _items(value, "--metric-percentiles", ",")
    for text in texts:
        if not _PERCENTILE.fullmatch(text) or float(text) > 100:
            raise UsageError(f"--metric-percentiles {text!r} is no percentile: give numbers from 0 to 100, for example 50,99,99.9")
    if not texts:
        raise UsageError("--metric-percentiles names no percentile; give numbers from 0 to 100, for example 50,99,99.9")
    return tuple(dict.fromkeys(texts))


def lora_modules(value: Any) -> list[str]:
    """Names of adapters, separated by blanks, or a list of them."""
    return _items(value, "--lora-modules", None)


def extra_body(value: Any) -> dict[str, Any]:
    """A JSON object as text, or a mapping."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise UsageError(f"--extra-body is not JSON ({error}); for example '{{\"top_k\": 20}}'") from None
    return json_mapping(value, "--extra-body")


def json_mapping(value: Any, what: str) -> dict[str, Any]:
    """`value` if it is a mapping that JSON can hold; UsageError naming `what` if not."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{what} must be a mapping of names to values, not {_kind(value)}")
    try:
        return dict(json.loads(json.dumps(value, allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} holds a value that JSON has no form for: {error}") from None


def read_mapping(path: str, flag: str) -> dict[str, Any]:
    """The mapping in the YAML file at `path`. UsageError naming `flag` and the file if it cannot be read or is not a mapping; an empty file is {}."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Numbers as in YAML 1.2 and JSON (PyYAML alone would read 1e-5, which has no dot, as text); a key that stands twice is an error."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            if twice := next((key for key in keys if keys.count(key) > 1), None):
                raise yaml.constructor.ConstructorError(None, None, f"{twice!r} stands twice", node.start_mark)
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789"))
    try:
        document = yaml.load(Path(path).read_text("utf-8-sig"), Loader)  # a SafeLoader: no code is run
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{flag} {path} cannot be read as YAML: {' '.join(str(error).split())}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(f"{flag} {path} must hold a mapping of names to values, not {_kind(document)}")
    return document


def _number_or_inf(value: Any, flag: str) -> Any:
    """YAML's own word for infinity is `.inf`; `inf` comes as text."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        raise UsageError(f"{flag} must be a number or inf, not {value!r}") from None


def _pairs(value: Any, flag: str, example: str, *, secret: bool = False) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): _text(text, f"{flag} {name}") for name, text in value.items()}
    pairs: dict[str, str] = {}
    for number, item in enumerate([value] if isinstance(value, str) else _items(value, flag, None), 1):
        name, equals, text = item.partition("=")
        if not equals or not name:
            shown = f"value number {number} (not shown: it may be a secret)" if secret else repr(item)
            raise UsageError(f"{flag}: {shown} is not KEY=VALUE, for example {example}; quote it if it holds blanks")
        pairs[name] = text
    return pairs


def _text(value: Any, what: str) -> str:
    """A scalar as text: YAML reads `tensor_parallel_size: 8` as a number."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    raise UsageError(f"{what} must be a text, not {_kind(value)}")


def _items(value: Any, flag: str, separator: str | None) -> list[str]:
    """The texts in a list, or in one text cut at `separator` (None: at blanks)."""
    if isinstance(value, str):
        return [item.strip() for item in value.split(separator) if item.strip()]
    if isinstance(value, list | tuple):
        return [_text(item, flag).strip() for item in value]
    if isinstance(value, int | float):
        return [_text(value, flag)]
    raise UsageError(f"{flag} must be a text or a list, not {_kind(value)}")


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number", type(None): "nothing"}
    return names.get(type(value), f"a {type(value).__name__}")


def base_url(value: Any) -> Any:
    """One URL as text; several, none of them twice, as a list."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(url, str) for url in found):
        return value  # the configuration says what is wrong
    if len(set(found)) < len(found):
        raise UsageError("--base-url names a server twice: give each server once")
    return found[0] if len(found) == 1 else found


def ip_list(value: Any) -> Any:
    """host:port texts, separated by commas, or a list of them."""
    found = value.split(",") if isinstance(value, str) else value
    return (
        tuple(item.strip() for item in found if item.strip()) if isinstance(found, list) and all(isinstance(item, str) for item in found) else value
    )


PARSERS: dict[str, Callable[[Any], Any]] = {
    "request_rate": request_rate,
    "burstiness": burstiness,
    "header": headers,
    "metadata": metadata,
    "goodput": goodput,
    "percentile_metrics": percentile_metrics,
    "metric_percentiles": metric_percentiles,
    "lora_modules": lora_modules,
    "extra_body": extra_body,
    "base_url": base_url,
    "slo": lambda value: [value] if isinstance(value, str) else value,
    "ip_list": ip_list,
}
"""Fields of the configuration that can be written in more than one way, by name."""
