"""The running broker or proxy as the control's endpoints see it. The classes are not thread-safe: use them on the event loop of
the broker or proxy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeVar, cast

from wirebroker.control.problems import Problem
from wirebroker.core.producers import Key
from wirebroker.engine.engine import Engine
from wirebroker.engine.snapshots import Snapshot
from wirebroker.net.host import Host
from wirebroker.net.proxy_host import ProxyHost
from wirebroker.testing import passing, states
from wirebroker.testing.goals import Goal
from wirebroker.testing.operations import CutOff
from wirebroker.testing.views import Machine
from wirebroker.trace.kept_frames import KeptExchange, KeptFrames
from wirebroker.trace.recorder import Recorder

if TYPE_CHECKING:
    from wirebroker.common.exposition import Family
    from wirebroker.core.telemetry import Pushes
    from wirebroker.faults.rules import Rule


T = TypeVar("T")
MOST_SNAPSHOTS = 16
"""The largest number of kept snapshots. The records of each snapshot stay in memory."""


class Sent(NamedTuple):
    """A message of /events: the rows that follow a given row of a run."""

    run: str
    after: int
    missed: int
    """The number of rows that were dropped before they could be sent."""
    rows: int
    data: bytes


class Readable:
    """A source of trace rows: a running broker, a running proxy or a file, as `kind` tells."""

    kind: ClassVar[Literal["broker", "proxy", "file"]]

    def __init__(self) -> None:
        self.at_close: list[Callable[[], None]] = []
        """The functions that are called when the broker or the proxy stops. They wake the waiting requests of the control."""
        self.closing = False
        self._own: dict[Callable[[Any], object], object] = {}

    def own(self, make: Callable[[Self], T]) -> T:
        """Returns the object that `make` creates for this source. The object is created on first use, and kept as long as the
        control runs."""
        if make not in self._own:
            self._own[make] = make(self)
        return cast(T, self._own[make])

    @property
    def run(self) -> str:
        """The name of this run. Row numbers are unique only within a run."""
        raise NotImplementedError

    @property
    def newest(self) -> int:
        """The number of the latest row of the run."""
        raise NotImplementedError

    def exchange(self, number: int) -> KeptExchange | None:
        """Returns the exchange whose `reply` row has this number, or None if its bytes are not available."""
        raise NotImplementedError

    def why_no_bytes(self) -> str:
        """Returns the end of a sentence: the reason why the bytes of an exchange may be missing."""
        raise NotImplementedError

    def catch_up(self) -> None:
        """Run the timers that are due, so that an endpoint does not return outdated state."""

    def set_time(self) -> None:
        """Tell the engine the present time. This is done before each change."""

    def begin(self) -> None:
        """Called when the control begins to listen."""

    def close(self) -> None:
        """End all waiting requests of the control."""
        self.closing = True
        for end in list(self.at_close):
            end()


class Controlled(Readable):
    """A running broker or proxy. If an endpoint's handler takes a `ControlledBroker`, only brokers have the endpoint."""

    def __init__(self, host: Host | ProxyHost) -> None:
        super().__init__()
        self._of = host
        self.readers = 0
        """The number of clients that read /events."""
        self.sent: Sent | None = None
        """The latest message of /events."""
        self._began = time.time_ns()
        self._traces = 0
        self._trace: tuple[Recorder, int] | None = None
        self._numbers: dict[Rule, int] = {}
        self._next = count(1)

    @property
    def machine(self) -> Machine:
        """The broker's engine or the proxy, which has the faults and the trace."""
        raise NotImplementedError

    @property
    def run(self) -> str:
        """The name of this run. A reset begins another run, with an empty trace."""
        trace = self.machine.trace
        if self._trace is None or self._trace[0] is not trace or self._trace[1] != trace.runs:
            self._trace = trace, trace.runs
            self._traces += 1
        return f"{self._began}-{self._traces}"

    def producers(self) -> Iterator[tuple[str, int, Key, bytes, bool]]:
        """For each producer on each partition, yields five values: the topic, the partition, the producer, the producer's
        packed state, and whether all cached batches of the producer are known."""
        raise NotImplementedError

    @property
    def pushes(self) -> Pushes:
        """The metrics that clients have pushed."""
        raise NotImplementedError

    @property
    def problem(self) -> str:
        """The reason why the broker or proxy cannot serve clients now, or "" if clients are served."""
        return ""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients, comma-separated."""
        raise NotImplementedError

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        raise NotImplementedError

    def groups(self) -> dict[str, states.Group]:
        raise NotImplementedError

    def transactions(self) -> dict[str, states.Transaction]:
        """Returns the transactional ids, with the states of their transactions."""
        raise NotImplementedError

    def families(self) -> Iterable[Family]:
        """Prometheus metrics that exist only for a broker, or only for a proxy."""
        return ()

    @property
    def now(self) -> int:
        """The time of the clock of the broker or proxy, in ms since the epoch."""
        return self._of.clock.now()

    def changed(self) -> None:
        """Perform the effects of a change, and wake the waiting requests of the control."""
        raise NotImplementedError

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While this context is open, a client reads /events, and the bytes of exchanges are kept."""
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1
            self.keep_frames()

    def keep_frames(self) -> None:
        """Keep the bytes of exchanges if a client reads /events or a capture is written. Otherwise drop these bytes."""
        trace = self.machine.trace
        trace.kept = (trace.kept or KeptFrames()) if self.readers or self.capture_path else None

    async def until(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait until the condition holds. Raises TimeoutError after `timeout` s, and Problem if the program stops meanwhile."""
        await self._of.wait_until(lambda: self.closing or condition(), timeout)
        if self.closing:
            raise Problem(503, f"the {self.kind} is stopping")

    @property
    def newest(self) -> int:
        return self.machine.trace.added

    def exchange(self, number: int) -> KeptExchange | None:
        kept = self.machine.trace.kept
        return None if kept is None else kept.get(number)

    def why_no_bytes(self) -> str:
        if self.capture_path:
            kept = "the broker keeps only the latest 64 MiB. The capture has all bytes"
            return f"{kept}: wirebroker trace show {self.capture_path} --page"
        return "no client was reading /events at the time, or the exchange is too old"

    @property
    def capture_path(self) -> str:
        """The file of `--capture`, or "" without this flag."""
        return self._of.capture_path

    def begin(self) -> None:
        self.keep_frames()

    def close(self) -> None:
        super().close()
        self._of.notify()

    def numbered(self, rules: Sequence[Rule]) -> dict[int, Rule]:
        """Returns the fault rules by number. A rule that has no number yet gets the next number."""
        self._numbers = {rule: self._numbers.get(rule) or next(self._next) for rule in rules}
        return {number: rule for rule, number in self._numbers.items()}


class ControlledBroker(Controlled):
    """A running broker: its host, its engine, and a function that makes a new engine."""

    kind = "broker"

    def __init__(self, host: Host, new_engine: Callable[[], Engine]) -> None:
        super().__init__(host)
        self.host = host
        self._new_engine = new_engine
        self._snapshots: dict[int, Snapshot] = {}
        self._snapshots_taken = count(1)

    @property
    def engine(self) -> Engine:
        """The present engine. A reset replaces the engine."""
        return self.host.engine

    @property
    def machine(self) -> Engine:
        return self.host.engine

    @property
    def pushes(self) -> Pushes:
        return self.engine.telemetry.pushes

    @property
    def bootstrap_servers(self) -> str:
        return states.bootstrap_servers(self.engine)

    @property
    def connections(self) -> int:
        return len(self.engine.connections)

    def groups(self) -> dict[str, states.Group]:
        return states.groups(self.engine)

    def transactions(self) -> dict[str, states.Transaction]:
        return states.transactions(self.engine)

    def producers(self) -> Iterator[tuple[str, int, Key, bytes, bool]]:
        for topic in self.engine.cluster.topics.values():
            for partition in topic.partitions:
                for key, state in partition.producers.items():
                    yield topic.name, partition.index, key, state, True

    def catch_up(self) -> None:
        self.host.up_to_date()

    def set_time(self) -> None:
        self.engine.set_time(self.now)

    def changed(self) -> None:
        self.host.changed()

    def reset(self, *, soft: bool = False) -> None:
        """Close the connections, and return the broker to the state that it had after its start.

        Raises Problem if the broker has a data directory.

        With `soft`, connected clients continue (`wirebroker.engine.soft_reset`).
        """
        try:
            self.host.reset(self._new_engine, soft=soft)
        except RuntimeError as refused:
            raise Problem(409, str(refused)) from None

    def take_snapshot(self) -> tuple[int, Snapshot]:
        """Take a snapshot and keep it. Returns its number. Raises Problem 409 if the broker cannot take a snapshot, or keeps
        too many."""
        if len(self._snapshots) >= MOST_SNAPSHOTS:
            raise Problem(409, f"the control keeps at most {MOST_SNAPSHOTS} snapshots; delete one of {list(self._snapshots)}")
        try:
            made = self.host.snapshot()
        except RuntimeError as refused:
            raise Problem(409, str(refused)) from None
        number = next(self._snapshots_taken)
        self._snapshots[number] = made
        return number, made

    def restore(self, number: int) -> None:
        """Go back to a snapshot. Raises Problem 404 if no snapshot has this number."""
        self.host.restore(self._snapshot(number), self._new_engine)

    def delete_snapshot(self, number: int) -> None:
        """Delete this snapshot. Raises Problem 404 if no snapshot has this number."""
        self._snapshot(number)
        del self._snapshots[number]

    def _snapshot(self, number: int) -> Snapshot:
        if number not in self._snapshots:
            raise Problem(404, f"there is no snapshot {number}; there are {list(self._snapshots)}")
        return self._snapshots[number]

    async def complete(self, change: str, is_complete: Callable[[], bool], timeout: float) -> None:
        """Wait until a change is complete; messages call it `change`. Raises Problem 409 if a reset cuts the change off, or if
        the change is not complete within `timeout` s."""
        engine = self.engine

        def condition() -> bool:
            if is_complete():
                return True
            if self.engine is not engine:
                raise CutOff(change)
            return False

        try:
            await self.until(condition, timeout)
        except CutOff as cut_off:
            raise Problem(409, str(cut_off)) from None
        except TimeoutError:
            raise Problem(409, f"{change} was not complete within {timeout:g} s; it continues") from None

    async def reach(self, goal: Goal[T], timeout: float) -> T:
        """Wait until a goal is reached, and return its result.

        If the goal is not reached within `timeout` s, raises Problem 409 with the goal's shortfall. If the goal returns no
        shortfall, returns the goal's result, which then explains what is missing.
        """
        try:
            await self.until(lambda: goal.reached(self.engine), timeout)
        except TimeoutError:
            if (missing := goal.shortfall(self.engine)) is not None:
                raise Problem(409, f"{missing} {timeout:g} s") from None
        return goal.result(self.engine)


class ControlledProxy(Controlled):
    """A running proxy."""

    kind = "proxy"

    def __init__(self, host: ProxyHost) -> None:
        super().__init__(host)
        self.host = host

    @property
    def machine(self) -> Machine:
        return self.host.proxy

    @property
    def pushes(self) -> Pushes:
        return self.host.proxy.pushes

    @property
    def problem(self) -> str:
        return self.host.problem

    @property
    def bootstrap_servers(self) -> str:
        return "{}:{}".format(*self.host.address)

    @property
    def connections(self) -> int:
        return len(self.host.proxy.relays)

    def producers(self) -> Iterator[tuple[str, int, Key, bytes, bool]]:
        return self.host.proxy.shadow.states()

    def groups(self) -> dict[str, states.Group]:
        self.set_time()
        found = passing.groups(self.host.proxy)
        # The call above also sets a timer. When the timer runs, the proxy stops following groups, unless groups were requested
        # again.
        self.host.flush()
        return found

    def transactions(self) -> dict[str, states.Transaction]:
        self.set_time()
        found = passing.transactions(self.host.proxy)
        self.host.flush()
        return found

    def families(self) -> Iterable[Family]:
        self.set_time()
        measured = self.host.proxy.measure()
        self.host.flush()
        return measured.families()

    def set_time(self) -> None:
        self.host.proxy.set_time(self.now)

    def changed(self) -> None:
        self.host.flush()
