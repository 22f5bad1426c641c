"""The engine model: continuous batching with chunked prefill, as a pure state machine. It has no clock and no sockets; who drives it says the time.

A step runs from `begin` to `due_ns`, when `end` gives out its tokens. Its length is

    step = base + per_sequence * (sequences in the step) + prefill tokens in the step / prefill rate

Each decoding sequence is in every step. What they leave of the step's token budget goes to prompts, first come first served; a prompt longer than
the rest of the budget is prefilled over several steps, and the step that ends it gives the first token. A waiting request is admitted when fewer
than `max_num_seqs` run and the KV cache has room for its prompt *and* its whole reply: room is reserved at admission, so nothing is ever preempted.
The queue is strict: a request that does not fit holds back those behind it.

With a fixed step the length is constant, prompts cost nothing, steps end on multiples of it, and whoever waits when a step ends gets a token then.
"""

from collections import deque
from typing import Any

from loadstone.simulator.options import SimulatorOptions
from loadstone.simulator.prefix import PrefixCache

NEVER = 1 << 62


class Sequence:
    """One request inside the engine. `owner` is the driver's own; `fresh` is how many tokens the last step gave."""

    __slots__ = ("blocks", "cached_tokens", "fresh", "made", "output_tokens", "owner", "prefill_left", "prompt_tokens", "stall_ns", "state", "stop")

    WAITING, RUNNING, GONE = range(3)

    def __init__(
        self,
        prompt_tokens: int,
        output_tokens: int,
        owner: Any = None,
        *,
        stall_at: int = NEVER,
        stall_ns: int = 0,
        blocks: tuple[int, ...] = (),
    ) -> None:
        """`stall_at`: tokens after which the sequence stops for `stall_ns`, once. `blocks`: the prompt's whole blocks, for the prefix cache."""
        self.prompt_tokens = self.prefill_left = prompt_tokens
        self.output_tokens = output_tokens
        self.owner = owner
        self.stall_ns = stall_ns
        self.stop = min(stall_at, output_tokens)  # tokens at which it leaves the batch, to stall or for good
        self.blocks = blocks
        self.cached_tokens = self.made = self.fresh = 0
        self.state = Sequence.WAITING

    @property
    def finished(self) -> bool:
        return self.made >= self.output_tokens


