"""Chat templates: the Jinja text that comes with a tokenizer and turns a conversation into the one text that the model was trained on.

It lies in `chat_template.jinja`, or in `tokenizer_config.json` as `chat_template` (a text, or a list of named ones of which `default` counts).
Rendering follows what template authors rely on: trimmed blocks, loop controls, `raise_exception`, `strftime_now`, a `tojson` that leaves
non-ASCII letters and HTML alone. Templates come from strangers, so they run in Jinja's sandbox. Jinja2 is not a
dependency: without it there is no template.
"""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from loadstone.errors import UsageError

SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class ChatTemplate:
    """A compiled template and the special tokens that it may name."""

    def __init__(self, name: str, source: str, special: dict[str, str]) -> None:
        from jinja2 import TemplateError  # type: ignore[import-not-found, unused-ignore]
        from jinja2.sandbox import ImmutableSandboxedEnvironment  # type: ignore[import-not-found, unused-ignore]

        self._name, self._special, self._error = name, special, TemplateError
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = self._refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise UsageError(f"the chat template of the tokenizer {name} cannot be read: {error}; --custom-skip-chat-template does without") from None

    def render(self, messages: Sequence[dict[str, Any]]) -> str:
        """The conversation as text, ending where the answer begins. Raises UsageError when the template refuses it."""
        try:
            return str(self._template.render(messages=list(messages), add_generation_prompt=True, **self._special))
        except (self._error, TypeError, ValueError) as error:
            raise UsageError(f"the chat template of the tokenizer {self._name} refuses a conversation: {error}") from None

    def _refuse(self, message: str) -> None:
        raise self._error(message)


def find_chat_template(name: str, neighbour: Callable[[str], Path | None]) -> ChatTemplate | str:
    """The chat template beside a tokenizer, or the reason why there is none, as the end of a sentence."""
    try:
        config = _config(name, neighbour)
        source = _default(config.get("chat_template"))
        if source is None and (file := neighbour("chat_template.jinja")):
            source = file.read_text(encoding="utf-8")
    except UsageError as error:  # the hub is out of reach
        return f"the chat template of the tokenizer {name} cannot be had: {error}"
    if source is None:
        return f"the tokenizer {name} has no chat template"
    try:
        return ChatTemplate(name, source, {key: text for key in SPECIAL if (text := _token(config.get(key))) is not None})
    except ImportError:
        return "Jinja2, which renders chat templates, is not installed (pip install jinja2)"


def _config(name: str, neighbour: Callable[[str], Path | None]) -> dict[str, Any]:
    file = neighbour("tokenizer_config.json")
    if file is None:
        return {}
    try:
        config = json.loads(file.read_bytes())
    except ValueError as error:
        raise UsageError(f"{file} (of the tokenizer {name}) is not JSON: {error}") from None
    return config if isinstance(config, dict) else {}


def _default(template: Any) -> str | None:
    if isinstance(template, list):
        template = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}.get("default")
    return template if isinstance(template, str) else None


def _token(value: Any) -> str | None:
    """A special token, which a configuration gives as a text or as an object with its `content`."""
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
