"""A host runs one engine on one event loop. The host has a listening socket for each listener of the engine's brokers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, perf_counter_ns, thread_time
from typing import TYPE_CHECKING

from wirebroker.apis.exchange import Offload
from wirebroker.core.logs.arena import Arena
from wirebroker.engine.engine import Engine
from wirebroker.engine.snapshots import Snapshot, go_back, take
from wirebroker.engine.soft_reset import soft_reset
from wirebroker.engine.turns import Turns, Unfinished
from wirebroker.net.clock import Clock
from wirebroker.net.forks import give_up_in_children
from wirebroker.net.handshakes import Handshakes
from wirebroker.net.key_sets import SETTING, KeySets
from wirebroker.net.limits import SLICE
from wirebroker.net.listener import Address, Listener, reachable
from wirebroker.net.protocol import BrokerProtocol, Server
from wirebroker.net.sockets import open_server, start_serving
from wirebroker.net.tls import TlsError
from wirebroker.net.tls_transport import TlsTransport
from wirebroker.requests.effects import Effect
from wirebroker.security.mechanisms import OAUTHBEARER

if TYPE_CHECKING:
    from wirebroker.net.storage_jobs import StorageJobs
    from wirebroker.storage.store import FolderStore

logger = logging.getLogger("wirebroker")

STEP_MS = 3_600_000
"""The clock is moved forward in steps of this many ms (one hour), because the timers of a larger step would block the loop for
too long."""
IDLE_CHECKS = 4
"""The host looks for idle connections this many times within connections.max.idle.ms."""


class Host(Server):
    """Runs an engine: performs the engine's effects, and calls its `tick` at its deadlines."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(clock, engine.configs)
        self._advancing = asyncio.Lock()
        """A lock that is held while the clock is moved forward. While the lock is held, no other call runs timers."""
        self.arena = Arena()
        self._idle_alarm: asyncio.TimerHandle | None = None
        self._storage_jobs = None if engine.store is None else self._new_storage_jobs(engine, engine.store)
        self._ready: deque[BrokerProtocol] = deque()
        """The connections that wait for their next slice."""
        self._turn: asyncio.Handle | None = None
        self._offload_pool: ThreadPoolExecutor | None = None
        self._key_sets = KeySets()
        self._advances: set[asyncio.Task[int]] = set()
        """The tasks that move the clock forward because of faults."""
        self._set_back = 0
        """How many times the clock has been set back. A move of the clock ends when the clock is set back."""
        self.after_replacement: Callable[[], object] | None = None
        """A function that is called after an engine was replaced. The objects of an engine refer to each other, so only the
        garbage collector frees the former engine. If the process seldom runs the collector, this function should run it."""
        self._drive(engine)
        give_up_in_children(self)

    def descriptors(self) -> Iterator[int]:
        """Yields the file descriptors of all listeners and connections."""
        for server in self._servers:
            yield from (each.fileno() for each in server.sockets)
        for protocol in self.clients.values():
            yield protocol.transport.get_extra_info("socket").fileno()

    async def listen(self, *listeners: Listener) -> list[Address]:
        """Open listeners of brokers. Returns the listeners' bound addresses. Raises ListenError, TlsError, KeySetError.

        No listener accepts a connection before all of them have an address. Otherwise an early client would learn that a broker
        has no address.
        """
        opened = [(await self._bind(listener), listener) for listener in listeners]
        for server, _ in opened:
            await start_serving(server)
        if self._idle_alarm is None:
            self.look_for_idle()
        self.arm()
        return [(listener.host, server.sockets[0].getsockname()[1]) for server, listener in opened]

    async def _bind(self, listener: Listener) -> asyncio.Server:
        """Returns a server for the listener. The server does not accept connections yet."""
        node_id, name, host = listener.node_id, listener.name, listener.host
        new_protocol = self._secured(listener) if listener.protocol.tls else lambda: self._protocol(listener)
        if listener.protocol.sasl:
            await self._open_key_set(name)
        server, port = await open_server(new_protocol, host, listener.port)
        self._servers.append(server)
        told, told_port = listener.advertised or (reachable(host), port)
        self.engine.cluster.brokers[node_id].addresses[name] = (told, told_port or port)
        return server

    def _protocol(self, listener: Listener) -> asyncio.BufferedProtocol:
        """Creates the protocol for a new connection to a listener."""
        return self._captured(BrokerProtocol(self, listener))

    def _secured(self, listener: Listener) -> Callable[[], TlsTransport]:
        """Returns a function that creates the transport for a new connection to a listener with TLS. Raises TlsError."""
        if listener.tls is None:
            raise TlsError(f"the listener {listener.name} speaks TLS and needs a certificate (--tls-cert, --tls auto)")
        context, turns = listener.tls.context(listener.protocol), self._handshake_turns
        watch = Handshakes(self, listener, listener.tls, turns)
        return lambda: TlsTransport(self._protocol(listener), context, listener.name, turns, watch)

    async def _open_key_set(self, listener: str) -> None:
        configs = self.engine.configs
        url = configs.at(listener, SETTING, OAUTHBEARER)
        if url and OAUTHBEARER in self.engine.authenticator.mechanisms(listener):
            await self._key_sets.open(str(url), configs.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms"))

    def look_for_idle(self) -> None:
        """Close the connections that have sent nothing for connections.max.idle.ms, by the machine's clock.

        The search runs `IDLE_CHECKS` times within connections.max.idle.ms. As in Kafka, a connection that waits for a response
        may become idle, too. If a test moves the broker's clock, no connection becomes idle, because for the client no time has
        passed.
        """
        longest = self.engine.configs.integer("connections.max.idle.ms")
        for protocol in list(self.clients.values()):
            protocol.quiet += 1
            if protocol.quiet > IDLE_CHECKS and longest >= 0:
                self.engine.close(protocol.connection, f"it was idle for {longest} ms (connections.max.idle.ms)")
        self.flush()
        if self._idle_alarm is not None:
            self._idle_alarm.cancel()
        self._idle_alarm = self.loop.call_later(max(longest, IDLE_CHECKS) / IDLE_CHECKS / 1000, self.look_for_idle)

    # Turns

    def queue(self, protocol: BrokerProtocol) -> None:
        """Put the connection at the end of the queue. The connections in the queue wait for their next slice."""
        self._ready.append(protocol)
        self._wake_turns()

    def _wake_turns(self) -> None:
        if self._turn is None and not self._ends:
            self._turn = self.loop.call_soon(self._take_turns)

    def _take_turns(self) -> None:
        """Serve the next waiting connection and the next slices of long requests. Then return to the loop, which serves other
        connections."""
        self._turn = None
        turns = self.engine.turns
        self.until = perf_counter() + SLICE
        if self._ready:
            self._ready.popleft().take_turn()
        while turns.waiting:
            self._proceed(turns)
            if perf_counter() > self.until:
                break
        while turns.offloads:
            self._do_offload(turns, *turns.offloads.popleft())
        self.flush()
        self.notify()
        if self._ready or turns.waiting:
            self._wake_turns()

    def _proceed(self, turns: Turns) -> None:
        exchange = turns.waiting[0].exchange
        try:
            turns.proceed()
        except Exception:
            self.failed(exchange.connection)

    def _do_offload(self, turns: Turns, unfinished: Unfinished, offload: Offload) -> None:
        """Do the long work of a request in a thread. After the work, the request's next slice runs."""
        if self._offload_pool is None:
            self._offload_pool = ThreadPoolExecutor(1, "wirebroker-offload")

        done = self.loop.run_in_executor(self._offload_pool, unfinished.do, offload)
        done.add_done_callback(lambda _: turns.resume(unfinished))

    def _new_storage_jobs(self, engine: Engine, store: FolderStore) -> StorageJobs:
        from wirebroker.net.storage_jobs import StorageJobs

        return StorageJobs(engine, store, self.clock, self._release)

    def _release(self, effects: list[Effect]) -> None:
        """Perform effects that had to wait for the disk."""
        if effects:
            self._perform(effects)
        self.flush()
        self.notify()

    def arm(self) -> None:
        """Set the alarm for the engine's next deadline."""
        runs = self.clock.running or self.engine.timers.busy
        self._set_alarm(self.engine.deadline(), runs and not self._advancing.locked())

    def time(self) -> int:
        """Run the timers that are due, and return the time of the clock.

        The operating system wakes an idle process some ms late, so a request may arrive before a due timer has run. The timer
        must run first.
        """
        now = self.clock.now()
        if self.alarm_at is not None and self.alarm_at <= now:
            self.run_overdue(now)
        return now

    def run_overdue(self, now: int) -> None:
        """Run the due timers, for at most one slice of CPU time. On a busy machine, a slice of real time can pass before the
        first timer has run."""
        timers, until = self.engine.timers, thread_time() + SLICE
        if timers.is_due(now) and not timers.runs and not self._advancing.locked():
            self._run_timers(now, lambda: not timers.is_due(now) or thread_time() > until)

    def up_to_date(self) -> Engine:
        """Run the due timers, perform their effects, and return the engine."""
        self.time()
        if self.engine.effects:
            self.changed()
        return self.engine

    def advance(self, ms: int) -> None:
        """Move the clock forward, and run every due timer in order. If a timer starts work in a thread, this work is finished
        before the next timer runs."""
        self.clock.advance(ms)
        timers = self.engine.timers
        timers.begin_move()
        while self._storage_jobs is not None and self._run_until_jobs():
            self._storage_jobs.finish()
        self.tick()
        timers.end_move()

    def advance_soon(self, ms: int) -> None:
        """Move the clock forward by `ms` as soon as the loop is free. Clients are served after each step of one hour."""
        task = self.loop.create_task(self.advance_beside(ms))
        self._advances.add(task)
        task.add_done_callback(self._advances.discard)

    async def advance_beside(self, ms: int, go_on: Callable[[], bool] = lambda: True) -> int:
        """Move the clock forward by `ms`, but stop when `go_on()` is false, or when a reset sets the clock back. Returns the ms
        that are left then, else 0. Clients are served after each step, and while threads work. A step is one hour. If nothing
        has changed in a step, the next step is twice as long."""
        timers = self.engine.timers
        timers.begin_move()
        step, set_back = STEP_MS, self._set_back
        while ms > 0 and go_on():
            timers.is_quiet = True
            await self._advance_step(min(ms, step))
            if self._set_back != set_back:  # also if the reset came in the middle of the last step
                break
            ms -= min(ms, step)
            step = 2 * step if timers.is_quiet else STEP_MS
            await asyncio.sleep(0)
            if self._set_back != set_back:
                break
        timers.end_move()
        return ms

    async def _advance_step(self, ms: int) -> None:
        async with self._advancing:
            self.clock.advance(ms)
            self.arm()
            while self._storage_jobs is not None and self._run_until_jobs():
                self.flush()
                await self._storage_jobs.finished()
            while self.engine.timers.busy or self.engine.timers.is_due(self.clock.now()):
                self.tick(lambda: perf_counter() > self.until)
                await asyncio.sleep(0)
        self.arm()

    def _run_until_jobs(self) -> bool:
        """Run the due timers, until one of them starts a job for a thread. Returns False if no timer is due, or without a data
        directory."""
        timers, store, now = self.engine.timers, self.engine.store, self.clock.now()
        if store is None or not (timers.busy or timers.is_due(now)):
            return False
        self._run_timers(now, lambda: bool(store.jobs))
        return True

    def replace(self, engine: Engine) -> None:
        """Replace the engine. The new engine gets the addresses and the trace sinks of the old engine. All connections are
        closed."""
        for protocol in list(self.clients.values()):
            protocol.transport.abort()
        self._handshake_turns.abort()
        self.limits.close()
        for node_id, broker in self.engine.cluster.brokers.items():
            engine.cluster.brokers[node_id].addresses.update(broker.addresses)
        engine.trace.sinks += self.engine.trace.sinks
        engine.trace.begin_run("reset", *engine.trace.sinks)
        engine.plan.succeed(self.engine.plan)
        self.engine.turns.drop()
        self.limits.configs = engine.configs
        self._drive(engine)
        self.arm()
        self.notify()
        if self.after_replacement is not None:
            self.loop.call_soon(self.after_replacement)

    def reset(self, new_engine: Callable[[], Engine], *, soft: bool) -> None:
        """Set the clock back, and replace the engine. With `soft`, clients stay connected instead (`reset_softly`). Raises
        RuntimeError if the broker has a data directory and the reset is not soft."""
        if soft:
            self.reset_softly()
            return
        if self.engine.store is not None:
            raise RuntimeError(
                f"this broker keeps its data in {self.engine.store.root}; a reset would delete the data, use a soft reset"
            )
        self._reset_clock()
        self.replace(new_engine())

    def reset_softly(self) -> None:
        """Set the clock back, and remove the state that a test has left in the broker. Clients stay connected. Raises
        OSError."""
        before = self.clock.now()
        self._reset_clock()
        now = self.clock.now()
        self.engine.move_time(now - before)
        try:
            soft_reset(self.engine, now)
        finally:
            self.arm()
            self.changed()

    def _reset_clock(self, to: int | None = None) -> None:
        self.clock.reset(to)
        self._set_back += 1

    def begin_test(self, name: str) -> None:
        """Reset the broker softly, and mark the beginning of a test in the trace. Raises OSError."""
        self.reset_softly()
        self.engine.trace.begin_test(name)

    def snapshot(self) -> Snapshot:
        """Returns a copy of the broker's state. Raises RuntimeError if the state cannot be copied now."""
        try:
            return take(self.engine, self.time(), self)
        finally:
            self.changed()

    def restore(self, snapshot: Snapshot, new_engine: Callable[[], Engine]) -> None:
        """Go back to a snapshot of this host, with a new engine. All connections are closed."""
        self._reset_clock(snapshot.now)
        engine = new_engine()
        go_back(engine, snapshot, self.engine)
        self.replace(engine)

    def _drive(self, engine: Engine) -> None:
        self.engine = self.machine = engine
        engine.turns.wake = self._wake_turns
        engine.timers.in_slices = True
        engine.at_restart.append(self._handshake_turns.abort)
        engine.authenticator.key_sets = self._key_sets
        engine.throttle.stopwatch = perf_counter_ns

    async def close(self) -> None:
        """Close the listeners, all connections and the data directory. Raises OSError if closing the directory fails."""
        await self._stop_listening()
        for alarm in (self._idle_alarm, self._turn, *self._advances):
            if alarm is not None:
                alarm.cancel()
        self._key_sets.close()
        for protocol in list(self.clients.values()):
            protocol.transport.abort()
        self.engine.turns.drop()
        if self._offload_pool is not None:
            self._offload_pool.shutdown(wait=False, cancel_futures=True)
        if self._storage_jobs is not None:
            await self._storage_jobs.close()
            self._storage_jobs = None
        await self._stopped()
        if self.engine.store is not None:
            self.engine.store.close(self.clock.now())
