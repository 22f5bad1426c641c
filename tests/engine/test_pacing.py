"""Who takes which request: each exactly once, whatever the number of workers."""

import threading
from pathlib import Path

from loadstone.engine.pacing import Pacer, SharedQueue, Stripe
from loadstone.plan import NONE, build
from loadstone.workload.base import Prompt


def take_all(feed: Stripe | SharedQueue) -> list[int]:
    taken = []
    while (number := feed.take()) is not None:
        taken.append(number)
    return taken


def test_stripes() -> None:
    assert take_all(Stripe(0, 1, 4)) == [0, 1, 2, 3]
    assert [take_all(Stripe(worker, 3, 7)) for worker in range(3)] == [[0, 3, 6], [1, 4], [2, 5]]
    assert take_all(Stripe(5, 6, 3)) == []


def test_a_shared_queue_hands_out_each_number_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "next"
    path.write_bytes(bytes(8))
    shares: list[list[int]] = [[], [], [], []]

    def work(worker: int) -> None:
        shares[worker] += take_all(SharedQueue(path, 500))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for share in shares for number in share) == list(range(500))
    assert all(share == sorted(share) for share in shares)


def test_due_times_are_from_the_start(tmp_path: Path) -> None:
    plan = build(tmp_path, [Prompt(text="a")] * 3, [5, 10, 10], lambda _: b"x", model="m")
    pacer = Pacer(plan, Stripe(0, 1, 3), start_ns=1000)
    seen = []
    while pacer.has_next() and pacer.has_next():  # asking twice takes one
        seen.append((pacer.index, pacer.planned_ns))
        pacer.sent()
    assert seen == [(0, 1005), (1, 1010), (2, 1010)]


def test_a_stopped_pacer_has_no_next(tmp_path: Path) -> None:
    plan = build(tmp_path, [Prompt(text="a")] * 3, None, lambda _: b"x", model="m")
    pacer = Pacer(plan, Stripe(0, 1, 3), start_ns=0)
    assert pacer.has_next()
    pacer.stop()
    assert not pacer.has_next()


def test_a_closed_loop_has_no_due_times(tmp_path: Path) -> None:
    plan = build(tmp_path, [Prompt(text="a")], None, lambda _: b"x", model="m")
    pacer = Pacer(plan, Stripe(0, 1, 1), start_ns=1000)
    assert pacer.has_next() and pacer.planned_ns == NONE
