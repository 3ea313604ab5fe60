"""Runs a machine on an event loop. A machine is the engine of a broker, or a proxy. The machine does no I/O itself.

    bytes arrive → machine → `flush`: perform the effects, and set the alarm for the machine's next deadline

The states of a client's connection (`State`):

    IN_LINE ─▶ WAITING ◀─▶ READY
                 ▲ │         │
                 │ ▼         │
               QUEUED ◀──────┘

A connection is WAITING while a frame has to wait, and READY as soon as nothing has to wait any more. When its slice of the
loop's time is over, the connection is QUEUED. At its next turn, a QUEUED connection becomes WAITING. A new connection is READY
unless it has to wait in line. In a proxy a connection is either IN_LINE or READY, because frames that have to wait are kept in
the connection's relay.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from kafkawire.primitives import Buffer
from wirebroker.core.networks import address_of
from wirebroker.net.accept_errors import AcceptErrorHandler
from wirebroker.net.capturing import Capture, Tap
from wirebroker.net.clock import Clock
from wirebroker.net.limits import SHARED_BUFFER, SLICE, WRITE_HIGH_WATER, Limits
from wirebroker.net.shaping import ShapedLine, reset_connection
from wirebroker.net.sockets import stop_listening
from wirebroker.net.tls_transport import HandshakeTurns
from wirebroker.requests.effects import Close, Respond, Shaped

if TYPE_CHECKING:
    from wirebroker.core.configs import BrokerConfigs
    from wirebroker.core.purgatory import Timers
    from wirebroker.faults.plan import FaultPlan
    from wirebroker.net.storage_jobs import StorageJobs
    from wirebroker.requests.connection import Connection
    from wirebroker.trace.recorder import Recorder

logger = logging.getLogger("wirebroker")

RECHECK_S = 0.05
"""`wait_until` checks its condition at this interval in seconds, even if nothing has changed in the broker."""
JOIN_BELOW = 64 * 1024
"""Parts of a response that are smaller than this size in bytes are joined before they are sent. Larger parts are sent without a
copy."""


class State(Enum):
    """The state of a connection. It determines what happens to complete frames that arrive."""

    IN_LINE = "keeps the frames: the host serves its maximum of connections, and does not serve this connection yet"
    READY = "passes the frames to the machine as they arrive"
    WAITING = "keeps the frames while it waits for a response, for the client to read, or for memory"
    QUEUED = "keeps the frames until the host calls `take_turn`"


IN_LINE, READY, WAITING, QUEUED = State  # access to a module's variable is faster than to an enum's member


class Driven(Protocol):
    """The machine that a driver runs: an engine or a proxy. The machine has no sockets and no clock."""

    effects: list[Any]
    """The effects that the driver has to perform, in order."""
    timers: Timers
    """The machine's timers. The driver calls `tick` at the deadline of each timer."""

    @property
    def plan(self) -> FaultPlan:
        """The fault rules of the machine."""

    @property
    def trace(self) -> Recorder:
        """The trace of the machine."""

    def tick(self, now: int, enough: Callable[[], bool] | None = None) -> None:
        """Run the due timers. If `enough` is given, stop when `enough()` is true."""

    def close(self, connection: Connection, reason: str, *, reset: bool = False) -> None:
        """Close a connection. `reason` is a sentence for the log."""

    def disconnected(self, connection: Connection, reason: str, now: int) -> None:
        """Handle the end of a connection. The driver may call this more than once for a connection."""


class Side(asyncio.BufferedProtocol):
    """The host's side of a connection. The host reads from the connection only while the machine can handle more bytes, and
    reserves memory for large frames."""

    transport: asyncio.Transport

    def __init__(self, host: Driver[Any]) -> None:
        self._host = host
        self._reading = True
        self.congested = False
        """Tells whether more than WRITE_HIGH_WATER bytes wait to be sent, because the peer does not read."""
        self.reserved = 0
        """The number of bytes that are reserved for the large frame that is arriving."""

    @property
    def client(self) -> ClientConnection:
        """The client's connection, to which the limits apply."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(WRITE_HIGH_WATER)

    def read(self, wanted: bool) -> None:
        """Read from the socket if `wanted` is set. Otherwise leave arriving bytes in the operating system's buffers."""
        if wanted != self._reading and not self.transport.is_closing():
            self._reading = wanted
            (self.transport.resume_reading if wanted else self.transport.pause_reading)()

    def reserve(self, size: int) -> bool:
        """Reserve memory for a large frame that is arriving. `size` is 0 if no large frame is arriving. Returns False if the
        frame has to wait.
        """
        if size != self.reserved:
            self.give_back()
            if size and not self._host.limits.takes(self.client, size):
                return False
            self.reserved = size
        return True

    def give_back(self) -> None:
        """Release the reserved memory."""
        if self.reserved:
            size, self.reserved = self.reserved, 0
            self._host.limits.freed(self.client, size)

    def eof_received(self) -> bool:
        return False


