"""Backend template: the page's examples against servers that speak those APIs, the file's errors, and what placeholders and paths mean."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadstone import RunConfig, run
from loadstone.backends import get, paths
from loadstone.backends.base import Backend, Options, Prompt
from loadstone.bench.redecode import redecode
from loadstone.engine.exchange import End
from loadstone.errors import NotReadyError, UsageError
from loadstone.records import COMPLETED, FAILED, Record
from loadstone.report.result_file import result_document
from support.replies import plays, record
from support.scripted import Scripted, document

PAGE = Path(__file__).parents[2] / "docs" / "backends" / "template.md"
EXAMPLES = {
    name: "".join(line[4:] or "\n" for line in block.splitlines(keepends=True))
    for block, name in re.findall(r"((?: {4}# (\w+)\.yaml\n)(?: {4}.*\n)+)", PAGE.read_text())
}
LEAST = 'path: /x\nbody: {p: "{{prompt}}"}\nread: {text: t}\n'
SYSTEM = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]


def sse(*messages: Any) -> list[bytes]:
    return [b"data: " + json.dumps(message).encode() + b"\r\n\r\n" for message in messages]


def lines(*messages: Any) -> list[bytes]:
    return [json.dumps(message).encode() + b"\n" for message in messages]


def parts(*said: dict[str, Any], finish: str | None = None, **usage: int) -> dict[str, Any]:
    candidate = {"content": {"parts": list(said), "role": "model"}, "index": 0} | ({"finishReason": finish} if finish else {})
    return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 12, **usage}, "modelVersion": "g"}


GEMINI = sse(
    parts({"text": "Greet", "thought": True}, thoughtsTokenCount=3),
    parts({"text": "Hel"}, thoughtsTokenCount=3, candidatesTokenCount=1),
    parts({"text": "lo"}, {"text": "!"}, thoughtsTokenCount=3, candidatesTokenCount=3),
    parts({"text": ""}, finish="STOP", thoughtsTokenCount=3, candidatesTokenCount=3, cachedContentTokenCount=4),
)
GEMINI_WHOLE = parts(
    {"text": "Greet", "thought": True}, {"text": "Hello!"}, finish="STOP", thoughtsTokenCount=3, candidatesTokenCount=3, cachedContentTokenCount=4
)


def cohere(kind: str, **message: Any) -> dict[str, Any]:
    return {"type": kind, "index": 0, "delta": {"message": message}}


ENDS = {
    "type": "message-end",
    "delta": {"finish_reason": "COMPLETE", "usage": {"tokens": {"input_tokens": 12, "output_tokens": 6}, "cached_tokens": 4}},
}
COHERE = [
    *sse(
        {"id": "1", "type": "message-start", "delta": {"message": {"role": "assistant", "content": []}}},
        cohere("content-start", content={"type": "text", "text": ""}),
        cohere("content-delta", content={"thinking": "Greet"}),
        cohere("content-delta", content={"text": "Hel"}),
        cohere("content-delta", content={"text": "lo!"}),
        {"type": "content-end", "index": 0},
        ENDS,
    ),
    b"data: [DONE]\n\n",
]
COHERE_WHOLE = {
    "finish_reason": "COMPLETE", "usage": {"tokens": {"input_tokens": 12, "output_tokens": 6}, "cached_tokens": 4},
    "message": {"role": "assistant", "content": [{"type": "thinking", "thinking": "Greet"}, {"type": "text", "text": "Hello!"}]},
}  # fmt: skip
DETAILS = {"finish_reason": "length", "generated_tokens": 3, "inputs": None}
DJL = lines(
    {"token": {"id": 1, "text": "Hel", "log_prob": -0.1}},
    {"token": {"id": 2, "text": "lo", "log_prob": -0.1}},
    {"token": {"id": 3, "text": "!", "log_prob": -0.1}, "generated_text": "Hello!", "details": DETAILS},
)
DJL_WHOLE = {"generated_text": "Hello!", "details": DETAILS}
SPOKEN = {"gemini": (GEMINI, GEMINI_WHOLE), "cohere": (COHERE, COHERE_WHOLE), "djl": (DJL, DJL_WHOLE)}


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], str]:
    def write(name: str) -> str:
        path = tmp_path / (f"{name}.yaml" if name in EXAMPLES else "mine.yaml")
        path.write_text(EXAMPLES.get(name, name))
        return str(path)

    return write


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Backend]:
    """A backend of a template's text."""

    def make(text: str) -> Backend:
        (tmp_path / "mine.yaml").write_text(text)
        return get("template", str(tmp_path / "mine.yaml"))

    return make


