"""The bytes of a reply: server-sent events of the chat and completions APIs in chunked framing, and whole JSON documents.

The fixed parts are formatted once a request, so that a token costs one splice and no JSON encoder. Role event, token events (the finish reason on
the last when the limit ended the reply, on an event of its own when the model stopped), usage, [DONE]: the order of vLLM.
"""

import time

import msgspec

from loadstone.simulator.asking import Asked
from loadstone.simulator.chances import Fate
from loadstone.simulator.options import SimulatorOptions
from loadstone.simulator.tokens import reply_words

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(payload: bytes) -> bytes:
    return b"data: %b\n\n" % payload


class EventWriter:
    """Builds everything that one reply says."""

    def __init__(self, request_id: str, created_s: int, read_ns: int, asked: Asked, fate: Fate, options: SimulatorOptions) -> None:
        self._asked, self._fate, self._read_ns = asked, fate, read_ns
        self.cached_tokens = 0  # of the prompt; known once the engine has admitted the request
        self._reasoning = min(options.reasoning_tokens, fate.length) if asked.chat else 0
        self._times = options.server_times
        kind, prefix = ("chat.completion", "chatcmpl-") if asked.chat else ("text_completion", "cmpl-")
        object_of_event = kind + ".chunk" if asked.chat else kind
        self._id, self._model = msgspec.json.encode(prefix + request_id), msgspec.json.encode(options.model)
        self._object, self._created = kind.encode(), created_s
        self._head = b'data: {"id":%b,"object":"%b","created":%d,"model":%b,"choices":[' % (
            self._id,
            object_of_event.encode(),
            created_s,
            self._model,
        )
        self._open = self._head + (b'{"index":0,"delta":{' if asked.chat else b'{"index":0,')
        self._shut = b'},"logprobs":null,"finish_reason":' if asked.chat else b',"logprobs":null,"finish_reason":'
        self._plain = not (self._times or asked.continuous_usage or self._reasoning)
        self._plain_head = self._open + (b'"content":"' if asked.chat else b'"text":"')
        self._plain_tail = b'"' + self._shut + b"null}]}\n\n"
        self._plain_size = len(self._plain_head) + len(self._plain_tail)

    def opening(self, keep_alive: bool) -> bytes:
        """The HTTP head and, in a chat, the role event."""
        head = STREAM_HEAD + (b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
        if not self._asked.chat:
            return head
        arrival = b',"arrival_time":0' if self._times else b""
        return head + chunk(
            self._open + b'"role":"assistant","content":""' + self._shut + b"null" + arrival + b"}]" + self._running_usage(0) + b"}\n\n"
        )

    def tokens(self, first: int, count: int, last: bool) -> bytes:
        """The event that carries tokens `first` to `first + count`; `last` if the reply ends with them."""
        fate = self._fate
        if self._plain and not last:
            text = reply_words(fate.word_start, fate.word_stride, first, count)
            return b"%x\r\n%b%b%b\r\n" % (self._plain_size + len(text), self._plain_head, text, self._plain_tail)
        reason = b'"length"' if last and fate.finish_reason == "length" else b"null"
        return chunk(
            self._open + self._texts(first, count) + self._shut + reason + self._time() + b"}]" + self._running_usage(first + count) + b"}\n\n"
        )

    def closing(self) -> bytes:
        """All that follows the last token: finish reason if it stands alone, usage if asked for, [DONE], the end of the body."""
        data = b""
        if self._fate.finish_reason == "stop":
            text = b"" if self._asked.chat else b'"text":""'
            usage = self._running_usage(self._fate.length)
            data = chunk(self._open + text + self._shut + b'"stop"' + self._time() + b"}]" + usage + b"}\n\n")
        if self._asked.include_usage:
            data += chunk(self._head + b'],"usage":' + self.usage(self._fate.length) + b"}\n\n")
        return data + chunk(event(b"[DONE]")) + LAST_CHUNK

    @staticmethod
    def failure(error: bytes) -> bytes:
        """An error object in the middle of the stream, and its end."""
        return chunk(event(error)) + chunk(event(b"[DONE]")) + LAST_CHUNK

    def document(self) -> bytes:
        """The whole reply as one JSON document."""
        fate = self._fate
        reason = b'"%b"' % fate.finish_reason.encode()
        if self._asked.chat:
            reasoning = self._words(0, self._reasoning)
            thought = b'"reasoning_content":"%b",' % reasoning if reasoning else b'"reasoning_content":null,'
            said = b'"message":{"role":"assistant",%b"content":"%b"}' % (thought, self._words(self._reasoning, fate.length))
        else:
            said = b'"text":"%b"' % self._words(0, fate.length)
        choice = b'{"index":0,%b,"logprobs":null,"finish_reason":%b%b}' % (said, reason, self._time())
        return b'{"id":%b,"object":"%b","created":%d,"model":%b,"choices":[%b],"usage":%b}' % (
            self._id,
            self._object,
            self._created,
            self._model,
            choice,
            self.usage(fate.length),
        )

    def usage(self, output_tokens: int) -> bytes:
        prompt = self._asked.prompt_tokens
        cached = b',"prompt_tokens_details":{"cached_tokens":%d}' % self.cached_tokens
        thought = b',"completion_tokens_details":{"reasoning_tokens":%d}' % min(self._reasoning, output_tokens) if self._reasoning else b""
        counts = b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d' % (prompt, prompt + output_tokens, output_tokens)
        return counts + cached + thought + b"}"

    def _running_usage(self, output_tokens: int) -> bytes:
        return b',"usage":' + self.usage(output_tokens) if self._asked.continuous_usage else b""

    def _time(self) -> bytes:
        return b',"arrival_time":%.6f' % ((time.monotonic_ns() - self._read_ns) / 1e9) if self._times else b""

    def _words(self, first: int, end: int) -> bytes:
        return reply_words(self._fate.word_start, self._fate.word_stride, first, end - first)

    def _texts(self, first: int, count: int) -> bytes:
        """The text members of a token event: reasoning up to the boundary, the answer after it."""
        end, boundary = first + count, self._reasoning
        if not self._asked.chat:
            return b'"text":"%b"' % self._words(first, end)
        if first >= boundary:
            return b'"content":"%b"' % self._words(first, end)
        if end <= boundary:
            return b'"reasoning_content":"%b"' % self._words(first, end)
        return b'"reasoning_content":"%b","content":"%b"' % (self._words(first, boundary), self._words(boundary, end))
