"""Any other HTTP API, described by a YAML file (docs/backends/template.md): the request with placeholders in it, and paths into the reply."""

import os
import re
from typing import Any
from urllib.parse import quote

import msgspec

from loadstone.backends import template_file, template_fill
from loadstone.backends.base import Backend, Emission, Event, Options, Prompt, Reply, excerpt, json_object
from loadstone.backends.openai import DONE
from loadstone.backends.openai_batch import running_usage_grew
from loadstone.backends.template_fill import ABSENT, fill, names_in
from loadstone.backends.template_read import Places
from loadstone.backends.wire import text
from loadstone.errors import UsageError
from loadstone.target import PATH_SAFE
from loadstone.workload.chat import message_texts

LIST = ""  # the field in which a document that is a list is handed on
LENGTHS = {"max_completion_tokens", "max_new_tokens", "n_predict", "num_predict"}  # other spellings of max_tokens in rows
PINGS = {"ping", "heartbeat", "keepalive", "keep-alive"}  # events that may say what they like
SWITCHES = ("temperature", "top_p", "top_k", "min_p", "ignore_eos", "logprobs", "use_beam_search")  # flags that need their placeholder
SECRET = re.compile(r"(?i)key|token|secret|auth|cookie|session|password")
ALIKE = 4  # so many texts, each beginning with all of the one before and longer, are no increments