def host_of(text: str, port: int, flow: int = 0, scope: int = 0) -> str:
    """Returns the address of a peer as Java shows it. The address of a link has the number of its network interface."""
    host = address_of(text.partition("%")[0]) or text
    return f"{host}%{scope}" if scope else host


class ClientConnection(Side):
    """A client's connection. The connection first waits in line if the host cannot serve it yet."""

    connection: Connection
    """The machine's object for the connection. The attribute is unset while the connection waits in line."""
    machine: Driven
    """The machine at the beginning of the connection. The host may have replaced this machine since then."""
    closing_level = logging.INFO
    """The log level of the message about the end of the connection."""

    def __init__(self, host: Driver[Any], node_id: int) -> None:
        super().__init__(host)
        self.node_id = node_id
        self.client_host = ""
        self._state = IN_LINE
        self._line: ShapedLine | None = None
        """The object that sends a response whose bytes a fault has changed. It is None if no such response is being sent."""
        self.quiet = 0
        """The number of checks for idle connections since the client last sent bytes."""

    @property
    def client(self) -> ClientConnection:
        return self

    @property
    def number(self) -> int:
        """The connection's number in the trace, or 0 while the connection has no number yet."""
        return 0 if self._state is IN_LINE else self.connection.number

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write = self.transport.write
        peer = transport.get_extra_info("peername")
        self.client_host = host_of(*peer) if peer else ""
        if self._host.limits.opened(self):
            self._state = READY
            self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        self._host.limits.lost(self, self._state is not IN_LINE)
        if self._state is IN_LINE:
            return
        self.give_back()
        if self._line is not None:
            self._line.stop()
        self._host.lost(self, "the client closed it" if exc is None else f"it broke: {exc}")

    @property
    def unsent(self) -> int:
        """The number of bytes of responses that are not sent yet, because the client does not read."""
        return self.transport.get_write_buffer_size()

    @property
    def has_more(self) -> bool:
        """Tells whether a call of `go_on` may be necessary."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Continue with the requests that have arrived, if the connection does not have to wait any more. The driver calls this
        after it has performed the machine's effects."""
        raise NotImplementedError

    def released(self) -> None:
        """Continue after the connection has waited in line or for memory."""
        raise NotImplementedError

    def perform(self, effect: object) -> None:
        """Perform an effect other than an ordinary response."""
        if isinstance(effect, Shaped):
            self.send_shaped(effect)
        elif isinstance(effect, Close):
            number, host = effect.connection.number, effect.connection.client_host
            logger.log(self.closing_level, "connection %d from %s closed: %s", number, host, effect.reason)
            self.close(effect.reset)

    def send_shaped(self, effect: Shaped) -> None:
        """Send a response whose bytes a fault has changed. The connection's next request is not handled before the response is
        sent."""
        if self._line is None:
            self._line = ShapedLine(self.transport, self._host.loop, self._line_is_free)
            self.write = self._line.write
        self._line.send(effect.parts, effect.shape)
        if effect.shape.slowed_by is not None:
            self._host.machine.plan.at_unload(effect.shape.slowed_by, self._host.hurry)

    def _line_is_free(self) -> None:
        self._line = None
        self.write = self.transport.write
        self.go_on()
        self._host.flush()

    def hurry(self, slowed_by: Hashable) -> None:
        """If the rule slows down a response that is being sent, send the rest of the response at once."""
        if self._line is not None and self._line.slowed_by is slowed_by:
            self._line.hurry()

    def close(self, reset: bool) -> None:
        """Close the connection when everything is sent. With `reset`, reset the connection immediately."""
        if reset:
            reset_connection(self.transport)
        elif self._line is not None:
            self._line.close()
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        self.congested = True
        self._host.left_unread(self)


C = TypeVar("C", bound=ClientConnection)


