"""Changes of groups that take several slices.

Kafka's coordinator handles the requests for a group one after the other. Therefore each request or timer for a group waits
while a change of the group is running. The waiting request itself runs the rest of the change, one slice at a time. So the
waiting request does not depend on the request that began the change.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

from wirebroker.core.purgatory import Timers
from wirebroker.core.releases import Release

T = TypeVar("T")


class _Change:
    """The rest of a change after its first slice."""

    __slots__ = ("done", "error", "result", "slices")

    def __init__(self, slices: Generator[None, Any, Any]) -> None:
        self.slices = slices
        self.done = False
        self.result: Any = None
        self.error: Exception | None = None


class Changes:
    """The changes of one coordinator's groups."""

    def __init__(self, timers: Timers, release: Callable[[], Release]) -> None:
        """`release` returns the release that the brokers run."""
        self.timers = timers
        self.release = release
        self.running: dict[str, _Change] = {}
        """The changes in progress, by group id."""

    def concern(self, group_ids: Iterable[str]) -> bool:
        """Tells whether a change of any of these groups is in progress."""
        return any(each in self.running for each in group_ids)

    def alone(self, group_id: str, slices: Generator[None, Any, T]) -> Generator[None, Any, T]:
        """Change a group. First finish the group's running change, if there is one: a change can begin between two slices of a
        request, and a timer can fire during a change. If the caller closes this generator between two slices, the change ends
        there."""
        if group_id in self.running:
            yield from self.settled([group_id])
        try:
            next(slices)
        except StopIteration as last:
            return last.value  # type: ignore[no-any-return]
        change = self.running[group_id] = _Change(slices)
        try:
            while not change.done:
                yield None
                self._go_on(group_id, change)
        finally:
            if not change.done:
                del self.running[group_id]
                slices.close()
        if change.error is not None:
            raise change.error
        return change.result  # type: ignore[no-any-return]

    def _go_on(self, group_id: str, change: _Change) -> None:
        if change.done:
            return
        try:
            next(change.slices)
        except StopIteration as last:
            change.result = last.value
        except Exception as error:  # the request that began the change raises the error again
            change.error = error
        else:
            return
        change.done = True
        del self.running[group_id]

    def settled(self, group_ids: Iterable[str]) -> Generator[None, Any, None]:
        """Finish the changes of these groups, in slices."""
        waits = list(group_ids) if self.running else []
        while (group_id := next((each for each in waits if each in self.running), None)) is not None:
            self._go_on(group_id, self.running[group_id])
            yield None

    def finish(self) -> None:
        """Finish all changes before any other request is handled."""
        for _ in self.settled(list(self.running)):
            pass