class TemplateBackend(Backend):
    """A backend made of the file at `path`. Raises UsageError for what is wrong with it."""

    def __init__(self, path: str) -> None:
        self.template = template = template_file.load(path)
        self.file = path
        self.name = f"template {template.name}"
        self.path = template.path
        self.key_variable = template.key_variable
        self.takes_chats = template.chat
        self.lines = template.stream == "lines"
        self.has_stream = template.stream != "none"
        asked = names_in(template.body)
        self.has_whole = not self.has_stream or template.whole is not None or "stream" in asked
        self.asked = asked | (names_in(template.whole.body) if template.whole else set())
        self.sampling = frozenset(SWITCHES[:4]) & self.asked
        self.has_ignore_eos, self.has_logprobs, self.has_beam_search = (name in self.asked for name in SWITCHES[4:])
        self.in_stream = Places(template.read)
        self.in_whole = Places(template.whole.read) if template.whole and template.whole.read else self.in_stream
        self.has_end_mark = self.in_stream.tells_end

    # what is sent

    def path_for(self, options: Options) -> str:
        whole = None if self._streams(options) or self.template.whole is None else self.template.whole.path
        model = quote(options.model, safe=PATH_SAFE.replace("%", ""))
        return str(fill(whole or self.path, {"model": model}))

    def headers(self, key: str) -> dict[str, str]:
        found = {name: fill(value, {"api_key": key or None}) for name, value in self.template.headers.items()}
        own = {name: template_fill.spelled(value) for name, value in found.items() if value is not ABSENT}
        if "api_key" in names_in(self.template.headers) or any(name.lower() == "authorization" for name in own):
            return own
        return super().headers(key) | own

    @property
    def abroad(self) -> dict[str, str]:
        return {}  # the file is a person's own

    @property
    def secrets(self) -> list[str]:
        own = [value for name, value in self.headers("").items() if SECRET.search(name)]
        return [secret for secret in (*own, os.environ.get(self.key_variable, "")) if len(secret) >= 4]

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        values, rest = self._values(prompt, options)
        body: dict[str, Any] = fill(self.template.body, values)
        if not self._streams(options) and self.template.whole is not None:
            body = _without_nulls(over(body, fill(self.template.whole.body, values)), self.template.whole.body)
        return dict(over(body, rest))

    def payload(self, prompt: Prompt, options: Options) -> bytes:
        return msgspec.json.encode(over(self.body(prompt, options), options.overrides))

    def notes(self, options: Options) -> list[str]:
        said = [f"the API is spoken as the template {self.template.name} ({self.file}) says"]
        if "max_tokens" not in self.asked:
            said.append('the template has no "{{max_tokens}}": the lengths that the data set wants were not asked for')
        return said

    def check(self, options: Options) -> None:
        given = {name: name in options.sampling for name in SWITCHES[:4]}
        given |= {"ignore_eos": options.ignore_eos, "logprobs": options.logprobs is not None, "use_beam_search": options.use_beam_search}
        if lacks := [name for name in SWITCHES if given[name] and name not in self.asked]:
            flags, places = ", ".join("--" + name.replace("_", "-") for name in lacks), ", ".join(f'"{{{{{name}}}}}"' for name in lacks)
            raise UsageError(f"--template {self.file} has no {places}, so {flags} cannot be sent: put it where the API has it, or leave the flag out")
        if not options.stream and not self.has_whole:
            raise UsageError(
                f'--template {self.file} has neither "{{{{stream}}}}" nor whole, so --no-stream-request cannot be asked for: say under whole how '
                "the reply in one piece is asked for, or leave the flag out"
            )
        super().check(options)

    def _streams(self, options: Options) -> bool:
        return options.stream and self.has_stream

    def _values(self, prompt: Prompt, options: Options) -> tuple[dict[str, Any], dict[str, Any]]:
        """A value for each placeholder that has one, and the fields of the data set's row that have no placeholder."""
        values = {"model": prompt.model or options.model, "max_tokens": prompt.output_tokens, "stream": self._streams(options), **options.sampling}
        values |= {"ignore_eos": options.ignore_eos or None, "use_beam_search": options.use_beam_search or None, "logprobs": options.logprobs}
        if prompt.model not in (None, options.model) and "model" not in self.asked:
            raise UsageError(f'--template {self.file} has no "{{{{model}}}}" in its body, so the adapter {prompt.model} cannot be asked for')
        values |= self._said(prompt)
        rest = {}
        for name, value in prompt.extra.items():
            name = "max_tokens" if name in LENGTHS and name not in self.template.body else name
            if name in self.asked and name not in ("prompt", "messages", "system", "model", "stream"):
                values[name] = value
            else:
                rest[name] = value
        return values, rest

    def _said(self, prompt: Prompt) -> dict[str, Any]:
        messages = prompt.messages if prompt.messages is not None else [{"role": "user", "content": prompt.text}]
        apart = "system" in self.asked
        system = [message for message in messages if apart and message.get("role") in ("system", "developer")]
        others = [message for message in messages if message not in system]
        if "messages" not in self.asked and (len(others) > 1 or (not prompt.text and prompt.messages is not None)):
            raise UsageError(
                f'--template {self.file} has no "{{{{messages}}}}", and a prompt of this data set is a conversation of {len(others)} messages: put '
                "it where the API has them"
            )
        said = {"prompt": prompt.text, "messages": [self._message(message) for message in others]}
        return said | ({"system": "\n\n".join(message_texts(system))} if system else {})

    def _message(self, message: dict[str, Any]) -> dict[str, Any]:
        form = self.template.message
        role = self.template.roles.get(message.get("role", "user"), message.get("role", "user"))
        if form is None:
            return {**message, "role": role} if self.template.roles else message
        content = message.get("content")
        if isinstance(content, list):
            if any(not isinstance(part, dict) or not isinstance(part.get("text"), str) for part in content):
                raise UsageError(f"--template {self.file}: the form of a message takes texts, and a message of this data set has other parts")
            content = "".join(part["text"] for part in content)
        filled = fill(form, {"role": role, "content": content if isinstance(content, str) else ""})
        return filled if isinstance(filled, dict) else {}

    # what comes back

    def read(self, event: Event, reply: Reply) -> Emission | None:
        places, payload = self.in_stream, event.data.strip()
        if payload in (DONE, places.end_payload):
            reply.done = True
            return None
        if event.name == "error":
            reply.fail(_lenient(payload))
            return None
        last = places.end_event is not None and event.name == places.end_event
        try:
            message = _json(payload) if payload else {}
        except ValueError:
            if event.name not in PINGS and not last:
                raise
            message = {}
        if places.failed(message, reply):
            return None
        emission = self._emission(message, reply, last or places.ends(message))
        if last or places.ends(message):
            reply.finish()
            reply.done = True
        return emission

    def _emission(self, message: Any, reply: Reply, last: bool) -> Emission | None:
        places = self.in_stream
        now = places.take(message, reply)
        reason = places.finish(message, reply)
        if reply.error is not None:
            return None
        said = places.said(message)
        if places.cumulative:
            said = _increment(said, reply, final=last or reason is not None)
        elif places.cumulative is None and said:
            _look_alike(said, reply)
        thought, called = places.thought(message), places.called(message)
        grew = reply.running is not None and running_usage_grew(reply, now, last)
        reply.running = now
        if not (said or thought or called or (grew and reason is None)):
            return None
        reply.begun = True
        return Emission(said, thought, called, now)

    def document(self, body: bytes) -> dict[str, Any]:
        found = _json(body)
        return found if isinstance(found, dict) else {LIST: found}

    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        places, message = self.in_whole, document.get(LIST, document)
        if places.failed(message, reply):
            return None
        places.take(message, reply)
        reason = places.finish(message, reply)
        if not places.has_text(message) and reason is None:
            reply.fail(f"the reply is JSON without {places.text_names}: {excerpt(msgspec.json.encode(message))}")
        if reply.error is not None:
            return None
        reply.finish()
        return Emission(places.said(message), places.thought(message), places.called(message))

    def is_whole(self, line: bytes) -> bool:
        try:
            message = _json(line)
        except ValueError:
            return False
        if self.in_whole is not self.in_stream:
            return self.in_whole.has_text(message) and not self.in_stream.said(message)
        return not self.has_end_mark or self.in_stream.ends(message) or self.in_stream.has_finish(message)


