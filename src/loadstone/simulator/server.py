"""The simulated server: one thread, one loop over sockets and the engine's clock.

The engine's steps are due at absolute times: a step begins when the one before it was due to end, whatever sending its tokens took. Only when the
server has fallen behind by more than a step does it begin anew from the present; `step_late_ms` in the truth says how late steps were served. All
streams of a batch are written at the end of the step, as by a real engine.

Requests are read and stamped before any of them is looked into: five hundred that come at once have waited for the server's parser, not in the
kernel, and the truth counts that wait.
"""

import gc
import os
import resource
import signal
import socket
import sys
import time
from collections import deque
from typing import Any

import msgspec

from loadstone.engine.clock import KERNEL_STAMPS, Timer, ask_for_stamps
from loadstone.engine.poller import IN, OUT, new_poller
from loadstone.errors import UsageError
from loadstone.simulator.batching import Engine
from loadstone.simulator.connection import Connection, HttpRequest, Read
from loadstone.simulator.options import SimulatorOptions
from loadstone.simulator.routes import Routes
from loadstone.simulator.truth import Truth

BACKLOG = 8192
ACCEPTS = 64  # connections taken in one go, so that steps are not late
FOLD_MARGIN_NS = 1_000_000  # before a step is due, sums are left alone
LONG_WAIT_S = 1.0
SLICE_NS = 1_000_000  # looking into what has come, between two looks at the sockets