@pytest.fixture
def reply(tmp_path: Path) -> Callable[..., Record]:
    """The record of a reply's pieces by a template's text."""

    def read(text: str, *pieces: bytes, **how: Any) -> Record:
        (tmp_path / "mine.yaml").write_text(text)
        return record("template", *pieces, template=str(tmp_path / "mine.yaml"), **how)

    return read


def sent(backend: Backend, prompt: Prompt, **options: Any) -> dict[str, Any]:
    asked = Options(model="m", **options)
    backend.check(asked)
    body: dict[str, Any] = json.loads(backend.payload(prompt, asked))
    return body


# the page's examples


def test_the_page_has_three_examples() -> None:
    assert set(EXAMPLES) == set(SPOKEN)


def test_gemini(reply: Callable[..., Record]) -> None:
    found = reply(EXAMPLES["gemini"], *GEMINI)
    assert (found.status, found.text, found.reasoning, found.finish_reason) == (COMPLETED, "Hello!", "Greet", "STOP")
    assert (found.token_ns, found.first_output_ns, found.token_counts) == ([11, 12, 13], 12, [3, 1, 2])
    assert (found.prompt_tokens, found.output_tokens, found.cached_tokens, found.reasoning_tokens) == (12, 6, 4, 3)
    assert reply(EXAMPLES["gemini"], *GEMINI[:3]).reason == "incomplete"
    blocked = reply(EXAMPLES["gemini"], *sse({"promptFeedback": {"blockReason": "SAFETY"}}))
    assert (blocked.status, blocked.error) == (FAILED, "SAFETY")
    odd = reply(EXAMPLES["gemini"], *sse(parts({"text": "a"}, finish="MALFORMED_FUNCTION_CALL")))
    assert odd.status == FAILED and "MALFORMED_FUNCTION_CALL" in odd.error


def test_cohere(reply: Callable[..., Record]) -> None:
    found = reply(EXAMPLES["cohere"], *COHERE)
    assert (found.status, found.text, found.reasoning, found.finish_reason) == (COMPLETED, "Hello!", "Greet", "COMPLETE")
    assert (found.token_ns, found.first_output_ns, found.token_counts) == ([13, 14, 15], 14, [])
    assert (found.prompt_tokens, found.output_tokens, found.cached_tokens) == (12, 6, 4)
    assert reply(EXAMPLES["cohere"], *COHERE[:7], b'data: {"t', end=End.RESET).status == COMPLETED  # after the end nothing matters
    assert reply(EXAMPLES["cohere"], *COHERE[:6], end=End.RESET).reason == "reset"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
    pieces = sse(cohere("tool-call-start", tool_calls=call), cohere("tool-call-delta", tool_calls={"function": {"arguments": "{}"}}), ENDS)
    called = reply(EXAMPLES["cohere"], *pieces, count_tokens=len)
    assert (called.token_ns, called.first_output_ns, called.output_tokens) == ([11, 12], 11, 6)


def test_djl(reply: Callable[..., Record]) -> None:
    found = reply(EXAMPLES["djl"], *DJL)
    assert (found.status, found.text, found.finish_reason, found.token_ns) == (COMPLETED, "Hello!", "length", [11, 12, 13])
    assert (found.output_tokens, found.token_source, found.prompt_tokens) == (3, "usage", None)
    one = reply(EXAMPLES["djl"], *lines({"token": {"text": "Hi"}, "generated_text": "Hi", "details": DETAILS}))
    assert (one.streamed, one.text, one.token_ns) == (True, "Hi", [11])  # a stream of one token is no document
    laid_out = reply(EXAMPLES["djl"], json.dumps(DJL_WHOLE, indent=2).encode())
    assert (laid_out.status, laid_out.streamed, laid_out.text) == (COMPLETED, False, "Hello!")
    broken = reply(EXAMPLES["djl"], DJL[0], *lines({"token": {"text": ""}, "generated_text": "", "details": {**DETAILS, "finish_reason": "error"}}))
    assert (broken.status, broken.reason) == (FAILED, "finish error")


@pytest.mark.parametrize("name", SPOKEN)
def test_whole(name: str, reply: Callable[..., Record]) -> None:
    found = reply(EXAMPLES[name], json.dumps(SPOKEN[name][1]).encode())
    assert (found.status, found.streamed, found.text, found.token_ns) == (COMPLETED, False, "Hello!", [])
    assert found.output_tokens == (3 if name == "djl" else 6)


