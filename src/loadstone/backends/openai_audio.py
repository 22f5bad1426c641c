"""OpenAI's transcriptions: POST /v1/audio/transcriptions, and with --endpoint /v1/audio/translations, as OpenAI, vLLM and others serve them.

Sent: a form with the audio file. Read: OpenAI's typed events (transcript.text.delta, and transcript.text.done as the end mark), the chat-like chunks
of vLLM, which end in [DONE], a document with `text`, or a bare text, subtitles with times (srt, vtt) among them.
Usage counts tokens in OpenAI's events and in vLLM's chunks; a usage by duration counts none.
"""

import re
from pathlib import Path
from typing import Any

from loadstone.backends import multipart
from loadstone.backends.base import Batch, Emission, Event, Frames, Options, Prompt, Reply, Usage, json_object
from loadstone.backends.openai import OpenAI, failed
from loadstone.backends.wire import count, mapping, text
from loadstone.errors import UsageError

TRANSCRIPT = b'"transcript.'  # in an event, perhaps of this API's types
FIELD_OF_A_STREAM = re.compile(rb"(?:data|event|id|retry)?:")  # a line of an event stream begins so
TIMES = re.compile(r"\d\d:\d\d[.,]\d{3} --> ")


class OpenAIAudio(OpenAI):
    name = "openai-audio"
    path = "/v1/audio/transcriptions"
    content_type = multipart.CONTENT_TYPE
    max_tokens_fields = ("max_completion_tokens",)
    has_ignore_eos = False
    has_beam_search = False
    has_logprobs = False

    def body(self, prompt: Prompt, options: Options) -> dict[str, Any]:
        """The fields of the form, but for the file."""
        body: dict[str, Any] = {"model": prompt.model or options.model}
        if prompt.text:
            body["prompt"] = prompt.text
        if prompt.output_tokens is not None:
            body["max_completion_tokens"] = prompt.output_tokens
        if options.stream:
            body |= {"stream": True, "stream_include_usage": True}
            if options.continuous_usage:
                body["stream_continuous_usage_stats"] = True
        return body | options.sampling | prompt.extra

    def payload(self, prompt: Prompt, options: Options) -> bytes:
        if prompt.audio is None:
            raise UsageError(
                f"backend {self.name} sends audio files, and a prompt of this data set has none: use --dataset-name custom with rows such as "
                '{"audio": "clip.wav"}'
            )
        path = Path(prompt.audio)
        try:
            file = multipart.File(path.name, path.read_bytes())
            if not file.data:
                raise UsageError(f"the audio file {path} is empty")
            fields = self.body(prompt, options) | options.overrides
            if not fields.get("stream"):  # vLLM refuses these without a stream
                fields = {name: value for name, value in fields.items() if not name.startswith("stream_") or name in options.overrides}
            return multipart.form(fields, {"file": file})
        except OSError as error:
            raise UsageError(f"cannot read the audio file {path}: {error.strerror or error}") from None
        except ValueError as error:
            raise UsageError(f"the audio file {path} cannot be sent: {error}") from None

    def read(self, event: Event, reply: Reply) -> Emission | None:
        if TRANSCRIPT in event.data and event.name != "error":
            message = json_object(event.data)
            kind = text(message.get("type"))
            if kind.startswith("transcript.") and not failed(message, reply):
                emission = _emission(message, kind, reply)
                reply.begun = reply.begun or emission is not None
                return emission
        return super().read(event, reply)

    def read_whole(self, document: dict[str, Any], reply: Reply) -> Emission | None:
        if failed(document, reply):
            return None
        said = document.get("text")
        if not isinstance(said, str):
            reply.fail("the reply is JSON without text, so no transcription")
            return None
        reply.finish()
        reply.usage = _usage(document)
        said = _without_times(said)
        return Emission(said) if said else None

    def is_text(self, body: bytes) -> bool:
        """A text, as response_format text, srt and vtt have it: not the lines of a stream, nor a page of HTML."""
        start = body[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
        return bool(start) and not FIELD_OF_A_STREAM.match(start) and not start.startswith(b"<")

    def read_many(self, frames: Frames, reply: Reply) -> Batch | None:
        """None: the fast way knows no typed events, and would take them for events without tokens."""
        return None


def _emission(message: dict[str, Any], kind: str, reply: Reply) -> Emission | None:
    """A typed event. A segment, where the speakers are told apart, repeats the deltas before it; the end repeats all: they count where they are the
    first to say something.
    """
    said = ""
    if kind == "transcript.text.delta":
        said = text(message.get("delta"))
        reply.so_far += said
    elif kind == "transcript.text.segment":
        said = "" if reply.so_far else text(message.get("text"))
    elif kind == "transcript.text.done":
        said = "" if reply.begun else text(message.get("text"))
        reply.usage = reply.usage.then(_usage(message))
        reply.finish()
        reply.done = True
    return Emission(said) if said else None


def _usage(message: dict[str, Any]) -> Usage:
    usage = mapping(message.get("usage"))
    return Usage(
        prompt_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        total_tokens=count(usage.get("total_tokens")),
    )


def _without_times(said: str) -> str:
    """The words of subtitles, without their numbers and times; any other text as it is."""
    if not TIMES.search(said[:4096]):
        return said
    blocks = re.split(r"\n\s*\n", said.replace("\r\n", "\n"))
    words = []
    for lines in (block.split("\n") for block in blocks):
        timed = [at for at, line in enumerate(lines) if TIMES.search(line)]
        words += [line for line in lines[timed[0] + 1 :] if line.strip()] if timed else []
    return "\n".join(words)


def backend(_name: str) -> OpenAIAudio:
    return OpenAIAudio()
