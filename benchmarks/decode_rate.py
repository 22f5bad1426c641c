"""How long decoding takes: microseconds per event, for replies shaped like an engine's (one token a chunk, one chunk a read), on the quick path
and on the reference path: events that differ in their text only, a role event before and reasoning before the answer, and events that differ in more
(running usage, an id of their own, the server's own time).

    python benchmarks/decode_rate.py [--tokens 200] [--replies 2000]
"""

import argparse
import time
from collections.abc import Callable
from unittest import mock

import numpy as np

from loadstone.backends import get
from loadstone.decode import http, reading
from loadstone.decode.reply import decode
from loadstone.engine.exchange import End, Exchange

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
FRAME = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",'


CHOICE = b'"choices":[{"index":0,"delta":{"content":" tok%05d"},"logprobs":null,"finish_reason":%b}]}\n\n'
THOUGHT = CHOICE.replace(b"content", b"reasoning_content", 1)


def reply(tokens: int, shape: str = "text") -> Exchange:
    """One reply of `tokens` tokens, a usage event and [DONE], each in a chunk and a read of its own, 20 ms apart."""
    events = [FRAME + CHOICE % (n, b"null" if n < tokens - 1 else b'"length"') for n in range(tokens)]
    if shape == "reasoning":
        thoughts = [FRAME + THOUGHT % (n, b"null") for n in range(tokens // 2)]
        events = [FRAME + b'"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n', *thoughts, *events[len(thoughts) :]]
    if shape == "running usage":
        usage = b',"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d}}\n\n'
        events = [event[:-3] + usage % (n + 1, n + 11) for n, event in enumerate(events)]
    if shape == "own ids":
        events = [event.replace(b"chatcmpl-1", b"chatcmpl-%d" % n) for n, event in enumerate(events)]
    if shape == "server times":
        events = [event.replace(b'"logprobs"', b'"arrival_time":%.6f,"logprobs"' % (n / 50)) for n, event in enumerate(events)]
    events.append(FRAME + b'"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":%d,"total_tokens":%d}}\n\n' % (tokens, tokens + 10))
    reads = [HEAD, *(b"%x\r\n%b\r\n" % (len(event), event) for event in events), b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"]
    ends = np.cumsum([len(read) for read in reads])
    stamps = np.arange(len(reads), dtype=np.int64) * 20_000_000
    return Exchange(
        index=0, worker=0, planned_ns=None, sent_ns=0, end_ns=int(stamps[-1]), end=End.COMPLETE, raw=b"".join(reads), stamps_ns=stamps, read_ends=ends
    )


def us_per_event(replies: int, exchange: Exchange) -> float:
    """The best of many rounds of ten, so that what else the machine does falls out."""
    backend = get("openai-chat")
    best = float("inf")
    for _ in range(max(replies // 10, 3)):
        start = time.perf_counter()
        for _ in range(10):
            decode(exchange, backend)
        best = min(best, time.perf_counter() - start)
    return best / 10 / (len(exchange.read_ends) - 1) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--replies", type=int, default=2000)
    arguments = parser.parse_args()
    exchange = reply(arguments.tokens)
    never: Callable[..., None] = lambda *_: None  # noqa: E731
    quick = us_per_event(arguments.replies, exchange)
    with mock.patch.object(http, "_plain_chunked", never), mock.patch.object(reading, "plain_stream", never):
        slow = us_per_event(arguments.replies // 10, exchange)
    print(f"{arguments.tokens} tokens a reply: {quick:.2f} us per event, {1e6 / quick:,.0f} events/s on one core")
    print(f"event by event: {slow:.2f} us per event; the quick path is {slow / quick:.1f} times as fast")
    for shape in ("reasoning", "running usage", "own ids", "server times"):
        print(f"{shape}: {us_per_event(arguments.replies // 5, reply(arguments.tokens, shape)):.2f} us per event")


if __name__ == "__main__":
    main()
