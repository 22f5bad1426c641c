"""Clocks: the kernel's receive stamps are in real time, all else is monotonic; and a timer that is finer than a poll's milliseconds."""

import ctypes
import os
import socket
import struct
import sys
import time

SO_TIMESTAMPNS = 35  # a struct timespec of CLOCK_REALTIME with every read: asm-generic/socket.h
KERNEL_STAMPS = sys.platform == "linux"
STAMP = struct.Struct("=qq")  # seconds, nanoseconds


def realtime_offset_ns(rounds: int = 200) -> int:
    """CLOCK_REALTIME - CLOCK_MONOTONIC, from the tightest of `rounds` pairs of readings. Good to about 50 ns."""
    best, offset = 1 << 62, 0
    for _ in range(rounds):
        before = time.monotonic_ns()
        real = time.time_ns()
        after = time.monotonic_ns()
        if after - before < best:
            best, offset = after - before, real - (before + after) // 2
    return offset


def ask_for_stamps(sock: socket.socket) -> None:
    """Have the kernel tell with every read when its data arrived."""
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def stamp_now() -> bytes:
    """The user-space clock in the form of a kernel stamp, for a read that came without one."""
    return STAMP.pack(*divmod(time.time_ns(), 1_000_000_000))


class Timer:
    """Wakes a poll at an absolute CLOCK_MONOTONIC time, to some ten microseconds. Linux: a timer file descriptor; elsewhere `fd` is None and the
    poll's own time-out, in whole milliseconds, has to do.
    """

    _ABSOLUTE = 1  # TFD_TIMER_ABSTIME

    def __init__(self) -> None:
        self.fd: int | None = None
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
            self.fd = fd if fd >= 0 else None
        self._armed_ns = 0

    def arm(self, due_ns: int) -> None:
        """Become readable at `due_ns`. Arming for the same time again costs nothing."""
        if self.fd is None or due_ns == self._armed_ns:
            return
        self._armed_ns = due_ns
        value = struct.pack("=qqqq", 0, 0, *divmod(max(due_ns, 1), 1_000_000_000))
        if self._libc.timerfd_settime(self.fd, self._ABSOLUTE, value, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def until(self, due_ns: int, most_ns: int) -> float:
        """Seconds that a poll may block so as to be awake at `due_ns`: none if that is now, at most `most_ns`. Arms the timer for it."""
        wait_ns = due_ns - time.monotonic_ns()
        if wait_ns <= 0:
            return 0.0
        if self.fd is None:
            return min(wait_ns, most_ns) / 1e9 if wait_ns > 1_000_000 else 0.0
        self.arm(due_ns)
        return most_ns / 1e9

    def clear(self) -> None:
        """Take the expiry off the descriptor, so that it is no longer readable."""
        if self.fd is not None:
            try:
                os.read(self.fd, 8)
            except BlockingIOError:
                return

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
