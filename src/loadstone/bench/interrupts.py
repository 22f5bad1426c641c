"""Ctrl-C, counted: the first stops the sending and drains, the second ends at once; both report and save what was measured."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """Counts SIGINT and SIGTERM while it is entered, in place of their usual effect. Off the main thread, where Python cannot, it counts none."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[int, object] = {}

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
