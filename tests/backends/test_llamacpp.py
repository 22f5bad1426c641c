"""llama.cpp's own API: what is sent, what its events mean, and a run against a server that speaks it."""

import json
from typing import Any

import pytest

from loadstone import RunConfig, run
from loadstone.backends import get
from loadstone.backends.base import Options, Prompt
from loadstone.engine.exchange import End
from loadstone.errors import UsageError
from loadstone.records import COMPLETED, FAILED
from support.replies import plays, record
from support.scripted import Scripted

Message = dict[str, Any]
MS = 1_000_000
TIMINGS = {"cache_n": 20, "prompt_n": 6, "prompt_ms": 40.5, "prompt_per_token_ms": 6.7, "predicted_n": 3, "predicted_ms": 60.25}
SPANS = {"s_ttft": 40_500_000, "s_e2el": 100_750_000, "prompt": 40_500_000, "predicted": 60_250_000}
LAST: Message = {
    "index": 0, "content": "", "tokens": [], "id_slot": 0, "stop": True, "model": "m", "tokens_predicted": 3, "tokens_evaluated": 26,
    "generation_settings": {"n_predict": 9}, "prompt": "Hi", "has_new_line": False, "truncated": False, "stop_type": "limit", "stopping_word": "",
    "tokens_cached": 28, "timings": TIMINGS,
}  # fmt: skip


def event(**message: Any) -> bytes:
    return b"data: " + json.dumps(message).encode() + b"\n\n"


def says(content: str, predicted: int | None = None, **more: Any) -> bytes:
    counts = {} if predicted is None else {"tokens_predicted": predicted, "tokens_evaluated": 26}
    return event(index=0, content=content, tokens=[1], stop=False, id_slot=-1, **counts, **more)


HELLO = [says("Hel", 1), says("l", 2), says("o", 3), event(**LAST)]


def test_a_stream() -> None:
    reply = record("llamacpp", *HELLO)
    assert (reply.status, reply.text, reply.finish_reason, reply.token_ns) == (COMPLETED, "Hello", "limit", [11, 12, 13])
    assert (reply.prompt_tokens, reply.output_tokens, reply.cached_tokens, reply.token_source) == (26, 3, 20, "usage")
    assert (reply.token_counts, reply.server_spans, reply.server_ns) == ([1, 1, 1], SPANS, [])


def test_a_token_that_shows_no_text_is_one_all_the_same() -> None:
    """Half a character: the count grew."""
    reply = record("llamacpp", says("a", 1), says("", 2), says("塔", 3), event(**LAST))
    assert (reply.token_ns, reply.token_counts) == ([11, 12, 13], [1, 1, 1])


def test_the_last_event_repeats_nothing_and_may_bring_the_rest() -> None:
    assert record("llamacpp", says("Hel", 1), event(**(LAST | {"content": "lo", "tokens_predicted": 2}))).token_ns == [11, 12]
    alone = record("llamacpp", event(**(LAST | {"content": "", "tokens_predicted": 0, "stop_type": "eos"})))
    assert (alone.status, alone.token_ns, alone.output_tokens, alone.finish_reason) == (COMPLETED, [], 0, "eos")


def test_an_older_server() -> None:
    last = {"content": "", "stop": True, "stopped_eos": False, "stopped_word": True, "stopped_limit": False, "tokens_predicted": 2, "timings": None}
    reply = record("llamacpp", says("Hel"), says("lo"), event(**last))
    assert (reply.status, reply.finish_reason, reply.output_tokens, reply.token_counts, reply.server_spans) == (COMPLETED, "word", 2, [], {})
    assert reply.prompt_tokens is None and reply.cached_tokens is None


def test_timings_per_token_are_the_server_s_own_times() -> None:
    stream = [says(text, n, timings=TIMINGS | {"predicted_ms": 10.0 * n}) for n, text in enumerate("abc", 1)]
    reply = record("llamacpp", *stream, event(**LAST))
    assert reply.server_ns == [50_500_000, 60_500_000, 70_500_000]


