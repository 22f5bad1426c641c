"""Ollama: what is sent, what its lines mean, and a run against a server that speaks it."""

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
END: Message = {
    "done": True, "done_reason": "stop", "total_duration": 900 * MS, "load_duration": 50 * MS, "prompt_eval_count": 26,
    "prompt_eval_duration": 100 * MS, "eval_count": 3, "eval_duration": 300 * MS,
}  # fmt: skip


def line(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "created_at": "2026-12-07T00:00:00Z", **fields}).encode() + b"\n"


def chat(content: str = "", **more: Any) -> bytes:
    return line(message={"role": "assistant", "content": content, **more}, done=False)


LAST = line(message={"role": "assistant", "content": ""}, **END)
CHAT = [chat(thinking="Hm"), chat("Hel"), chat("lo"), LAST]
GENERATE = [line(response="Hel", done=False), line(response="lo", done=False), line(response="", context=[1, 2], **END)]


def test_a_chat() -> None:
    reply = record("ollama", *CHAT)
    assert (reply.status, reply.text, reply.reasoning, reply.finish_reason) == (COMPLETED, "Hello", "Hm", "stop")
    assert (reply.token_ns, reply.first_token_ns, reply.first_output_ns, reply.last_token_ns) == ([11, 12, 13], 11, 12, 13)
    assert (reply.prompt_tokens, reply.output_tokens, reply.token_source) == (26, 3, "usage")
    # from its coming to its last token 900 ms, of which the decoding is 300: the first token was there at 600, after 450 ms of waiting
    assert reply.server_spans == {
        "s_ttft": 600 * MS, "s_e2el": 900 * MS, "load_duration": 50 * MS, "prompt_eval_duration": 100 * MS, "eval_duration": 300 * MS,
    }  # fmt: skip