def test_what_the_examples_send(made: Callable[[str], Backend]) -> None:
    gemini = made(EXAMPLES["gemini"])
    assert sent(gemini, Prompt(messages=SYSTEM, output_tokens=5), sampling={"top_k": 3}) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"text": "Ho"}]}],
        "generationConfig": {"maxOutputTokens": 5, "temperature": 0, "topK": 3},
    }
    assert "systemInstruction" not in sent(gemini, Prompt(text="Hi"))
    assert gemini.path_for(Options(model="g 2?")) == "/v1beta/models/g%202%3F:streamGenerateContent?alt=sse"
    assert gemini.path_for(Options(model="g", stream=False)) == "/v1beta/models/g:generateContent"
    assert gemini.headers("k") == {"x-goog-api-key": "k"} and gemini.headers("") == {} and gemini.key_variable == "GEMINI_API_KEY"
    cohere = made(EXAMPLES["cohere"])
    assert cohere.headers("k") == {"authorization": "Bearer k"}
    assert sent(cohere, Prompt(text="Hi", model="adapter", extra={"seed": 7, "max_tokens": 9, "safety_mode": "OFF"}), stream=False) == {
        "model": "adapter", "messages": [{"role": "user", "content": "Hi"}], "stream": False, "max_tokens": 9, "temperature": 0, "seed": 7,
        "safety_mode": "OFF",
    }  # fmt: skip
    djl = made(EXAMPLES["djl"])
    assert (gemini.takes_chats, djl.takes_chats) == (True, False)
    body = sent(djl, Prompt(text="Hi", output_tokens=5), ignore_eos=True, overrides={"parameters": {"seed": 1}})
    assert body == {"inputs": "Hi", "parameters": {"max_new_tokens": 5, "ignore_eos_token": True, "details": True, "seed": 1}, "stream": True}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", SPOKEN)
