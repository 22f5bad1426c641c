"""The live display: how far the run is, in place on a terminal, as plain lines elsewhere. It shows counts and rates only; it computes no metric."""

import sys
import time
from typing import TextIO

import msgspec

LINE_EVERY_S = 5.0
REDRAW_EVERY_S = 0.25


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run at one instant."""

    elapsed_s: float
    planned: int
    sent: int
    ended: int
    failed: int
    output_tokens: int  # of the completed requests decoded so far
    last_due_s: float | None  # when the schedule sends its last request; None in a closed loop
    phase: str = "running"  # running, draining, decoding

    @property
    def in_flight(self) -> int:
        return self.sent - self.ended

    @property
    def expected_s(self) -> float | None:
        """When the run should end, from how far it is; None as long as that would be a guess."""
        if self.last_due_s is not None and self.sent < self.planned:
            return max(self.last_due_s, self.elapsed_s)
        if self.ended < max(10, self.planned // 50):
            return None
        return self.elapsed_s * self.planned / self.ended


class Live:
    """Draws progress on `stream`: `update` may be called as often as one likes, `close` leaves the terminal clean."""

    def __init__(self, stream: TextIO = sys.stderr, *, enabled: bool = True) -> None:
        self._stream, self._enabled = stream, enabled
        self._terminal = enabled and stream.isatty()
        self._every_s = REDRAW_EVERY_S if self._terminal else LINE_EVERY_S
        self._shown_s = 0.0 if self._terminal else time.monotonic()
        self._before: Progress | None = None
        self._rates = (0.0, 0.0)

    def due(self) -> bool:
        return self._enabled and time.monotonic() - self._shown_s >= self._every_s

    def update(self, progress: Progress) -> None:
        """Show `progress` if the last show is long enough ago."""
        if not self.due():
            return
        self._shown_s = time.monotonic()
        line = self.line(progress)
        if self._terminal:
            self._stream.write(f"\r\x1b[2K{line}")
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def line(self, progress: Progress) -> str:
        """One line of at most 79 columns."""
        before = self._before
        if before is None or progress.elapsed_s - before.elapsed_s >= 1:
            since = progress.elapsed_s - (before.elapsed_s if before else 0.0)
            if since > 0:
                ended, tokens = (before.ended, before.output_tokens) if before else (0, 0)
                self._rates = (progress.ended - ended) / since, (progress.output_tokens - tokens) / since
            self._before = progress
        requests, tokens_rate = self._rates
        expected = progress.expected_s
        share = min(progress.ended / progress.planned, 1.0) if progress.planned else 1.0
        clock = f"{_clock(progress.elapsed_s)}/{_clock(expected) if expected is not None else '--:--'}"
        parts = [f"{share:4.0%} {progress.ended}/{progress.planned} done", f"{progress.in_flight} in flight"]
        if progress.failed:
            parts.append(f"{progress.failed} failed")
        parts += [f"{_short(requests)} req/s", f"{_short(tokens_rate)} tok/s", clock]
        if progress.phase != "running":
            parts.insert(0, progress.phase)
        return " · ".join(parts)[:79]

    def say(self, text: str) -> None:
        """A line of its own, above the display."""
        if self._terminal:
            self._stream.write("\r\x1b[2K")
        self._stream.write(text + "\n")
        self._stream.flush()

    def close(self) -> None:
        if self._terminal:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"


def _short(number: float) -> str:
    return f"{number:.1f}" if number < 100 else f"{number:.0f}" if number < 10_000 else f"{number / 1000:.1f}k"