class Server:
    """Listens from its construction; `run` serves until `stop`. Raises UsageError when the address cannot be had."""

    def __init__(self, options: SimulatorOptions) -> None:
        self.options = options
        self.engine = Engine(options, time.monotonic_ns())
        self.truth = Truth(options.truth_requests, options.truth_sends)
        self._routes = Routes(options, self.engine, self.truth)
        self._listener = _listen(options.host, options.port)
        self.port: int = self._listener.getsockname()[1]
        self._poller, self._timer = new_poller(), Timer()
        self._connections: dict[int, Connection] = {}
        self._inbox: deque[tuple[Connection, Read]] = deque()  # read, with the time, and not yet looked into
        self._watched: dict[int, Any] = {self._listener.fileno(): self._accept}
        if self._timer.fd is not None:
            self._watched[self._timer.fd] = self._timer.clear
        for fd in self._watched:
            self._poller.register(fd, IN)
        self._accepting, self._stopping = True, False

    @property
    def url(self) -> str:
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"http://{host}:{self.port}"

    def run(self) -> None:
        """Serve until told to stop. Garbage collection is off: nothing here makes cycles that live on."""
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            while not self._stopping:
                self._turn()
        finally:
            gc.enable()
            gc.unfreeze()
            self._close()

    def stop(self) -> None:
        self._stopping = True

    def stop_on_signals(self) -> None:
        """SIGINT and SIGTERM end `run`, and so does the end of standard input if the options say so. Main thread only."""
        wake_read, wake_write = socket.socketpair()
        for end in (wake_read, wake_write):
            end.setblocking(False)
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: self.stop())
        self._wake = wake_read, wake_write
        self._watch(wake_read.fileno(), self.stop)
        if self.options.until_stdin_closes:
            try:
                self._watch(sys.stdin.fileno(), self._stdin_readable)
            except PermissionError:
                raise UsageError("--until-stdin-closes needs a pipe or a terminal as standard input") from None

    def final_truth(self, with_requests: bool = False) -> dict[str, Any]:
        return self._routes.truth_document(with_requests)

    # what connections call

    def handle(self, connection: Connection, request: HttpRequest) -> None:
        self._routes.handle(connection, request)

    def want_writable(self, connection: Connection, wanted: bool) -> None:
        self._poller.modify(connection.fd, IN | OUT if wanted else IN)

    def gone(self, connection: Connection) -> None:
        self._poller.unregister(connection.fd)
        del self._connections[connection.fd]
        if not self._accepting:
            self._accepting = True
            self._poller.register(self._listener.fileno(), IN)

    # the loop

    def _turn(self) -> None:
        """Wait for what comes first, a socket or the end of the step. A due step goes first, then reading, then looking into what was read."""
        engine, monotonic_ns, inbox = self.engine, time.monotonic_ns, self._inbox
        wait_s = LONG_WAIT_S
        if inbox:
            wait_s = 0
        elif engine.due_ns is not None:
            left_ns = engine.due_ns - monotonic_ns()
            if left_ns > 0 and self._timer.fd is not None:
                self._timer.arm(engine.due_ns)
            else:
                wait_s = min(max(left_ns, 0) / 1e9, LONG_WAIT_S)
        ready = self._poller.poll(wait_s, 1024)
        connections = self._connections
        for fd, events in ready:
            if engine.due_ns is not None and monotonic_ns() >= engine.due_ns:
                self._step()
            connection = connections.get(fd)
            if connection is None:
                if fd in self._watched:
                    self._watched[fd]()
                continue
            if events & OUT:
                connection.writable()
            if events & ~OUT and connection.open and (read := connection.read()) is not None:
                inbox.append((connection, read))
        until_ns = monotonic_ns() + SLICE_NS
        while inbox and monotonic_ns() < until_ns:
            if engine.due_ns is not None and monotonic_ns() >= engine.due_ns:
                self._step()
            connection, read = inbox.popleft()
            connection.take(read)
        now_ns = monotonic_ns()
        if engine.due_ns is not None and now_ns >= engine.due_ns:
            self._step()
        elif not inbox and (engine.due_ns is None or now_ns + FOLD_MARGIN_NS < engine.due_ns):
            self.truth.fold(now_ns + FOLD_MARGIN_NS)

    def _step(self) -> None:
        engine = self.engine
        due_ns, step_ns = engine.due_ns or 0, engine.step_ns
        given = engine.end()
        late_ns = time.monotonic_ns() - due_ns
        engine.begin(due_ns if late_ns < step_ns else due_ns + late_ns)
        if given:
            self.truth.late.add(late_ns)
        for sequence in given:
            if sequence.owner is not None:
                sequence.owner.step()

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as fault:  # out of descriptors: wait until a connection goes
                if self._connections and self._accepting:
                    print(f"no more connections can be taken ({fault.strerror}): raise the limit on open files (ulimit -n)", file=sys.stderr)
                    self._poller.unregister(self._listener.fileno())
                    self._accepting = False
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(sock, self)
            self._connections[connection.fd] = connection
            self._poller.register(connection.fd, IN)

    def _watch(self, fd: int, ready: Any) -> None:
        self._watched[fd] = ready
        self._poller.register(fd, IN)

    def _stdin_readable(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            self.stop()

    def _close(self) -> None:
        self._listener.close()
        for connection in list(self._connections.values()):
            connection.drop()
        self._timer.close()
        self._poller.close()


def raise_open_files() -> None:
    """As many connections as the system allows this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 1 << 20) if hard != resource.RLIM_INFINITY else 1 << 20
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 10_240), wanted), hard))


def serve(options: SimulatorOptions) -> None:
    """Serve until SIGINT or SIGTERM. Prints where it listens, and at the end one line with the truth."""
    raise_open_files()
    server = Server(options.validated())
    server.stop_on_signals()
    print(f"listening on {server.url}", flush=True)
    server.run()
    print(msgspec.json.encode(server.final_truth()).decode(), flush=True)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as fault:
        raise UsageError(f"--host {host}: {fault.strerror or fault}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
        if KERNEL_STAMPS:
            ask_for_stamps(listener)  # the connections taken from it inherit this
    except OSError as fault:
        listener.close()
        raise UsageError(f"cannot listen on {host} port {port}: {fault.strerror}; choose another --port (0 takes any free one)") from None
    listener.setblocking(False)
    return listener