def test_a_run(name: str, whole: bool, example: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events, answer = SPOKEN[name]
    monkeypatch.setenv(get("template", example(name)).key_variable, "key-1")
    fields: dict[str, Any] = {"num_prompts": 4, "random_input_len": 8, "random_output_len": 3, "ready_check_timeout_sec": 5}
    with Scripted(plays(events, answer)) as server:
        config = RunConfig(
            backend="template",
            template=example(name),
            base_url=server.url,
            model="m",
            no_stream_request=whole,
            keep_wire=str(tmp_path / "kept"),
            **fields,
        )
        result = run(config)
    assert "key-1" in (server.seen[-1].headers.get("authorization", "") + server.seen[-1].headers.get("x-goog-api-key", ""))
    output = 3 if name == "djl" else 6
    summary = result.summary
    assert (summary.completed, summary.failed, summary.total_output_tokens) == (4, 0, 4 * output)
    assert (summary.distributions["ttft"].mean is None) == whole
    assert any(f"the template {name} ({example(name)})" in note for note in summary.notes)
    Path(example(name)).unlink()  # it may be gone, or be another
    (tmp_path / "scratch").mkdir()
    again = redecode(tmp_path / "kept", tmp_path / "scratch", {})
    assert (again.summary.completed, again.summary.total_output_tokens) == (4, 4 * output)
    assert again.summary.distributions["ttft"].mean == summary.distributions["ttft"].mean
    saved = result_document(again.summary, again.records, again.config, date=again.started, clock=again.clock, command=[], input_texts=None)
    assert saved["endpoint_type"] == "template" and any(name in note for note in saved["notes"])


def test_a_secret_of_the_file_stays_in_it(example: Callable[[str], str], tmp_path: Path) -> None:
    path = example(LEAST.replace("/x", "/x?key=hush-1") + "headers: {X-Api-Token: hush-2, Authorization: 'Bearer {{api_key}}', X-Note: seen}\n")
    refused = document("400 Bad", b'{"error": "no hush-2, and no hush-3"}')
    with Scripted(lambda c, r: document("200 OK", b'{"t": "a"}')(c, r) if len(server.seen) == 1 else refused(c, r)) as server:
        config = RunConfig(
            backend="template", template=path, base_url=server.url, model="m", num_prompts=2, api_key="hush-3", keep_wire=str(tmp_path / "kept")
        )
        result = run(config)
    assert (server.seen[-1].headers["x-api-token"], server.seen[-1].headers["authorization"]) == ("hush-2", "Bearer hush-3")
    assert server.seen[-1].target == "/x?key=hush-1"
    assert result.summary.failed == 2 and not any("hush" in error for error in result.records.error)
    for kept in ("run.json", "template.yaml"):
        assert "hush" not in (tmp_path / "kept" / kept).read_text()


# the file's errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty.*path, body and read.text"),
        ("- a", "must hold a mapping"),
        ("path: /x\nbody: {p: {{prompt}}}\nread: {text: t}", r'in quotes: "\{\{prompt\}\}"'),
        ("body: {p: '{{prompt}}'}\nread: {text: t}", r"path is missing: .*path: /v1/generate"),
        ("path: /x\nbody: {p: '{{prompt}}'}", "read is missing: where the text stands"),
        ("path: /x\nbody: {p: '{{prompt}}'}\nread: {end: {payload: x}}", "read.text is missing"),
        (LEAST + "hedders: {}", r"hedders: there is no such key \(did you mean headers\?\)"),
        (LEAST.replace("text: t", "text: t, finish: f"), r"read.finish: there is no such key \(did you mean finish_reason\?\)"),
        (LEAST + "whole: {read: {txt: t}}", r"whole.read.txt: there is no such key \(did you mean text\?\)"),
        (LEAST.replace("text: t", "text: t, end: {payloads: x}"), r"read.end.payloads: .*did you mean payload\?"),
        (LEAST.replace("text: t", "text: t, end: {}"), "read.end: give payload, event or path"),
        (LEAST + "stream: websocket", "stream: 'websocket' must be sse .* lines .* or none"),
        (LEAST.replace("text: t", "text: 3"), "read.text: expected"),
        (LEAST.replace("text: t", "text: a..b"), r"read.text: 'a..b' is no path"),
        (LEAST.replace("text: t", "text: 'a[!b=c]'"), r"read.text: 'a\[!b=c\]': \[!b=c\] is no condition"),
        (LEAST.replace("{{prompt}}", "{{promt}}"), r"body.p: there is no placeholder \{\{promt\}\} \(did you mean prompt\?\)"),
        (LEAST.replace("{{prompt}}", "{{the prompt}}"), r"body.p: .*without a placeholder"),
        (LEAST.replace('"{{prompt}}"', "hello"), "nothing of the data set would be sent"),
        (LEAST.replace("/x", "http://h/x"), "path: 'http://h/x' must be a path.*--base-url"),
        (LEAST.replace("/x", "/{{prompt}}"), r"path: there is no placeholder \{\{prompt\}\}.*\{\{model\}\}"),
        (LEAST + "headers: {a b: c}", "headers: 'a b' is no header name"),
        (LEAST + "headers: {a: '{{key}}'}", r"headers.a: there is no placeholder \{\{key\}\}"),
        (LEAST + "message: {r: '{{role}}'}", "message: it is the form of each of"),
        (LEAST + "path: /y", "'path' stands twice"),
        (LEAST.replace('"{{prompt}}"', '"{{prompt}}", d: 2026-01-01'), "holds a value that JSON has no form for"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_key(text: str, said: str, made: Callable[[str], Backend], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said) as error:
        made(text)
    assert str(tmp_path / "mine.yaml") in str(error.value)


def test_the_flags_go_together(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--template FILE go together"):
        get("template")
    with pytest.raises(UsageError, match="--template FILE go together"):
        get("openai", "x.yaml")
    with pytest.raises(UsageError, match=r"--template .*none.yaml: No such file"):
        get("template", str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sampling": {"top_k": 1, "min_p": 0.1}}, r'no "\{\{top_k\}\}", "\{\{min_p\}\}", so --top-k, --min-p cannot be sent'),
        ({"ignore_eos": True}, r'"\{\{ignore_eos\}\}", so --ignore-eos'),
        ({"logprobs": 2}, "--logprobs"),
        ({"use_beam_search": True}, "--use-beam-search"),
        ({"stream": False}, "--no-stream-request cannot be asked for"),
        ({"continuous_usage": True}, "backend template mine has no --continuous-usage-stats"),
        ({"max_tokens_field": "max_tokens"}, "--max-tokens-field"),
    ],
)
def test_what_a_template_has_no_place_for_is_refused(asked: dict[str, Any], said: str, made: Callable[[str], Backend]) -> None:
    with pytest.raises(UsageError, match=said):
        made(LEAST).check(Options(model="m", **asked))


def test_prompts_that_a_template_cannot_send(made: Callable[[str], Backend]) -> None:
    with pytest.raises(UsageError, match=r'has no "\{\{messages\}\}".*conversation of 3 messages'):
        sent(made(LEAST), Prompt(text="Hi", messages=SYSTEM))
    with pytest.raises(UsageError, match=r"adapter lora-1 cannot be asked for"):
        sent(made(LEAST), Prompt(text="Hi", model="lora-1"))
    chat = LEAST.replace("{{prompt}}", "{{messages}}") + 'message: {c: "{{content}}"}\n'
    assert sent(made(chat), Prompt(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])) == {
        "p": [{"c": "ab"}]
    }
    with pytest.raises(UsageError, match="has other parts"):
        sent(made(chat), Prompt(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]))


