"""Transcriptions: the form that is sent, every form of reply, and a run against a server that speaks it."""

import json
import wave
from collections.abc import Callable
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

import pytest

from loadstone import RunConfig, run
from loadstone.backends import get, multipart
from loadstone.backends.base import Options, Prompt
from loadstone.engine.exchange import End
from loadstone.errors import UsageError
from loadstone.records import COMPLETED, FAILED
from support.replies import plays, record, typed
from support.scripted import Scripted, document

Message = dict[str, Any]


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A tenth of a second of silence."""
    path = tmp_path / "clip.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(1600))
    return path


def parts(body: bytes, content_type: str) -> list[tuple[str, str | None, str, bytes]]:
    """Name, file name, type and content of each part, by an independent reader of MIME."""
    message = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    assert message.is_multipart() and not message.defects
    return [
        (part.get_param("name", header="content-disposition"), part.get_filename(), part.get_content_type(), part.get_payload(decode=True))
        for part in message.iter_parts()
    ]  # type: ignore[misc]


def sent(prompt: Prompt, **options: Any) -> tuple[list[tuple[str, str]], tuple[str, str | None, str, bytes]]:
    """The fields of the form in order, and its file."""
    backend = get("openai-audio")
    *fields, file = parts(backend.payload(prompt, Options(model="m", **options)), backend.content_type)
    return [(name, content.decode()) for name, _, _, content in fields], file


def test_the_form(clip: Path) -> None:
    fields, file = sent(Prompt(audio=str(clip)))
    assert fields == [("model", "m"), ("stream", "true"), ("stream_include_usage", "true")]
    assert file == ("file", "clip.wav", "audio/wav", clip.read_bytes())


def test_fields_by_row_and_flag(clip: Path) -> None:
    prompt = Prompt(audio=str(clip), text="Names: Åse.", output_tokens=9, model="adapter", extra={"language": "no"})
    fields, _ = sent(prompt, continuous_usage=True, sampling={"temperature": 0.5}, overrides={"response_format": "json"})
    assert dict(fields) == {
        "model": "adapter", "prompt": "Names: Åse.", "max_completion_tokens": "9", "stream": "true", "stream_include_usage": "true",
        "stream_continuous_usage_stats": "true", "temperature": "0.5", "language": "no", "response_format": "json",
    }  # fmt: skip


def test_lists_objects_and_nulls_in_a_form(clip: Path) -> None:
    overrides = {"include[]": ["a", "b"], "vllm_xargs": {"x": 1}, "stream_include_usage": None}
    fields, _ = sent(Prompt(audio=str(clip)), overrides=overrides)
    assert fields == [("model", "m"), ("stream", "true"), ("include[]", "a"), ("include[]", "b"), ("vllm_xargs", '{"x": 1}')]


def test_without_a_stream_nothing_is_said_of_streams(clip: Path) -> None:
    assert sent(Prompt(audio=str(clip)), stream=False)[0] == [("model", "m")]
    assert sent(Prompt(audio=str(clip)), overrides={"stream": False})[0] == [("model", "m"), ("stream", "false")]


def test_names_with_quotes_and_bytes_of_any_kind() -> None:
    data = bytes(range(256)) + b"\r\n--\r\n"
    body = multipart.form({'a"b\r\nc': "x\r\ny"}, {"file": multipart.File('x"y.MP3', data)})
    (name, _, _, content), (_, filename, kind, file) = parts(body, multipart.CONTENT_TYPE)
    assert (name, content) == ("a%22b%0D%0Ac", b"x\r\ny")
    assert (filename, kind, file) == ("x%22y.MP3", "audio/mpeg", data)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: None, "cannot read the audio file .*x.wav: No such file"),
        (lambda folder: (folder / "x.wav").write_bytes(b""), "the audio file .*x.wav is empty"),
        (lambda folder: (folder / "x.wav").mkdir(), "cannot read the audio file .*x.wav: Is a directory"),
        (lambda folder: (folder / "x.wav").write_text(f"x{multipart.BOUNDARY}x"), "the audio file .*x.wav cannot be sent: .*boundary"),
    ],
)
def test_files_that_cannot_be_sent(make: Callable[[Path], Any], said: str, tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(UsageError, match=said):
        sent(Prompt(audio=str(tmp_path / "x.wav")))


def test_what_is_refused() -> None:
    with pytest.raises(UsageError, match=r"backend openai-audio sends audio files.*--dataset-name custom"):
        sent(Prompt(text="Hi"))
    with pytest.raises(UsageError, match="backend openai-audio has no --ignore-eos, --use-beam-search, --logprobs:"):
        get("openai-audio").check(Options(model="m", ignore_eos=True, use_beam_search=True, logprobs=1))


TOKENS = {"type": "tokens", "input_tokens": 14, "input_token_details": {"text_tokens": 0, "audio_tokens": 14}, "output_tokens": 5, "total_tokens": 19}
TRANSCRIPT: list[Message] = [
    {"type": "transcript.text.delta", "delta": "Good", "logprobs": [{"token": "Good"}]},
    {"type": "transcript.text.delta", "delta": ""},
    {"type": "transcript.text.delta", "delta": " day."},
    {"type": "transcript.text.done", "text": "Good day.", "usage": TOKENS},
]


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("after", [[], [b"data: [DONE]\n\n"]])
def test_openai_s_events(names: bool, after: list[bytes]) -> None:
    reply = record("openai-audio", *typed(*TRANSCRIPT, names=names), *after)
    assert (reply.status, reply.text, reply.token_ns) == (COMPLETED, "Good day.", [11, 13])
    assert (reply.prompt_tokens, reply.output_tokens, reply.token_source) == (14, 5, "usage")


def test_segments_repeat_the_deltas() -> None:
    segment = {"type": "transcript.text.segment", "id": "s", "speaker": "A", "start": 0.0, "end": 1.0, "text": "Good day."}
    with_deltas = record("openai-audio", *typed(*TRANSCRIPT[:-1], segment, TRANSCRIPT[-1]))
    assert (with_deltas.text, with_deltas.token_ns) == ("Good day.", [11, 13])
    alone = record("openai-audio", *typed(segment, {**segment, "text": " Bye."}, TRANSCRIPT[-1]))
    assert (alone.text, alone.token_ns) == ("Good day. Bye.", [11, 12])
    at_the_end = record("openai-audio", *typed(TRANSCRIPT[-1]))
    assert (at_the_end.text, at_the_end.token_ns, at_the_end.output_tokens) == ("Good day.", [11], 5)


def chunks(*texts: str, usage: bool = True) -> list[bytes]:
    """As vLLM sends them: the last text with the finish reason, then usage, then the end mark."""
    last = len(texts) - 1
    messages: list[Message] = [
        {"id": "trsc-1", "object": "transcription.chunk", "created": 1, "model": "m",
         "choices": [{"delta": {"content": text}} | ({"finish_reason": "stop", "stop_reason": None} if at == last else {})]}
        for at, text in enumerate(texts)
    ]  # fmt: skip
    if usage:
        counts = {"prompt_tokens": 104, "completion_tokens": 7, "total_tokens": 111}
        messages.append({"id": "trsc-1", "object": "transcription.chunk", "created": 1, "model": "m", "choices": [], "usage": counts})
    return [*(b"data: " + json.dumps(message).encode() + b"\n\n" for message in messages), b"data: [DONE]\n\n"]


def test_vllm_s_chunks() -> None:
    reply = record("openai-audio", *chunks(" Good", " day.", ""))
    assert (reply.status, reply.text, reply.token_ns, reply.finish_reason) == (COMPLETED, " Good day.", [11, 12], "stop")
    assert (reply.prompt_tokens, reply.output_tokens, reply.cached_tokens) == (104, 7, None)
    assert record("openai-audio", *chunks(" Good", " day.", usage=False)).token_source == "events"


def test_a_transcript_may_speak_of_transcripts() -> None:
    reply = record("openai-audio", *chunks('a "transcript.text.done" event', " ends it"))
    assert (reply.text, reply.output_tokens) == ('a "transcript.text.done" event ends it', 7)


@pytest.mark.parametrize(
    ("pieces", "reason", "said"),
    [
        ([*typed(TRANSCRIPT[0]), b'data: {"error": {"message": "no slot", "code": 500}}\n\n', b"data: [DONE]\n\n"], "server error", "no slot"),
        ([*typed({"type": "transcript.text.delta", "error": {"message": "no slot"}}, TRANSCRIPT[-1])], "server error", "no slot"),
        ([b'event: error\ndata: {"type": "transcript.error", "message": "no slot"}\n\n'], "server error", "no slot"),
        ([*typed(*TRANSCRIPT[:-1])], "incomplete", "end mark"),
        ([b'data: {"type": "transcript.\n\n'], "json", "malformed"),
        ([b""], "incomplete", ""),
        ([b" \n"], "incomplete", ""),
        ([b"<!DOCTYPE html><html>log in</html>"], "incomplete", ""),
        ([b'{"error": {"message": "bad file"}}'], "server error", "bad file"),
        ([b'{"choices": []}'], "server error", "without text"),
        ([b'{"text": 7}'], "server error", "without text"),
    ],
)
def test_what_is_no_transcription_is_no_success(pieces: list[bytes], reason: str, said: str) -> None:
    reply = record("openai-audio", *pieces)
    assert (reply.status, reply.reason) == (FAILED, reason) and said in reply.error


def test_a_cut_stream_or_text_is_a_failure() -> None:
    assert record("openai-audio", *typed(*TRANSCRIPT[:-1]), end=End.RESET).reason == "reset"
    assert record("openai-audio", b"Good d", end=End.RESET).reason == "reset"


SRT = "1\r\n00:00:00,000 --> 00:00:01,500\r\nGood day.\r\n\r\n2\r\n00:00:01,500 --> 00:00:03,000\r\n42\r\nor so.\r\n\r\n"
VTT = "WEBVTT\n\n00:00.000 --> 00:01.500\nGood day.\n\n00:01.500 --> 00:03.000\n42\nor so.\n"


@pytest.mark.parametrize(
    ("body", "text", "output_tokens"),
    [
        (json.dumps({"text": "Good day.", "usage": TOKENS}), "Good day.", 5),
        (json.dumps({"text": "Good day.", "usage": {"type": "duration", "seconds": 1}}), "Good day.", 2),
        (json.dumps({"task": "transcribe", "language": "en", "duration": 1.5, "text": "Good day.", "segments": [], "words": None}), "Good day.", 2),
        (json.dumps({"text": ""}), "", 0),  # silence
        ("Good day.\n", "Good day.\n", 2),
        (SRT, "Good day.\n42\nor so.", 5),
        (VTT, "Good day.\n42\nor so.", 5),
    ],
)
def test_whole_replies(body: str, text: str, output_tokens: int) -> None:
    reply = record("openai-audio", body.encode(), count_tokens=lambda said: len(said.split()))
    assert (reply.status, reply.streamed, reply.text, reply.output_tokens, reply.token_ns) == (COMPLETED, False, text, output_tokens, [])
    assert reply.prompt_tokens == (14 if "input_token_details" in body else None)


def test_a_bare_text_is_no_reply_of_another_backend() -> None:
    assert record("openai-chat", b"Good day.").status == FAILED


@pytest.mark.parametrize("endpoint", [None, "/v1/audio/translations"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_run(endpoint: str | None, whole: bool, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-1")
    rows = clip.parent / "clips.jsonl"
    rows.write_text('{"audio": "clip.wav", "language": "en"}\n')
    with Scripted(plays(chunks(" Good", " day.", ""), {"text": "Good day.", "usage": {"type": "duration", "seconds": 1}})) as server:
        config = RunConfig(
            base_url=server.url, backend="openai-audio", model="m", num_prompts=4, dataset_name="custom", dataset_path=str(rows),
            endpoint=endpoint, no_stream_request=whole, save_detailed=True,
        )  # fmt: skip
        result = run(config)
    request = server.seen[-1]
    assert (request.target, request.headers["authorization"]) == (endpoint or "/v1/audio/transcriptions", "Bearer key-1")
    *fields, file = parts(request.body, request.headers["content-type"])
    assert file == ("file", "clip.wav", "audio/wav", clip.read_bytes())
    assert {name: content for name, _, _, content in fields}["language"] == b"en"
    summary = result.summary
    assert (summary.completed, summary.failed) == (4, 0)
    assert (summary.total_output_tokens, summary.total_input_tokens) == ((0, 0) if whole else (28, 416))
    assert (summary.distributions["ttft"].mean is None) == whole
    assert result.input_texts == [str(clip)] * 4


def test_a_run_whose_server_answers_in_text(clip: Path) -> None:
    rows = clip.parent / "clips.jsonl"
    rows.write_text(json.dumps({"audio": str(clip)}))
    with Scripted(document("200 OK", b"Good day.\n")) as server:
        config = RunConfig(base_url=server.url, backend="openai-audio", model="m", num_prompts=2, dataset_name="custom", dataset_path=str(rows))
        result = run(config)
    assert (result.summary.completed, result.summary.failed) == (2, 0)
    assert result.summary.distributions["e2el"].mean is not None