@pytest.mark.parametrize(
    ("pieces", "reason", "said"),
    [
        ([says("a", 1), b'data: {"error":{"code":500,"message":"context full","type":"server_error"}}\n\n'], "server error", "context full"),
        ([says("a", 1), b'event: error\ndata: {"message":"context full"}\n\n'], "server error", "context full"),
        ([says("a", 1), b'error: {"code":500}\n\n', says("b", 2)], "incomplete", "end mark"),
        ([says("a", 1), b"data: {]\n\n", event(**LAST)], "json", "malformed"),
        ([says("a", 1)], "incomplete", "end mark"),
        ([b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'], "server error", "Loading model"),
        ([b'{"choices":[]}'], "server error", "without content"),
    ],
)
def test_failures(pieces: list[bytes], reason: str, said: str) -> None:
    reply = record("llamacpp", *pieces)
    assert (reply.status, reply.reason) == (FAILED, reason) and said in reply.error


def test_nothing_matters_after_the_last_event() -> None:
    assert record("llamacpp", *HELLO, b"data: {", end=End.RESET).status == COMPLETED
    assert record("llamacpp", *HELLO, b"data: [DONE]\n\n").status == COMPLETED
    assert record("llamacpp", *HELLO[:-1], end=End.RESET).reason == "reset"


def test_a_document() -> None:
    reply = record("llamacpp", json.dumps(LAST | {"content": "Hello"}).encode())
    assert (reply.status, reply.streamed, reply.text, reply.output_tokens, reply.server_spans) == (COMPLETED, False, "Hello", 3, SPANS)


def sent(prompt: Prompt, **options: Any) -> Message:
    body: Message = json.loads(get("llamacpp").payload(prompt, Options(model="m", **options)))
    return body


def test_the_body() -> None:
    assert get("llamacpp").path == "/completion"
    assert sent(Prompt(text="Hi", output_tokens=16)) == {"model": "m", "prompt": "Hi", "n_predict": 16, "stream": True, "temperature": 0}
    assert sent(Prompt(token_ids=[1, 2]), ignore_eos=True, logprobs=3, sampling={"min_p": 0.1}) == {
        "model": "m", "prompt": [1, 2], "stream": True, "temperature": 0, "min_p": 0.1, "ignore_eos": True, "n_probs": 3,
    }  # fmt: skip
    assert sent(Prompt(text="Hi", output_tokens=16, extra={"max_tokens": 8}))["n_predict"] == 8
    body = sent(Prompt(text="Hi", output_tokens=16), overrides={"max_completion_tokens": 4, "cache_prompt": False})
    assert (body["n_predict"], body["cache_prompt"]) == (4, False) and "max_completion_tokens" not in body


def test_what_the_api_has_not_is_refused() -> None:
    with pytest.raises(UsageError, match="backend llamacpp has no --use-beam-search, --continuous-usage-stats"):
        get("llamacpp").check(Options(model="m", use_beam_search=True, continuous_usage=True))
    with pytest.raises(UsageError, match="openai-chat"):
        sent(Prompt(messages=[{"role": "user", "content": "x"}]))


@pytest.mark.parametrize("whole", [False, True])
def test_a_run(whole: bool) -> None:
    with Scripted(plays(HELLO, LAST | {"content": "Hello"})) as server:
        config = RunConfig(base_url=server.url, backend="llamacpp", model="m", num_prompts=3, random_output_len=9, no_stream_request=whole)
        result = run(config)
    request = server.seen[-1]
    body = json.loads(request.body)
    assert request.target == "/completion" and body["n_predict"] == 9 and body["temperature"] == 0 and body["stream"] is not whole
    summary = result.summary
    assert (summary.completed, summary.failed, summary.total_input_tokens, summary.total_output_tokens) == (3, 0, 78, 9)
    assert (summary.distributions["ttft"].mean is None) == whole
    assert summary.distributions["s_ttft"].mean == pytest.approx(40.5) and summary.distributions["s_e2el"].mean == pytest.approx(100.75)
