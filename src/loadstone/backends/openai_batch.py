"""A whole OpenAI stream at once: the common shape of event, in runs of events that differ only in their text where there are any.

Anything out of the common shape (see `openai_chunks`) leaves the reply to be read event by event. What is taken means exactly what
`openai.OpenAI.read` says.
"""

from collections.abc import Sequence

import numpy as np

from loadstone.backends.base import Batch, Reply, Usage
from loadstone.backends.frames import Frames
from loadstone.backends.openai_chunks import Choice, Chunk, Counts, Delta, OutputDetails, PromptDetails, decode
from loadstone.backends.openai_runs import Run, Template, learn, run

LONGEST_SPAN_S = 1e8  # an arrival_time above this is a point in time, not a span; from what, it does not say, so it is left out
_PATIENCE = 8  # so many events may stand alone, and one more for each so many in runs, before the rest is taken one by one
_SHORT = 16  # a reply of fewer events costs less one by one than a template costs to learn
_MISSES = 3  # and so many templates may fit no other event


def running_usage_grew(reply: Reply, now: int | None, opening: bool) -> bool:
    """Whether an event with choices and `now` output tokens so far brought a token by that alone.

    It did if the event before it had fewer. The first count of a reply says nothing of the kind on an event that names the speaker or that ends the
    reply: there it is a total that rides along.
    """
    if now is None:
        return False
    if reply.running is not None:
        return now > reply.running
    return now > 0 and not reply.begun and not opening


def read_many(frames: Frames, reply: Reply) -> Batch | None:
    """The token events among `frames`, in order; None, with `reply` untouched, if any of them is out of the common shape."""
    try:
        parts = _parts(frames)
    except (ValueError, RecursionError):
        return None
    if parts is None:
        return None
    token = bytearray(len(frames.pieces))
    at = count = 0  # frames and token events so far
    texts: list[str] = []
    reasonings: list[str] = []
    running: list[int] = []
    server_ns: list[int] = []
    usages: list[Counts] = []
    first_visible: int | None = None
    for part in parts:
        if type(part) is Run:
            brought = b"\1" * len(part.texts) if all(part.texts) else bytes(map(bool, part.texts))
            token[at : at + len(brought)] = brought
            at += len(brought)
            (texts if part.visible else reasonings).extend(part.texts)
            if 1 in brought:
                if part.visible and first_visible is None:
                    first_visible = count
                count += brought.count(1)
            reply.running = None  # and it has begun: the event that taught the run's template was a token event
            continue
        assert type(part) is Chunk
        at += 1
        usage = part.usage
        now = None
        if usage is not None:
            usages.append(usage)
            now = usage.completion_tokens
        choices = part.choices
        if not choices:
            reply.running = reply.running if now is None else now
            continue
        choice = choices[0]
        said: Delta | Choice
        if choice.delta is not None:
            said, text = choice.delta, choice.delta.content
        else:
            said, text = choice, choice.text
        if choice.finish_reason:
            reply.finish(choice.finish_reason)
        thought = said.reasoning_content or said.reasoning
        grew = now is not None and running_usage_grew(reply, now, bool(choice.finish_reason or said.role))
        reply.running = now
        if text:
            if first_visible is None:
                first_visible = count
            texts.append(text)
        elif not (thought or grew):
            continue
        if thought:
            reasonings.append(thought)
        reply.begun = True
        token[at - 1] = 1
        count += 1
        if now is not None:
            running.append(now)
        arrival = choice.arrival_time
        if arrival is not None and 0 <= arrival < LONGEST_SPAN_S:
            server_ns.append(round(arrival * 1e9))
    reply.usage = reply.usage.then(_last_values(usages))
    return Batch(
        np.frombuffer(token, bool),
        "".join(texts),
        "".join(reasonings),
        first_visible,
        running if len(running) == count else [],
        server_ns if len(server_ns) == count else [],
    )


def _parts(frames: Frames) -> list[Chunk | Run] | None:
    """The frames decoded, in order: in runs where there are any, else one by one. None if one is no frame; ValueError if one is no `Chunk`."""
    if 0 < len(frames.pieces) < _SHORT:
        few = frames.payloads(0)
        return None if few is None else list(map(decode, few))
    parts: list[Chunk | Run] = []
    templates: list[Template] = []
    used: set[Template] = set()
    at, alone, total, to_the_end = 0, 0, len(frames.pieces), True
    while at < total:
        for template in templates:
            if frames.fits(template.before, template.after, at):
                stop = _last_alike(frames, template, at) if to_the_end else at
                alike = run(frames, template, at, stop) if stop > at else None
                if alike is None:  # another kind of event stands between
                    to_the_end = False
                    stop = frames.first_other(template.before, template.after, at + 1)
                    alike = run(frames, template, at, stop)
                    if alike is None:
                        return None
                parts.append(alike)
                used.add(template)
                at = stop
                break
        else:
            if alone > _PATIENCE + at // _PATIENCE or len(templates) - len(used) >= _MISSES:
                payloads = frames.payloads(at)
                if payloads is None:
                    return None
                parts.extend(map(decode, payloads))
                return parts
            payload = frames.payload(at)
            if payload is None:
                return None
            chunk = decode(payload)
            parts.append(chunk)
            alone, at = alone + 1, at + 1
            if len(templates) < _PATIENCE and (learned := learn(payload, chunk)) is not None:
                templates.append(learned)
    return parts


def _last_alike(frames: Frames, template: Template, start: int) -> int:
    """A guess where a run ends that begins at `start`: after the last frame but a few that fits. `start` itself if there is none."""
    total = len(frames.pieces)
    for stop in range(total, max(total - 4, start), -1):
        if frames.fits(template.before, template.after, stop - 1):
            return stop
    return start


def _last_values(usages: list[Counts]) -> Usage:
    """The last stated value of each count."""
    prompts = [usage.prompt_tokens_details for usage in usages if usage.prompt_tokens_details is not None]
    outputs = [usage.completion_tokens_details for usage in usages if usage.completion_tokens_details is not None]
    return Usage(
        prompt_tokens=_last(usages, "prompt_tokens"),
        output_tokens=_last(usages, "completion_tokens"),
        cached_tokens=_last(prompts, "cached_tokens"),
        reasoning_tokens=_last(outputs, "reasoning_tokens"),
        total_tokens=_last(usages, "total_tokens"),
    )


def _last(counts: Sequence[Counts | PromptDetails | OutputDetails], name: str) -> int | None:
    for count in reversed(counts):
        value: int | None = getattr(count, name)
        if value is not None:
            return value
    return None