def test_lengths_without_a_place_are_told(made: Callable[[str], Backend]) -> None:
    assert any("{{max_tokens}}" in note for note in made(LEAST).notes(Options(model="m")))
    assert len(made(LEAST.replace("body: {", 'body: {n: "{{max_tokens}}", ')).notes(Options(model="m"))) == 1


# placeholders and paths


def test_placeholders(made: Callable[[str], Backend]) -> None:
    body = 'a: "{{max_tokens}}", b: "n={{max_tokens}}; {{stream}}", c: "{{max_tokens|7}}", d: ["{{seed}}"], e: {f: "{{seed}}"}'
    body += ', g: {}, h: "{{ stop | [x] }}"'
    backend = made(f'path: /x\nbody: {{p: "{{{{prompt}}}}", {body}}}\nread: {{text: t}}\n')
    assert sent(backend, Prompt(text='say "{{max_tokens}}"')) == {"p": 'say "{{max_tokens}}"', "c": 7, "g": {}, "h": "[x]"}
    asked = sent(backend, Prompt(text="", output_tokens=3, extra={"seed": 0}))
    assert asked == {"p": "", "a": 3, "b": "n=3; true", "c": 3, "d": [0], "e": {"f": 0}, "g": {}, "h": "[x]"}


def test_the_body_of_a_reply_in_one_piece(made: Callable[[str], Backend]) -> None:
    whole = "whole: {path: /whole, body: {o: {s: null, n: 1}}}\n"
    backend = made('path: /x\nbody: {p: "{{prompt}}", o: {s: true, m: 2}}\nread: {text: t}\n' + whole)
    assert sent(backend, Prompt(text="a"))["o"] == {"s": True, "m": 2}
    assert sent(backend, Prompt(text="a"), stream=False)["o"] == {"m": 2, "n": 1}


NESTED = {"a": [{"t": "x", "k": 1}, {"t": "y", "k": None}, {"t": "z", "ok": False}], "b.c": {"1": "one"}, "n": {"p": 2, "q": 3}, "type": "true"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.0.t", ["x"]), ("a.-1.t", ["z"]), ("a.3.t", []), ("a.-4.t", []), ("a.*.t", ["x", "y", "z"]),
        ("a.*[k].t", ["x"]), ("a.*[!k].t", ["y", "z"]),
        ("a.*[t=y].t", ["y"]), ("a.*[t!=y].t", ["x", "z"]), ("a.*[k=1].t", ["x"]), ("a.*[k=true].t", []), ("a.*[ok=false].t", ["z"]),
        ('"b.c".1', ["one"]),
        ("n.*", [2, 3]), ("[type=true].n.p", [2]), ("[type=false].n.p", []), ("a.t", []), ("a.*.k", [1]), ("x.y", []), ("n.p.q", []),
    ],
)  # fmt: skip
def test_paths(path: str, found: list[Any]) -> None:
    assert paths.find(NESTED, paths.parse(path)) == found


# replies


CUMULATIVE = LEAST.replace("text: t", "text: t, cumulative: true, finish_reason: f")


def test_cumulative_texts(reply: Callable[..., Record]) -> None:
    said = [{"t": "a"}, {"t": "a b"}, {"t": "a b"}, {"t": "a b\ud83d"}, {"t": "a b\U0001f30a"}, {"t": "a b\U0001f30a", "f": "stop"}]
    found = reply(CUMULATIVE, *sse(*said))
    assert (found.status, found.text, found.token_ns) == (COMPLETED, "a b\U0001f30a", [11, 12, 15])
    shorter = reply(CUMULATIVE, *sse({"t": "ab###"}, {"t": "ab", "f": "stop"}))
    assert (shorter.status, shorter.text) == (COMPLETED, "ab###")
    assert "does not begin" in reply(CUMULATIVE, *sse({"t": "a"}, {"t": "b", "f": "stop"})).error


