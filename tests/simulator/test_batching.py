"""The engine model against step times worked out by hand. Nothing here has a clock: the test says what time it is."""

import random

import pytest

from loadstone.simulator.batching import Engine, Sequence
from loadstone.simulator.options import SimulatorOptions
from loadstone.simulator.prefix import chained_blocks

MS = 1_000_000


def engine(**options: object) -> Engine:
    """Steps of 10 ms + 1 ms a sequence, prefill of 1,000 tokens/s (1 ms a token)."""
    plain: dict[str, object] = {"step_base_ms": 10.0, "step_per_seq_us": 1000.0, "prefill_tokens_per_s": 1000.0, "max_num_batched_tokens": 1000}
    return Engine(SimulatorOptions(**(plain | options)).validated())  # type: ignore[arg-type]


def play(machine: Engine, arrivals: list[tuple[int, Sequence]]) -> dict[Sequence, list[int]]:
    """Let `arrivals` (time in ns, sequence) come and run until all is done: when each sequence got each token event."""
    times: dict[Sequence, list[int]] = {sequence: [] for _, sequence in arrivals}
    left = sorted(arrivals, key=lambda arrival: arrival[0])
    for _ in range(100_000):
        if left and (machine.due_ns is None or left[0][0] <= machine.due_ns):
            at_ns, sequence = left.pop(0)
            machine.submit(sequence)
            if machine.idle:
                machine.begin(at_ns)
            continue
        if machine.due_ns is None:
            return times
        now_ns = machine.due_ns
        for sequence in machine.end():
            times[sequence].append(now_ns)
        machine.begin(now_ns)
    raise AssertionError("the engine does not come to an end")


def test_one_request_alone() -> None:
    lone = Sequence(prompt_tokens=50, output_tokens=4)
    machine = engine()
    # prefill: 10 + 1 + 50 = 61 ms gives the first token; then 11 ms each
    assert play(machine, [(7 * MS, lone)])[lone] == [68 * MS, 79 * MS, 90 * MS, 101 * MS]
    assert (machine.running, machine.free_tokens, machine.due_ns, machine.steps) == (0, 400_000, None, 4)


def test_a_prompt_that_joins_slows_those_that_decode() -> None:
    first, second = Sequence(10, 5), Sequence(40, 2)
    times = play(engine(), [(0, first), (25 * MS, second)])
    # first: 21; 32 (joined by second from 32 on: 10 + 2 + 40 = 52 ms); 84; then 12 ms with both; alone again 11
    assert times[first] == [21 * MS, 32 * MS, 84 * MS, 96 * MS, 107 * MS]
    assert times[second] == [84 * MS, 96 * MS]


def test_a_long_prompt_is_prefilled_in_chunks() -> None:
    decoding, long = Sequence(1, 8), Sequence(25, 1)
    times = play(engine(max_num_batched_tokens=11, max_num_seqs=4), [(0, decoding), (1 * MS, long)])
    # decoding: 10+1+1 = 12. Budget 11 less the decoding one = 10 a step: 10, 10, 5 of 25 tokens: 22, 22, 17 ms
    assert times[decoding][:5] == [12 * MS, 34 * MS, 56 * MS, 73 * MS, 84 * MS]
    assert times[long] == [73 * MS]


def test_the_budget_is_shared_first_come_first_served() -> None:
    a, b = Sequence(15, 1), Sequence(10, 1)
    times = play(engine(max_num_batched_tokens=20, max_num_seqs=4), [(0, Sequence(1, 1)), (1, a), (2, b)])
    # from 12 ms: a has 15 of 20 tokens, b 5: 10 + 2 + 20 = 32 ms; then b's other 5: 10 + 1 + 5 = 16 ms
    assert times[a] == [44 * MS]
    assert times[b] == [60 * MS]


def test_the_cap_on_running_sequences_makes_others_queue() -> None:
    sequences = [Sequence(1, 2) for _ in range(3)]
    machine = engine(max_num_seqs=2)
    times = play(machine, [(0, sequences[0]), (1, sequences[1]), (2, sequences[2])])
    # step 1 (0 alone): 12; step 2 (0 decodes, 1 prefills): +13 = 25, 0 done; step 3 (1 decodes, 2 prefills): 38; step 4: 49
    assert [times[sequence] for sequence in sequences] == [[12 * MS, 25 * MS], [25 * MS, 38 * MS], [38 * MS, 49 * MS]]
    assert (machine.peak_running, machine.peak_waiting) == (2, 2)


def test_the_kv_cache_holds_back_the_head_of_the_queue_and_all_behind_it() -> None:
    holder, large, small = Sequence(30, 3), Sequence(60, 1), Sequence(1, 1)
    machine = engine(kv_cache_tokens=70)
    times = play(machine, [(0, holder), (1, large), (2, small)])
    # holder keeps 33 of 70 until it ends: 41, 52, 63; large (61) waits, and small behind it though it would fit
    assert times[holder] == [41 * MS, 52 * MS, 63 * MS]
    assert times[large] == times[small] == [(63 + 10 + 2 + 61) * MS]
    assert machine.free_tokens == 70