def backend(file: str) -> TemplateBackend:
    return TemplateBackend(file)


def over(body: Any, fields: Any) -> Any:
    """`fields` over `body`, objects field by field at every depth."""
    if not isinstance(body, dict) or not isinstance(fields, dict):
        return body if fields is ABSENT else fields
    return {**body, **{name: over(body.get(name, ABSENT), value) for name, value in fields.items()}}


def _without_nulls(body: Any, fields: Any) -> Any:
    """`body` without what `fields` say is null."""
    if not isinstance(body, dict) or not isinstance(fields, dict):
        return body
    return {name: _without_nulls(value, fields.get(name)) for name, value in body.items() if not (name in fields and fields[name] is None)}


def _increment(now: str, reply: Reply, final: bool) -> str:
    """What `now` brought over the texts before it. Half a character at its end is left for the next. Raises ValueError for a text that does not go on
    from the one before.
    """
    whole = now if final else re.sub("[\ufffd\ud800-\udbff]+$", "", now)
    if reply.so_far.startswith(whole):
        return ""  # the same again, or a stop word taken back
    if not whole.startswith(reply.so_far):
        shown = excerpt(now.encode("utf-8", "replace"))
        raise ValueError(f"a text that does not begin with what had come before, though the template says cumulative: true: {shown}")
    brought, reply.so_far = whole[len(reply.so_far) :], whole
    return brought


def _look_alike(said: str, reply: Reply) -> None:
    """Raise ValueError if the texts of a reply so far look as if each were the whole text again."""
    if reply.counts.get("texts", 0) == reply.counts.get("alike", 0):
        grown = not reply.begun or (said.startswith(reply.so_far) and len(said) > len(reply.so_far))
        reply.counts["alike"] = reply.counts.get("alike", 0) + grown
        reply.so_far = said
    reply.counts["texts"] = reply.counts.get("texts", 0) + 1
    if reply.counts["alike"] == ALIKE == reply.counts["texts"]:
        raise ValueError("each text repeats the one before: the template needs cumulative: true under read (or false, if they really are increments)")


def _json(payload: bytes) -> Any:
    """The JSON object or list in `payload`. Raises ValueError naming it when it is none."""
    return json_object(b'{"":%b}' % payload)[""] if payload.lstrip()[:1] == b"[" else json_object(payload)


def _lenient(payload: bytes) -> Any:
    try:
        return _json(payload)
    except ValueError:
        return text(payload.decode("utf-8", "replace"))