def test_cumulative_texts_that_nobody_has_told_of(reply: Callable[..., Record]) -> None:
    said = sse(*({"t": "abcdef"[: size + 1]} for size in range(5)))
    assert "needs cumulative: true" in reply(LEAST, *said).error
    assert reply(LEAST.replace("text: t", "text: t, cumulative: false"), *said).text == "aababcabcdabcde"
    assert reply(LEAST, *sse(*({"t": text} for text in ("a", "ab", "x", "xyz", "xyzw")))).status == COMPLETED


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ("payload: '<end>'", b"data: <end>\n\n"), ("event: fin", b"event: fin\ndata: bye\n\n"), ("event: fin", b"event: fin\ndata: {}\n\n"),
        ("path: done", b'data: {"done": true}\n\n'), ("path: [x, r]", b'data: {"r": "stop"}\n\n'), ("path: '[k=end]'", b'data: {"k": "end"}\n\n'),
        ("path: never", b"data: [DONE]\n\n"),
    ],
)  # fmt: skip
def test_end_marks(end: str, last: bytes, reply: Callable[..., Record]) -> None:
    text = LEAST.replace("text: t", f"text: t, end: {{{end}}}")
    goes_on = b'data: {"t": "a", "done": false, "r": null}\n\n'
    assert reply(text, goes_on, last, b"data: {oops\n\n", end=End.RESET).status == COMPLETED
    assert reply(text, goes_on).reason == "incomplete"


def test_without_an_end_mark_the_body_s_end_has_to_do(reply: Callable[..., Record]) -> None:
    assert reply(LEAST, *sse({"t": "a"})).status == COMPLETED
    assert reply(LEAST, *sse({"t": "a"}), end=End.RESET).reason == "reset"
    assert reply(LEAST, *sse({"t": ""})).reason == "incomplete"


@pytest.mark.parametrize(
    ("piece", "said"),
    [
        (b'data: {"error": {"message": "no slot"}}\n\n', "no slot"), (b"event: error\ndata: gone\n\n", "gone"),
        (b"data: {oops\n\n", "malformed JSON"),
        (b"data: 7\n\n", "no JSON object"), (b"event: token\ndata: x\n\n", "malformed"),
    ],
)  # fmt: skip
def test_what_fails_a_reply(piece: bytes, said: str, reply: Callable[..., Record]) -> None:
    found = reply(LEAST, *sse({"t": "a"}), piece, *sse({"t": "b"}))
    assert found.status == FAILED and said in found.error


def test_pings_lists_and_odd_values(reply: Callable[..., Record]) -> None:
    pieces = [
        b"event: ping\ndata: hm\n\n",
        b": c\n\n",
        b"data:\n\n",
        *sse({"t": 7}, {"t": ["x"]}, {"t": None}, [{"t": "no"}], {"t": "a", "error": None}),
    ]
    assert reply(LEAST, *pieces).text == "a"
    in_list = LEAST.replace("text: t", "text: 0.t") + "stream: none\n"
    assert reply(in_list, b'[{"t": "a"}]').text == "a"
    assert reply(in_list, b'{"t": "a"}').error.startswith("the reply is JSON without 0.t")


@pytest.mark.parametrize("odd", [1e30, 2**70, -1, 3.5, True, "9", None, [5], {"a": 1}])
def test_an_absurd_count_is_as_good_as_none(odd: Any, reply: Callable[..., Record]) -> None:
    text = LEAST.replace("text: t", "text: t, output_tokens: n + m, prompt_tokens: n")
    found = reply(text, *sse({"t": "a"}, {"t": "b", "n": odd}))
    assert (found.status, found.output_tokens, found.token_source, found.prompt_tokens) == (COMPLETED, 2, "events", None)


def test_a_ready_check_says_what_the_template_misses(example: Callable[[str], str]) -> None:
    with Scripted(document("200 OK", b'{"answer": "a"}')) as server, pytest.raises(NotReadyError, match="JSON without t: "):
        run(RunConfig(backend="template", template=example(LEAST), base_url=server.url, model="m", num_prompts=1, ready_check_timeout_sec=0.2))
