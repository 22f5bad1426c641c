"""Ctrl-C. While the load runs it is counted: the first stops the sending and drains, the second ends at once; both report and save what was measured.
Before and after, it ends the command.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """Takes SIGINT and SIGTERM while it is entered. Within `counted()` they are counted; outside it they raise KeyboardInterrupt. Off the main
    thread, where Python cannot, it takes none.
    """

    def __init__(self) -> None:
        self.count = 0
        self._counting = False
        self._before: dict[int, object] = {}

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        if not self._counting:
            raise KeyboardInterrupt

    @contextmanager
    def counted(self) -> Iterator[Self]:
        self._counting = True
        try:
            yield self
        finally:
            self._counting = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