def test_fixed_steps_end_on_a_grid_and_prompts_cost_nothing() -> None:
    early, late = Sequence(10_000, 3), Sequence(5, 2)
    machine = engine(step_us=20_000)
    times = play(machine, [(7 * MS, early), (39 * MS, late)])
    assert times[early] == [20 * MS, 40 * MS, 60 * MS]
    assert times[late] == [40 * MS, 60 * MS]


def test_fixed_steps_start_from_the_origin() -> None:
    machine = Engine(SimulatorOptions(step_us=20_000), origin_ns=3 * MS)
    lone = Sequence(1, 2)
    assert play(machine, [(24 * MS, lone)])[lone] == [43 * MS, 63 * MS]


def test_several_tokens_a_step() -> None:
    lone = Sequence(1, 7)
    machine = engine(tokens_per_event=3)
    counts = []
    machine.submit(lone)
    machine.begin(0)
    while machine.due_ns is not None:
        now_ns = machine.due_ns
        counts += [sequence.fresh for sequence in machine.end()]
        machine.begin(now_ns)
    assert counts == [3, 3, 1]


@pytest.mark.parametrize(("stall_at", "expected"), [(2, [12, 23, 134, 145]), (0, [123, 134, 145, 156]), (99, [12, 23, 34, 45])])
def test_a_stall_stops_one_stream_for_its_length_and_a_step(stall_at: int, expected: list[int]) -> None:
    lone = Sequence(1, 4, stall_at=stall_at, stall_ns=100 * MS)
    machine = engine()
    assert play(machine, [(0, lone)])[lone] == [value * MS for value in expected]
    assert machine.running == 0


def test_a_request_that_comes_while_all_others_stall_starts_at_once() -> None:
    stalled, other = Sequence(1, 3, stall_at=1, stall_ns=500 * MS), Sequence(1, 1)
    times = play(engine(), [(0, stalled), (100 * MS, other)])
    assert times[other] == [112 * MS]
    assert times[stalled] == [12 * MS, 523 * MS, 534 * MS]


def test_cancelling_frees_what_was_held_wherever_the_request_is() -> None:
    machine = engine(max_num_seqs=3, max_num_batched_tokens=12)
    decoding, stalled, prefilling, waiting = Sequence(1, 9), Sequence(1, 9, stall_at=1, stall_ns=10**12), Sequence(100, 9), Sequence(1, 9)
    for sequence in (decoding, stalled, prefilling, waiting):
        machine.submit(sequence)
    machine.begin(0)
    machine.end()
    machine.begin(10 * MS)
    assert (machine.running, machine.waiting) == (3, 1)
    for sequence in (waiting, stalled, prefilling, decoding, decoding):
        machine.cancel(sequence)
    assert (machine.running, machine.waiting, machine.free_tokens) == (0, 0, 400_000)
    machine.end()
    machine.begin(20 * MS)
    assert machine.due_ns is None
    later = Sequence(1, 1)
    assert play(machine, [(50 * MS, later)])[later] == [62 * MS]


def test_whatever_comes_every_request_gets_its_tokens_and_limits_hold() -> None:
    rng = random.Random(5)
    machine = engine(max_num_seqs=7, kv_cache_tokens=300, max_num_batched_tokens=16)
    arrivals = [(rng.randrange(3_000) * MS, Sequence(rng.randint(1, 60), rng.randint(1, 30))) for _ in range(200)]
    times = play(machine, arrivals)
    assert all(len(times[sequence]) == sequence.output_tokens for _, sequence in arrivals)
    assert machine.peak_running == 7
    assert (machine.free_tokens, machine.running, machine.waiting) == (300, 0, 0)
    firsts = [times[sequence][0] for _, sequence in sorted(arrivals, key=lambda arrival: arrival[0])]
    assert all(first > at for (at, _), first in zip(sorted(arrivals, key=lambda arrival: arrival[0]), firsts, strict=True))


def test_a_cached_prefix_needs_no_prefill() -> None:
    prompt = [f"w{number}" for number in range(40)]
    first, same, longer, other = (
        Sequence(len(words), 1, blocks=chained_blocks(words)) for words in (prompt, prompt, [*prompt, *"abcdefgh"], ["x", *prompt[1:]])
    )
    times = play(engine(prefix_cache=True), [(0, first), (100 * MS, same), (200 * MS, longer), (300 * MS, other)])
    # 40 tokens have two whole blocks: 32 cached, 8 left; 48 tokens share those two; another first word shares nothing
    assert [sequence.cached_tokens for sequence in (first, same, longer, other)] == [0, 32, 32, 0]
    assert [times[sequence] for sequence in (first, same, longer, other)] == [[51 * MS], [119 * MS], [227 * MS], [351 * MS]]