def test_generate() -> None:
    reply = record("ollama-generate", *GENERATE)
    assert (reply.status, reply.text, reply.token_ns, reply.output_tokens) == (COMPLETED, "Hello", [11, 12], 3)
    assert record("ollama-generate", line(response="", thinking="Hm", done=False), *GENERATE).reasoning == "Hm"


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_lines_cut_anywhere_count_when_they_are_whole(cut: int) -> None:
    body = b"".join(CHAT)
    pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
    ends, at = [], 0
    for one in CHAT[:3]:
        at += len(one)
        ends.append(11 + (at - 1) // cut)
    assert record("ollama", *pieces).token_ns == ends


def test_a_tool_call_comes_whole() -> None:
    call = {"function": {"name": "weather", "arguments": {"city": "Zürich"}}}
    reply = record("ollama", chat(tool_calls=[call, call]), line(message={"content": ""}, done=True, done_reason="stop"), count_tokens=len)
    assert (reply.token_ns, reply.output_tokens) == ([11], 2 * len('weather{"city":"Zürich"}'))


def test_a_document() -> None:
    for name, whole in (("ollama", line(message={"content": "Hello", "thinking": "Hm"}, **END)), ("ollama-generate", line(response="Hello", **END))):
        reply = record(name, whole)
        assert (reply.status, reply.streamed, reply.text, reply.output_tokens, reply.token_ns) == (COMPLETED, False, "Hello", 3, [])
        assert reply.server_spans["s_e2el"] == 900 * MS


@pytest.mark.parametrize(
    ("pieces", "reason", "said"),
    [
        ([chat("Hel"), line(error="an error was encountered while running the model")], "server error", "while running the model"),
        ([b'{"error":"model \\"m\\" not found, try pulling it first"}\n'], "server error", "not found"),
        ([chat("Hel"), b"oops\n", LAST], "json", "oops"),
        ([chat("Hel"), b"[1]\n", LAST], "json", "[1]"),
        ([line(message=[], done=False), LAST], "json", "message is no object"),
        ([chat("Hel"), chat("lo")], "incomplete", "end mark"),
        ([b'{"message":{"content":"Hel"},"done":fal'], "json", "malformed"),
        ([line(message={"content": ""}, done=True, done_reason="load")], "server error", "nothing was generated"),
        ([], "incomplete", "the reply is empty"),
    ],
)
def test_failures(pieces: list[bytes], reason: str, said: str) -> None:
    reply = record("ollama", *pieces)
    assert (reply.status, reply.reason) == (FAILED, reason) and said in reply.error


def test_nothing_matters_after_the_last_line() -> None:
    assert record("ollama", *CHAT, b'{"do', end=End.RESET).status == COMPLETED
    assert record("ollama", *CHAT[:-1], end=End.RESET).reason == "reset"


def test_counts_and_times_that_are_none_are_absent() -> None:
    odd = {"prompt_eval_count": None, "eval_count": "3", "total_duration": -1, "eval_duration": 1e30, "load_duration": True}
    reply = record("ollama", chat("a"), line(message=None, **(END | odd)))
    assert (reply.status, reply.prompt_tokens, reply.output_tokens, reply.token_source) == (COMPLETED, None, 1, "events")
    assert reply.server_spans == {"prompt_eval_duration": 100 * MS}
    cached = record("ollama", chat("a"), line(message=None, **{name: value for name, value in END.items() if name != "prompt_eval_count"}))
    assert cached.prompt_tokens is None  # older servers leave it out when the whole prompt was cached


def sent(prompt: Prompt, backend: str = "ollama", **options: Any) -> Message:
    body: Message = json.loads(get(backend).payload(prompt, Options(model="m", **options)))
    return body


ASKED = {"num_predict": 16, "temperature": 0}


def test_the_body() -> None:
    prompt = Prompt(text="Hi", output_tokens=16)
    assert sent(prompt) == {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, "options": ASKED}
    assert sent(prompt, "ollama-generate", stream=False) == {
        "model": "m", "prompt": "Hi", "raw": True, "stream": False, "options": ASKED,
    }  # fmt: skip
    assert (get("ollama").path, get("ollama-generate").path) == ("/api/chat", "/api/generate")


def test_what_is_an_option_here_goes_to_the_options() -> None:
    row = Prompt(text="Hi", output_tokens=16, extra={"max_tokens": 8, "stop": "x", "keep_alive": "5m"})
    body = sent(row, sampling={"top_k": 5}, logprobs=2, overrides={"options": {"num_ctx": 4096}, "temperature": 0.5, "think": False})
    assert body["options"] == {"num_predict": 8, "top_k": 5, "stop": ["x"], "num_ctx": 4096, "temperature": 0.5}
    assert (body["keep_alive"], body["think"], body["logprobs"], body["top_logprobs"]) == ("5m", False, True, 2)


def test_images_as_this_api_has_them() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    body = sent(Prompt(messages=[{"role": "user", "content": [{"type": "text", "text": "What?"}, image]}]))
    assert body["messages"] == [{"role": "user", "content": "What?", "images": ["aGk="]}]
    with pytest.raises(UsageError, match="ollama takes texts, and images as data: URLs"):
        sent(Prompt(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}]))


def test_what_the_api_has_not_is_refused() -> None:
    with pytest.raises(UsageError, match="backend ollama has no --ignore-eos, --use-beam-search, --continuous-usage-stats"):
        get("ollama").check(Options(model="m", ignore_eos=True, use_beam_search=True, continuous_usage=True))
    with pytest.raises(UsageError, match=r"--backend ollama$"):
        sent(Prompt(messages=[{"role": "user", "content": "x"}]), "ollama-generate")


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("backend", ["ollama", "ollama-generate"])
def test_a_run(backend: str, whole: bool) -> None:
    events = CHAT if backend == "ollama" else GENERATE
    document = {"message": {"role": "assistant", "content": "Hello"}, "response": "Hello", **END}
    with Scripted(plays(events, document)) as server:
        config = RunConfig(base_url=server.url, backend=backend, model="m", num_prompts=3, random_output_len=9, no_stream_request=whole)
        result = run(config)
    request = server.seen[-1]
    body = json.loads(request.body)
    assert request.target == get(backend).path and body["options"] == {"num_predict": 9, "temperature": 0} and body["stream"] is not whole
    summary = result.summary
    assert (summary.completed, summary.failed, summary.total_input_tokens, summary.total_output_tokens) == (3, 0, 78, 9)
    assert (summary.distributions["ttft"].mean is None) == whole
    assert summary.distributions["s_ttft"].mean == pytest.approx(600)
