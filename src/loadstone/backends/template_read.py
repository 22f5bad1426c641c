"""The places that a template names, looked up in what a server sent."""

from typing import Any

from loadstone.backends import paths
from loadstone.backends.base import Reply, Usage
from loadstone.backends.template_file import Read, Text, alternatives
from loadstone.backends.wire import compact, count


class Places:
    """`Read` with its paths parsed."""

    def __init__(self, read: Read) -> None:
        self.cumulative = read.cumulative
        self.text_names = " or ".join([read.text] if isinstance(read.text, str) else read.text)
        self._text, self._reasoning, self._tool_call = _single(read.text), _single(read.reasoning), _single(read.tool_call)
        self._finish, self._error = _single(read.finish_reason), _single(read.error)
        self._counts = {
            name: alternatives(getattr(read, name), sums=True) for name in ("prompt_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
        }
        self._failed = frozenset(read.failed_finishes)
        end = read.end
        self.end_payload = end.payload.strip().encode() if end and end.payload else None
        self.end_event = end.event if end else None
        self._end = _single(end.path if end else None)
        self.tells_end = end is not None or bool(self._finish)

    def has_text(self, message: Any) -> bool:
        """Whether a text stands in its place, be it empty."""
        return any(isinstance(each, str) for path in self._text for each in paths.find(message, path))

    def said(self, message: Any) -> str:
        return _joined(message, self._text)

    def thought(self, message: Any) -> str:
        return _joined(message, self._reasoning)

    def called(self, message: Any) -> str:
        for path in self._tool_call:
            if said := "".join(each if isinstance(each, str) else compact(each) for each in paths.find(message, path)):
                return said
        return ""

    def ends(self, message: Any) -> bool:
        return any(paths.says_something(each) for path in self._end for each in paths.find(message, path))

    def has_finish(self, message: Any) -> bool:
        return bool(_joined(message, self._finish))

    def finish(self, message: Any, reply: Reply) -> str | None:
        """Why the reply ended, if the message says so; `reply` has it."""
        reason = _joined(message, self._finish) or None
        if reason is not None:
            reply.finish(reason)
            if reason in self._failed:
                reply.fail(f"the server ended the reply with the reason {reason}, which the template counts as failed")
        return reason

    def failed(self, message: Any, reply: Reply) -> bool:
        """Whether the message is an error; if so, `reply` has it."""
        for path in self._error:
            for each in paths.find(message, path):
                if paths.says_something(each):
                    reply.fail(each)
                    return True
        return False

    def take(self, message: Any, reply: Reply) -> int | None:
        """Hand the counts in the message to `reply`; returns its output tokens, if it says them."""
        usage = Usage(**{name: _count(message, given) for name, given in self._counts.items()})
        reply.usage = reply.usage.then(usage)
        return usage.output_tokens


def _single(given: Text | None) -> list[paths.Path]:
    return [path for (path,) in alternatives(given)]


def _joined(message: Any, alternative: list[paths.Path]) -> str:
    """The texts at the first path that leads to any, joined."""
    for path in alternative:
        if said := "".join(each for each in paths.find(message, path) if isinstance(each, str)):
            return said
    return ""


def _count(message: Any, given: list[list[paths.Path]]) -> int | None:
    for addends in given:
        found = [number for path in addends for each in paths.find(message, path) if (number := count(each)) is not None]
        if found:
            return count(sum(found))
    return None
