"""The methods of MockKafka that wait until a condition of the test is true or a goal is reached (`wirebroker.testing.goals`).

Each method has a variant for `async` code, with a name that ends in `_async`; the variant works in any event loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from wirebroker.net.driver import RECHECK_S
from wirebroker.net.host import Host
from wirebroker.net.thread import running_loop
from wirebroker.testing.goals import Goal, GroupReady, Quiet, RecordsExpected, RecordsStored
from wirebroker.testing.in_process import InProcess
from wirebroker.testing.operations import is_upgraded, upgrade

if TYPE_CHECKING:
    from wirebroker.core.profile import ProfileName
    from wirebroker.engine.engine import Engine
    from wirebroker.engine.upgrading import Upgrading
    from wirebroker.testing import states
    from wirebroker.testing.operations import StoredRecord

__tracebackhide__ = True  # pytest shows the caller's line
T = TypeVar("T")
Offsets = Mapping[tuple[str, int], int]
LONGEST_UPGRADE_S = 3600.0


class Waits(InProcess[Host]):
    """The methods of a MockKafka that wait."""

    if TYPE_CHECKING:

        def _call(self, function: Callable[[Engine], T]) -> T: ...

        def _change(self, function: Callable[[Engine, int], T]) -> T: ...

        def records(self, topic: str, partition: int | None = None, *, committed: bool = False) -> list[StoredRecord]: ...

    # A condition

    def wait_until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Wait until `condition()` is true. Raises TimeoutError after `timeout` seconds.

        The condition is checked after every change of the broker, and also every 50 ms, because it may depend on something
        outside the broker.
        """
        _check_no_loop("wait_until")
        changed, end = threading.Event(), time.monotonic() + timeout
        host = self._running
        host.watchers.append(changed.set)
        try:
            while not condition():
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"the condition did not come true within {timeout} s")
                changed.wait(min(left, RECHECK_S))
                changed.clear()
        finally:
            host.watchers.remove(changed.set)

    async def wait_until_async(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """The form of `wait_until` for `async` code, in any event loop."""
        await self._running.wait_until(condition, timeout)

    # Records

    def wait_for_records(self, topic: str, count: int, timeout: float = 5.0, *, committed: bool = False) -> list[StoredRecord]:
        """Wait until the topic has `count` records, and return all its records. A TimeoutError says how many records are
        stored.

        With `committed`, only the records that a read_committed consumer gets are counted and returned.
        """
        _check_no_loop("wait_for_records")
        self._reach(RecordsStored(topic, count, committed=committed), timeout)
        return self.records(topic, committed=committed)

    async def wait_for_records_async(
        self, topic: str, count: int, timeout: float = 5.0, *, committed: bool = False
    ) -> list[StoredRecord]:
        """The form of `wait_for_records` for `async` code, in any event loop."""
        await self._reach_async(RecordsStored(topic, count, committed=committed), timeout)
        return self.records(topic, committed=committed)

    def assert_records(
        self, topic: str, records: Sequence[Any], *, partition: int | None = None, in_order: bool = True,
        committed: bool = True, timeout: float = 5.0,
    ) -> list[StoredRecord]:  # fmt: skip
        """Wait until the topic has as many records as expected, and compare the records.

        `wirebroker.testing.expectations` describes how to write expected records.

        The expected records must be in order of partition and offset, unless `in_order=False`. With `committed=True` they are
        compared with the records that a read_committed consumer gets, otherwise with all records. Returns the records. Raises
        AssertionError with the differences if the records differ, or if records are still missing after `timeout` seconds.
        Raises KeyError if no records are expected and the topic does not exist.
        """
        _check_no_loop("assert_records")
        goal = RecordsExpected(topic, list(records), partition, in_order=in_order, committed=committed)
        return goal.verdict(self._reach(goal, timeout))

    async def assert_records_async(
        self, topic: str, records: Sequence[Any], *, partition: int | None = None, in_order: bool = True,
        committed: bool = True, timeout: float = 5.0,
    ) -> list[StoredRecord]:  # fmt: skip
        """The form of `assert_records` for `async` code, in any event loop."""
        goal = RecordsExpected(topic, list(records), partition, in_order=in_order, committed=committed)
        return goal.verdict(await self._reach_async(goal, timeout))

    # Groups, and everything

    def wait_for_group(
        self, group: str, *, members: int | None = None, committed: Offsets | None = None, lag: int | None = None,
        timeout: float = 5.0,
    ) -> states.Group:  # fmt: skip
        """Wait until a group is stable. With `members`, wait until the group also has this number of members. Returns the
        group. Raises TimeoutError.

        With `committed={("orders", 0): 3}`, wait until the group has committed these or later offsets. With `lag=n`, wait until
        the group lags by at most n records, as counted for a read_committed consumer. With `committed` or `lag`, the group does
        not have to be stable, unless `members` is given as well.
        """
        _check_no_loop("wait_for_group")
        return self._reach(GroupReady(group, members, committed, lag), timeout)

    async def wait_for_group_async(
        self, group: str, *, members: int | None = None, committed: Offsets | None = None, lag: int | None = None,
        timeout: float = 5.0,
    ) -> states.Group:  # fmt: skip
        """The form of `wait_for_group` for `async` code, in any event loop."""
        return await self._reach_async(GroupReady(group, members, committed, lag), timeout)

    def wait_until_quiet(self, seconds: float = 0.2, timeout: float = 5.0) -> None:
        """Wait for `seconds` seconds in which no record is stored, no offset is committed, and no group or transaction changes.
        Raises TimeoutError.

        Polling consumers, heartbeats and waiting producers do not count as changes.
        """
        _check_no_loop("wait_until_quiet")
        self._reach(Quiet(seconds, time.monotonic), timeout)

    async def wait_until_quiet_async(self, seconds: float = 0.2, timeout: float = 5.0) -> None:
        """The form of `wait_until_quiet` for `async` code, in any event loop."""
        await self._reach_async(Quiet(seconds, time.monotonic), timeout)

    # A rolling upgrade

    def upgrade(self, to: ProfileName, *, node_id: int | None = None, finalize: bool = True, pause: float = 0) -> None:
        """Upgrade the brokers to a release such as "kafka-4.4", one after the other. Each broker stops and starts with all its
        data.

        With `node_id` only this broker is upgraded. With `pause` each broker is down for this many seconds of the broker's
        clock, and the same time passes before the next broker stops. If the clock is frozen, this method returns without
        waiting, and the upgrade continues when a test advances the clock. A killed broker gets the new release and stays down.
        When all brokers have the new release, the feature levels rise to the levels of a new cluster, unless `finalize` is
        false. You can also give an earlier release: brokers can be downgraded if the feature levels allow it. Raises
        ValueError if the feature levels do not allow the release, if an upgrade is in progress, or if an argument is invalid.
        Raises RuntimeError if the broker is reset during a pause, and OSError if the feature levels cannot be written.
        """
        if pause:
            _check_no_loop("upgrade")
        if (begun := self._begin_upgrade(to, node_id, finalize, pause)) is not None:
            self.wait_until(lambda: self._call(partial(is_upgraded, begun)), LONGEST_UPGRADE_S)

    async def upgrade_async(
        self, to: ProfileName, *, node_id: int | None = None, finalize: bool = True, pause: float = 0
    ) -> None:
        """The form of `upgrade` for `async` code, in any event loop."""
        if (begun := self._begin_upgrade(to, node_id, finalize, pause)) is not None:
            await self.wait_until_async(lambda: self._call(partial(is_upgraded, begun)), LONGEST_UPGRADE_S)

    def _begin_upgrade(self, to: str, node_id: int | None, finalize: bool, pause: float) -> Upgrading | None:
        """Begin an upgrade. Returns the upgrade if the caller has to wait for its end, else None."""
        begun = self._change(lambda engine, now: upgrade(engine, now, to, node_id, finalize=finalize, pause=pause))
        return begun if pause and self._running.clock.running else None

    # Goals

    def _reach(self, goal: Goal[T], timeout: float) -> T:
        try:
            self.wait_until(lambda: self._call(goal.reached), timeout)
        except TimeoutError:
            self._check_late(goal, timeout)
        return self._call(goal.result)

    async def _reach_async(self, goal: Goal[T], timeout: float) -> T:
        try:
            await self.wait_until_async(lambda: self._call(goal.reached), timeout)
        except TimeoutError:
            self._check_late(goal, timeout)
        return self._call(goal.result)

    def _check_late(self, goal: Goal[T], timeout: float) -> None:
        """Raises TimeoutError if the goal has a shortfall. If it has none, the goal's result explains what is missing."""
        if (missing := self._call(goal.shortfall)) is not None:
            raise TimeoutError(f"{missing} {timeout} s") from None


def _check_no_loop(name: str) -> None:
    """Raises RuntimeError if the caller is a coroutine, because the call would block the event loop, and a client in the same
    loop could not send.
    """
    if running_loop() is not None:
        raise RuntimeError(f"kafka.{name} would block the event loop that runs here; await kafka.{name}_async(…) instead")