class Driver(Generic[C]):
    """The listeners, the clients' connections, the capture and the alarm of one machine."""

    machine: Driven

    def __init__(self, clock: Clock, configs: BrokerConfigs) -> None:
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.limits: Limits[ClientConnection] = Limits(configs)
        self.clients: dict[Connection, C] = {}
        self.until = 0.0
        """The end of the current connection's slice, as a time of `perf_counter`. The value is 0 before the slice begins."""
        self.watchers: list[Callable[[], None]] = []
        """The functions that are called after every request and timer. Each function checks the condition of one call of
        `wait_until`."""
        self._storage_jobs: StorageJobs | None = None
        """Delays an effect until the disk has the records that the effect confirms. Without a data directory this is None."""
        self._capture: Capture | None = None
        self.capture_path = ""
        """The file of the capture, or "" if there is no capture."""
        self._servers: list[asyncio.Server] = []
        self._alarm: asyncio.TimerHandle | None = None
        self.alarm_at: int | None = None
        """The machine's next deadline, in ms since the epoch."""
        self._ends = False
        # A completion-based loop (Windows) uses a buffer while a read is pending, so connections cannot share a buffer.
        self._shared = None if type(self.loop).__name__ == "ProactorEventLoop" else bytearray(SHARED_BUFFER)
        self._handshake_turns = HandshakeTurns(self.loop, shared=self._shared is not None)
        AcceptErrorHandler.install(self.loop)

    def receive_buffer(self) -> bytearray:
        """Returns the buffer into which a new connection receives bytes."""
        return self._shared if self._shared is not None else bytearray(SHARED_BUFFER)

    def capture_to(self, path: str, capture: Capture) -> None:
        """Write all bytes and verdicts into this capture, whose file is `path`. The caller must do this before a listener is
        opened."""
        self.capture_path, self._capture = path, capture
        self.machine.trace.sinks.append(capture)

    def _captured(self, protocol: asyncio.BufferedProtocol) -> asyncio.BufferedProtocol:
        """Returns a tap around the protocol if there is a capture, else the protocol itself."""
        return protocol if self._capture is None else Tap(self._capture, protocol)

    # Connections

    def opened(self, client: C) -> None:
        """Register a connection."""
        client.machine = self.machine
        self.clients[client.connection] = client

    def lost(self, client: C, reason: str) -> None:
        """Forget a connection that has ended."""
        client.machine.disconnected(client.connection, reason, self.clock.now())
        self.clients.pop(client.connection, None)
        self.changed()

    def failed(self, connection: Connection) -> None:
        """Log the current exception, which a request of the connection has raised, and close the connection."""
        logger.exception("a request failed because of an error in wirebroker; its connection is closed")
        self.machine.close(connection, "a request failed because of an error in wirebroker; see the log")

    def left_unread(self, client: ClientConnection) -> None:
        """Remember that the peer of a connection does not read. If all connections together have too many unsent bytes, reset
        the connection with the most unsent bytes."""
        worst = self.limits.congested(client)
        if worst is not None:
            reason = "the peer does not read, and its unread bytes take too much memory"
            self.machine.close(worst.connection, reason, reset=True)
            worst.close(reset=True)  # aborting frees the memory even if the client has closed the connection

    def hurry(self, rule: Hashable) -> None:
        """Send the rest of all responses that this rule slows down, because the rule was unloaded."""
        for client in self.clients.values():
            client.hurry(rule)

    # Effects

    def flush(self) -> None:
        """Perform the machine's effects, and continue with connections that waited for a response."""
        machine, storage_jobs = self.machine, self._storage_jobs
        if storage_jobs is not None:
            storage_jobs.check()
        while machine.effects:
            effects, machine.effects = machine.effects, []
            self._perform(effects)
            if storage_jobs is not None and machine.effects:
                storage_jobs.check()
        if machine.timers.deadline() != self.alarm_at:
            self.arm()

    def changed(self) -> None:
        """Perform the effects of a change that no request caused, and call the watchers."""
        self.flush()
        self.notify()

    def notify(self) -> None:
        """Call the watchers, because one of their conditions may be true now."""
        for watcher in list(self.watchers):
            watcher()

    async def wait_until(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait until the condition is true. The caller may run in the host's loop or in another loop. Raises TimeoutError after
        `timeout` seconds.

        The condition is checked after every change in a broker. The condition is also checked every 50 ms, because it may
        depend on something outside the broker, and because a proxy reports no changes.
        """
        loop, happened = asyncio.get_running_loop(), asyncio.Event()
        wake = happened.set if loop is self.loop else partial(_call_in, loop, happened.set)
        end = loop.time() + timeout
        self.watchers.append(wake)
        try:
            while not condition():
                remaining = end - loop.time()
                if remaining <= 0:
                    raise TimeoutError(f"the condition did not come true within {timeout} s")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(happened.wait(), min(remaining, RECHECK_S))
                happened.clear()
        finally:
            self.watchers.remove(wake)

    def _perform(self, effects: list[Any]) -> None:
        if len(effects) == 1:
            self._perform_one(effects[0])
        elif not self._respond_to_one(effects):
            concerned: list[Connection] = []
            parts: list[Buffer] = []
            current: Connection | None = None
            for effect in effects:
                if effect[0] is not current:  # usually all effects belong to one connection
                    if parts:
                        self._send(current, parts)
                    current, parts = effect[0], []
                    concerned.append(effect[0])
                if isinstance(effect, Respond):
                    parts += effect[1]
                else:
                    if parts:
                        self._send(current, parts)
                        parts = []
                    if (client := self.clients.get(effect[0])) is not None:
                        client.perform(effect)
            if parts:
                self._send(current, parts)
            for connection in concerned:
                if (client := self.clients.get(connection)) is not None and client.has_more:
                    client.go_on()

    def _respond_to_one(self, effects: list[Any]) -> bool:
        """If all effects are small responses to one connection, send them and return True. Otherwise do nothing and return
        False."""
        connection = effects[0][0]
        responses = []
        for effect in effects:
            if effect[0] is not connection or type(effect) is not Respond or len(effect[1]) != 1:
                return False
            responses.append(effect[1][0])
        client = self.clients.get(connection)
        if client is not None:
            client.write(b"".join(responses))
            if client.has_more:
                client.go_on()
        return True

    def _perform_one(self, effect: Any) -> None:
        """Perform a single effect, which is the usual case. After a response, the connection's next request may be handled."""
        client = self.clients.get(effect[0])
        if client is None:
            return
        if type(effect) is not Respond:
            client.perform(effect)
            return
        if len(effect[1]) == 1:
            client.write(effect[1][0])
        else:
            self._send(effect[0], effect[1])
        if client.has_more:
            client.go_on()

    def _send(self, connection: Connection | None, parts: Sequence[Buffer]) -> None:
        if connection is None or (client := self.clients.get(connection)) is None:
            return
        write = client.write
        small: list[Buffer] = []
        for part in parts:
            if len(part) < JOIN_BELOW:
                small.append(part)
                continue
            if small:
                write(b"".join(small))
                small = []
            write(part)
        if small:
            write(b"".join(small) if len(small) > 1 else small[0])
        if client.congested:
            self.left_unread(client)

    # Timers

    def arm(self) -> None:
        """Set the alarm for the machine's next deadline."""
        self._set_alarm(self.machine.timers.deadline())

    def _set_alarm(self, deadline: int | None, runs: bool = True) -> None:
        """Call `_wake` at the deadline. If `runs` is False, no alarm is needed, because only a call of `advance` moves the
        clock. A machine that is stopping gets no alarm, because a timer could write to closed files."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.alarm_at = None if self._ends else deadline
        if self.alarm_at is not None and runs:
            self._alarm = self.loop.call_later(max(self.alarm_at - self.clock.now(), 0) / 1000, self._wake)

    def _wake(self) -> None:
        self._alarm = None
        self.alarm_at = None
        self.tick(lambda: perf_counter() > self.until)

    def tick(self, enough: Callable[[], bool] | None = None) -> None:
        """Run the due timers. If `enough` is given, stop when `enough()` is true. If a timer raises an exception, the exception
        is logged, and the machine continues."""
        self.until = perf_counter() + SLICE
        self._run_timers(self.clock.now(), enough)
        self.changed()

    def _run_timers(self, now: int, enough: Callable[[], bool] | None = None) -> None:
        try:
            self.machine.tick(now, enough)
        except Exception:
            logger.exception("a timer failed because of an error in wirebroker")

    # The end

    async def close(self) -> None:
        """Close all listeners and connections."""
        raise NotImplementedError

    async def _stop_listening(self) -> None:
        """Accept no more connections, close the connections in line, and cancel the alarm."""
        await stop_listening(self._servers)
        self._ends = True
        self._set_alarm(None)
        self._handshake_turns.close()
        self.limits.close()

    async def _stopped(self) -> None:
        """Wait until the listeners are closed, and close the capture."""
        for server in self._servers:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(server.wait_closed(), 1)
        self._servers.clear()
        if self._capture is not None:
            self._capture.close()


def _call_in(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call a function in a loop that runs in another thread."""
    with contextlib.suppress(RuntimeError):  # the loop may be closed already
        loop.call_soon_threadsafe(function)
