"""The plan: every request of a run with its due time and its body already encoded, as files that any worker can map into memory.

A plan is a folder: `plan.json` (schema, counts, model names), `index.bin` (one row of int64 a request, see COLUMNS), `bodies.bin` (the encoded
bodies, one after another) and, where a report will want them, `texts.jsonl` (the prompts as text). Nothing in it is secret: request heads are made
by the worker. Memory is the operating system's page cache, not Python lists.
"""

import mmap
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from loadstone.errors import UsageError

if TYPE_CHECKING:  # a worker process imports this file and should not pay for numpy
    from loadstone.workload.base import Prompt

SCHEMA = "loadstone.plan/1"
TEXTS = "texts.jsonl"
MOST_RESIDENT = 4 << 20  # bytes of bodies that a process keeps mapped; to give back so much takes some tens of microseconds
NONE = -1  # absent, in the columns of the index
COLUMNS = (
    "due_ns",  # from the start of the run; NONE in a closed loop
    "offset",  # of the body in bodies.bin
    "length",
    "model",  # number in the plan's list of models
    "target",
    "prompt_tokens",  # local count
    "output_tokens",  # wanted
    "conversation",
    "turn",
)
WIDTH = len(COLUMNS)


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the plan; its body is `Plan.body(index)`."""

    index: int
    due_ns: int | None
    target: int
    model: str
    prompt_tokens: int | None
    output_tokens: int | None
    conversation: int | None
    turn: int | None


class _Head(msgspec.Struct, kw_only=True):
    schema: str = SCHEMA
    requests: int
    models: list[str]


class Plan:
    """A plan opened from its folder: `due_ns(k)` and `body(k)` for the engine, `plan[k]` for everything that is known of request k."""

    def __init__(self, folder: Path) -> None:
        head = msgspec.json.decode((folder / "plan.json").read_bytes(), type=_Head)
        if head.schema != SCHEMA:
            raise UsageError(f"{folder}/plan.json has schema {head.schema!r}; this version of loadstone reads {SCHEMA!r}")
        self.folder, self.models, self._requests = folder, head.models, head.requests
        self._index = memoryview(_mapped(folder / "index.bin")).cast("q")
        self._bodies = _mapped(folder / "bodies.bin")
        self._resident = 0  # bytes of bodies looked at since their pages were last given back

    def __len__(self) -> int:
        return self._requests

    def due_ns(self, number: int) -> int:
        """When request `number` is due, from the start of the run; NONE in a closed loop."""
        return self._index[number * WIDTH]

    def conversation(self, number: int) -> int:
        """The conversation that request `number` is a turn of; NONE if of none."""
        return self._index[number * WIDTH + 7]

    def body(self, number: int) -> bytes:
        at = number * WIDTH
        start, length = self._index[at + 1], self._index[at + 2]
        self._resident += length
        if self._resident > MOST_RESIDENT and isinstance(self._bodies, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._bodies.madvise(mmap.MADV_DONTNEED)  # what has been sent would else stay mapped: as much memory as there is plan
            self._resident = 0
        return self._bodies[start : start + length]

    def __getitem__(self, number: int) -> PlannedRequest:
        at = number * WIDTH
        due, _, _, model, target, prompt_tokens, output_tokens, conversation, turn = self._index[at : at + WIDTH]
        return PlannedRequest(
            index=number,
            due_ns=_known(due),
            target=target,
            model=self.models[model],
            prompt_tokens=_known(prompt_tokens),
            output_tokens=_known(output_tokens),
            conversation=_known(conversation),
            turn=_known(turn) if conversation != NONE else None,
        )

    def texts(self) -> list[str] | None:
        """The prompts as text in plan order, or None if they were not kept."""
        return list(self.each_text()) if (self.folder / TEXTS).exists() else None

    def each_text(self) -> Iterator[str]:
        """The prompts as text one after the other; none if they were not kept."""
        if (self.folder / TEXTS).exists():
            with (self.folder / TEXTS).open("rb") as lines:
                for line in lines:
                    yield msgspec.json.decode(line, type=str)


def build(
    folder: Path,
    prompts: "Iterable[Prompt]",
    offsets: Iterable[int] | None,
    encode: "Callable[[Prompt], bytes]",
    *,
    model: str,
    keep_texts: bool = False,
) -> Plan:
    """Write the plan of `prompts`, due at `offsets` nanoseconds (None: a closed loop), into `folder` (made if missing) and open it.

    `model` is the model of the requests whose prompt names none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    models = {model: 0}
    due = None if offsets is None else iter(offsets)
    requests = at = 0
    with (folder / "index.bin").open("wb") as index, (folder / "bodies.bin").open("wb") as bodies, (folder / TEXTS).open("wb") as texts:
        for prompt in prompts:
            body = encode(prompt)
            bodies.write(body)
            array(
                "q",
                (
                    NONE if due is None else int(next(due)),
                    at,
                    len(body),
                    models.setdefault(prompt.model or model, len(models)),
                    0,
                    NONE if prompt.prompt_tokens is None else prompt.prompt_tokens,
                    NONE if prompt.output_tokens is None else prompt.output_tokens,
                    prompt.conversation,
                    prompt.turn,
                ),
            ).tofile(index)
            if keep_texts:
                texts.write(msgspec.json.encode(_text(prompt)) + b"\n")
            at += len(body)
            requests += 1
    if not keep_texts:
        (folder / TEXTS).unlink()
    (folder / "plan.json").write_bytes(msgspec.json.encode(_Head(requests=requests, models=list(models))))
    return Plan(folder)


def _mapped(path: Path) -> mmap.mmap | bytes:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""


def _text(prompt: "Prompt") -> str:
    """The prompt for a reader: a chat of one message by its words, a longer one, several texts and token ids as JSON, what is heard by the name of
    its file.
    """
    return prompt.text or prompt.audio or msgspec.json.encode(prompt.messages or prompt.texts or prompt.token_ids or []).decode()


def _known(number: int) -> int | None:
    return None if number == NONE else number