class Engine:
    """`due_ns` is when the step under way ends, None when there is nothing to do."""

    def __init__(self, options: SimulatorOptions, origin_ns: int = 0) -> None:
        """`origin_ns`: where the grid of fixed steps begins."""
        self._base_ns = options.step_base_ms * 1e6
        self._sequence_ns = options.step_per_seq_us * 1e3
        self._prefill_ns = 1e9 / options.prefill_tokens_per_s
        self._fixed_ns = (options.step_us or 0) * 1000
        self._origin_ns = origin_ns
        self._max_sequences = options.max_num_seqs
        self._budget = options.max_num_batched_tokens
        self._per_step = options.tokens_per_event
        self._prefixes = PrefixCache(options.kv_cache_tokens) if options.prefix_cache else None
        self._waiting: deque[Sequence] = deque()
        self._prefilling: list[Sequence] = []
        self._decoding: list[Sequence] = []
        self._stalled: list[tuple[int, Sequence]] = []
        self.free_tokens = options.kv_cache_tokens
        self.due_ns: int | None = None
        self.step_ns = 0  # length of the step under way
        self.idle = True  # no step is under way, or one that only waits for a stall to end
        self.waiting = self.running = self.peak_waiting = self.peak_running = self.steps = 0

    def submit(self, sequence: Sequence) -> None:
        """Queue a request. If the engine is idle, call `begin` to start a step at once."""
        self._waiting.append(sequence)
        self.waiting += 1
        self.peak_waiting = max(self.peak_waiting, self.waiting)

    def cancel(self, sequence: Sequence) -> None:
        """Forget a request wherever it is; what it held is free for the next step."""
        if sequence.state == Sequence.WAITING:
            self.waiting -= 1  # it is skipped when its turn comes
            sequence.state = Sequence.GONE
        elif sequence.state == Sequence.RUNNING:
            for group in (self._decoding, self._prefilling):
                if sequence in group:
                    group.remove(sequence)
            self._stalled = [entry for entry in self._stalled if entry[1] is not sequence]
            self._release(sequence)

    def begin(self, start_ns: int) -> None:
        """Form the step that starts at `start_ns` and set `due_ns`."""
        if self._stalled:
            self._decoding += [sequence for until_ns, sequence in self._stalled if until_ns <= start_ns]
            self._stalled = [entry for entry in self._stalled if entry[0] > start_ns]
        self.idle = not (self.waiting or self._prefilling or self._decoding)
        if self.idle:
            self.due_ns = min((until_ns for until_ns, _ in self._stalled), default=None)
            self.step_ns = 0
        elif self._fixed_ns:
            self.step_ns = self._fixed_ns
            self.due_ns = start_ns + self._fixed_ns - (start_ns - self._origin_ns) % self._fixed_ns
        else:
            sequences, prefill_tokens = self._fill()
            self.step_ns = max(1000, round(self._base_ns + self._sequence_ns * sequences + self._prefill_ns * prefill_tokens))
            self.due_ns = start_ns + self.step_ns

    def end(self) -> list[Sequence]:
        """End the step under way: the sequences that got tokens (`fresh` of them), in order of admission."""
        now_ns, self.due_ns = self.due_ns or 0, None
        if self.idle:
            return []
        self.idle = True
        self.steps += 1
        first = self._prefilled(now_ns)
        given = self._decoding + first
        per_step, left_out = self._per_step, False
        for sequence in given:
            left = sequence.output_tokens - sequence.made
            sequence.fresh = per_step if per_step < left else left
            sequence.made += sequence.fresh
            if sequence.made >= sequence.stop:
                left_out = True
        if left_out:
            self._decoding = [sequence for sequence in given if sequence.made < sequence.stop or self._leave(sequence, now_ns)]
        elif first:
            self._decoding = list(given)
        return given

    def _fill(self) -> tuple[int, int]:
        """Share out the step's token budget: (sequences in the step, prefill tokens in the step)."""
        sequences, budget = len(self._decoding), self._budget - len(self._decoding)
        prefill_tokens = 0
        for sequence in self._prefilling:
            if prefill_tokens == budget:
                return sequences, prefill_tokens
            sequences += 1
            prefill_tokens += self._prefill(sequence, budget - prefill_tokens)
        while prefill_tokens < budget and (admitted := self._admit()):
            sequences += 1
            prefill_tokens += self._prefill(admitted, budget - prefill_tokens)
            self._prefilling.append(admitted)
        return sequences, prefill_tokens

    @staticmethod
    def _prefill(sequence: Sequence, budget: int) -> int:
        tokens = min(sequence.prefill_left, budget)
        sequence.prefill_left -= tokens
        return tokens

    def _admit(self) -> Sequence | None:
        """The head of the queue if there is room for it."""
        while self._waiting and self._waiting[0].state == Sequence.GONE:
            self._waiting.popleft()
        if not self._waiting or self.running >= self._max_sequences:
            return None
        sequence = self._waiting[0]
        room = sequence.prompt_tokens + sequence.output_tokens
        if room > self.free_tokens:
            return None
        self._waiting.popleft()
        self.waiting -= 1
        self.free_tokens -= room
        self.running += 1
        self.peak_running = max(self.peak_running, self.running)
        sequence.state = Sequence.RUNNING
        if self._prefixes:
            sequence.cached_tokens = self._prefixes.cached_tokens(sequence.blocks, sequence.prompt_tokens)
            sequence.prefill_left -= sequence.cached_tokens
        return sequence

    def _prefilled(self, now_ns: int) -> list[Sequence]:
        """The sequences whose prefill the step that now ends has ended."""
        if self._fixed_ns:
            first = []
            while admitted := self._admit():
                first.append(admitted)
        elif self._prefilling:
            first = [sequence for sequence in self._prefilling if sequence.prefill_left == 0]
            self._prefilling = [sequence for sequence in self._prefilling if sequence.prefill_left]
        else:
            return []
        if self._prefixes:
            for sequence in first:
                self._prefixes.add(sequence.blocks)
        return [sequence for sequence in first if sequence.stop or self._leave(sequence, now_ns)]

    def _leave(self, sequence: Sequence, now_ns: int) -> bool:
        """Take a sequence that has reached its stop out of the batch: it is finished, or it stalls. Always False, for use in a filter."""
        if sequence.finished:
            self._release(sequence)
        else:
            sequence.stop = sequence.output_tokens
            self._stalled.append((now_ns + sequence.stall_ns, sequence))
        return False

    def _release(self, sequence: Sequence) -> None:
        sequence.state = Sequence.GONE
        self.running -= 1
        self.free_tokens += sequence.prompt_tokens + sequence.output_tokens
