"""The file of --template: its keys, and every error with the file, the key and what to write there."""

import re
from pathlib import Path as FilePath
from typing import Any, Literal

import msgspec

from loadstone import values
from loadstone.backends import paths, template_fill
from loadstone.errors import UsageError
from loadstone.redact import public_url
from loadstone.workload.chat import chats_in

FLAG = "--template"
BODY = frozenset(
    {"prompt", "messages", "system", "model", "max_tokens", "stream", "temperature", "top_p", "top_k", "min_p", "ignore_eos", "logprobs"}
    | {"use_beam_search", "seed", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty"}
)
"""Placeholders of `body`. Those from `seed` on have no flag: a data set's row may have them."""

Text = str | list[str]


class End(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ends a stream; any of them does."""

    payload: str | None = None  # an event or line that is this and no more
    event: str | None = None  # a server-sent event of this name
    path: Text | None = None  # a place that says something


class Read(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where things stand in an event, a line or a document. Of several paths the first that leads to something counts."""

    text: Text
    reasoning: Text | None = None
    tool_call: Text | None = None
    cumulative: bool | None = None  # texts are sent whole again and again; None: they are not, and it is looked whether they seem to be
    prompt_tokens: Text | None = None  # "a + b" is the sum of what is there of them
    output_tokens: Text | None = None
    cached_tokens: Text | None = None
    reasoning_tokens: Text | None = None
    finish_reason: Text | None = None
    failed_finishes: list[str] = []  # finish reasons that are failures, beside error, abort, cancelled
    error: Text | None = "error"
    end: End | None = None


class Whole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a reply in one piece differs: another path, fields over those of the body (null leaves one out), other places."""

    path: str | None = None
    body: dict[str, Any] = {}
    read: Read | None = None


class Template(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str = ""  # in the result and in errors; the file's name unless given
    path: str
    headers: dict[str, str] = {}
    key_variable: str = "OPENAI_API_KEY"
    chat: bool = False
    stream: Literal["sse", "lines", "none"] = "sse"
    body: dict[str, Any]
    message: dict[str, Any] | None = None  # the form of each of {{messages}}
    roles: dict[str, str] = {}  # names of roles here, by their usual ones
    whole: Whole | None = None
    read: Read


STRUCTS: dict[str, Any] = {"": Template, "read": Read, "read.end": End, "whole": Whole, "whole.read": Read, "whole.read.end": End}


def load(path: str) -> Template:
    """The template in the YAML file at `path`. Raises UsageError."""
    document = _document(path)
    try:
        template = msgspec.convert(_with_defaults(document, path), Template)
    except msgspec.ValidationError as error:
        raise UsageError(f"{FLAG} {path}: {_explained(str(error), document)}") from None
    try:
        _check(template)
    except ValueError as error:
        raise UsageError(f"{FLAG} {path}: {error}") from None
    return template


def public(path: str) -> dict[str, Any]:
    """The file's content with its name in it and without what may be a secret: enough to read replies by."""
    document = _document(path)
    headers = document.get("headers")
    if isinstance(headers, dict):
        document["headers"] = {name: value if _harmless(value) else "***" for name, value in headers.items()}
    for part in (document, document.get("whole")):
        if isinstance(part, dict) and isinstance(part.get("path"), str):
            part["path"] = public_url(part["path"])
    return {**document, "name": load(path).name}


def _harmless(value: Any) -> bool:
    """Whether a header's value is nothing but a placeholder."""
    return isinstance(value, str) and "{{" in value and not re.search(r"\w", template_fill.PLACEHOLDER.sub("", value))


def _document(path: str) -> dict[str, Any]:
    try:
        document = values.read_mapping(path, FLAG)
    except UsageError as error:
        try:
            bare = re.search(r"(?m)^[^#'\"\n]*[:\-\[,]\s*\{\{", FilePath(path).read_text("utf-8", "replace"))
        except OSError:
            bare = None
        hint = ' (a value that begins with a placeholder stands in quotes: "{{prompt}}")' if bare else ""
        raise UsageError(f"{error}{hint}") from None
    if not document:
        raise UsageError(f"{FLAG} {path} is empty: it must have at least path, body and read.text")
    return values.json_mapping(document, f"{FLAG} {path}")


def _with_defaults(document: dict[str, Any], path: str) -> dict[str, Any]:
    """What is derived: the name, whether chats are taken, and `whole.read`, which stands over `read`."""
    document = {"name": FilePath(path).stem, "chat": chats_in(document), **document}
    whole, read = document.get("whole"), document.get("read")
    if isinstance(whole, dict) and isinstance(read, dict) and isinstance(whole.get("read"), dict):
        document["whole"] = {**whole, "read": {**read, **whole["read"]}}
    return document


def _explained(fault: str, document: dict[str, Any]) -> str:
    """msgspec's words as ours: the place, what is wrong there, and what may stand there."""
    said, _, place = fault.partition(" - at `$")
    place = place.rstrip("`").lstrip(".").replace("[...]", "")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", said):
        known = STRUCTS[place].__struct_fields__
        key = f"{place}.{unknown[1]}".lstrip(".")
        return f"{key}: there is no such key{values.nearest(unknown[1], known)}; there are {', '.join(known)}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", said):
        remedy = {
            "path": "the request's path, as path: /v1/generate",
            "body": 'the request\'s JSON, as body: {prompt: "{{prompt}}"}',
            "read": "where the text stands in a reply, as read: {text: choices.0.text}",
            "text": "where the text stands in a reply, as text: choices.0.text",
        }[missing[1]]
        return f"{f'{place}.{missing[1]}'.lstrip('.')} is missing: {remedy}"
    if place == "stream":
        return f"stream: {document.get('stream')!r} must be sse (server-sent events), lines (a JSON object a line) or none (one document)"
    return f"{place or 'the file'}: {said[:1].lower()}{said[1:]}"


def _check(template: Template) -> None:
    """Raises ValueError for what the types cannot tell."""
    whole = template.whole or Whole()
    for place, path in (("path", template.path), ("whole.path", whole.path)):
        if path is None:
            continue
        template_fill.check(path, frozenset({"model"}), place)
        if not path.strip("/ ") or "://" in path or "#" in path or re.search(r"[\x00-\x20\x7f]", template_fill.PLACEHOLDER.sub("", path)):
            raise ValueError(f"{place}: {path!r} must be a path such as /v1/generate; the server goes into --base-url")
    for place, body in (("body", template.body), ("whole.body", whole.body)):
        template_fill.check(body, BODY, place)
    asked = template_fill.names_in(template.body)
    if not asked & {"prompt", "messages"}:
        raise ValueError('body: there is neither "{{prompt}}" nor "{{messages}}" in it, so nothing of the data set would be sent')
    if template.message is not None:
        template_fill.check(template.message, frozenset({"role", "content"}), "message")
        if "messages" not in asked:
            raise ValueError('message: it is the form of each of "{{messages}}", which is not in the body')
    template_fill.check(template.headers, frozenset({"api_key"}), "headers")
    try:
        values.headers(template.headers)
    except UsageError as error:
        raise ValueError(str(error).replace("--header", "headers:")) from None
    for place, read in (("read", template.read), ("whole.read", whole.read)):
        if read is not None:
            _check_paths(read, place)


def _check_paths(read: Read, place: str) -> None:
    named: dict[str, Text | None] = {
        name: getattr(read, name) for name in read.__struct_fields__ if name not in ("cumulative", "failed_finishes", "end")
    }
    if read.end is not None:
        named["end.path"] = read.end.path
        if not (read.end.payload or read.end.event or read.end.path):
            raise ValueError(f"{place}.end: give payload, event or path, as end: {{payload: '[DONE]'}}")
    for name, given in named.items():
        try:
            alternatives(given, sums=name.endswith("_tokens"))
        except ValueError as error:
            raise ValueError(f"{place}.{name}: {error}") from None


def alternatives(given: Text | None, sums: bool = False) -> list[list[paths.Path]]:
    """`given` parsed: of each alternative the paths that are added up, which is one unless `sums`."""
    spelled = [] if given is None else [given] if isinstance(given, str) else given
    return [[paths.parse(part.strip()) for part in (each.split(" + ") if sums else [each])] for each in spelled]
