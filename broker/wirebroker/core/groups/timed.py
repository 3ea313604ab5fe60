"""The timers of a group with a coordinator's protocol, by kind and member."""

from __future__ import annotations

from collections.abc import Iterator

from wirebroker.core.groups.changing import Changes
from wirebroker.core.purgatory import Action, Timer


class TimedGroup:
    """A group that waits for its members."""

    def __init__(self, group_id: str, changes: Changes) -> None:
        self.group_id = group_id
        self._changes = changes
        self._pending: dict[tuple[str, str], Timer] = {}

    def set_timer(self, kind: str, member_id: str, when: int, action: Action) -> None:
        """Run the action at `when` (ms since the epoch), or once nobody changes the group any more; it replaces an earlier
        timer of this kind and member.
        """
        self.cancel_timer(kind, member_id)
        timers = self._changes.timers
        timer = timers.at(when, lambda now: timers.work(self._run(kind, member_id, timer, action, now)))
        self._pending[kind, member_id] = timer

    def _run(self, kind: str, member_id: str, timer: Timer, action: Action, now: int) -> Iterator[None]:
        yield from self._changes.settled([self.group_id])
        if self._pending.get((kind, member_id)) is timer:  # the change has not cancelled it
            action(now)

    def has_timer(self, kind: str, member_id: str) -> bool:
        """Whether a timer of this kind runs for the member."""
        running = self._pending.get((kind, member_id))
        return running is not None and running.action is not None

    def cancel_timer(self, kind: str, member_id: str) -> None:
        """Cancel a timer, if there is one."""
        if (timer := self._pending.pop((kind, member_id), None)) is not None:
            timer.cancel()

    def cancel_timers(self) -> None:
        """Cancel all timers: the group is gone, or the broker stopped."""
        for timer in self._pending.values():
            timer.cancel()
        self._pending.clear()
