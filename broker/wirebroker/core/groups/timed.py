"""The timers of a group with a coordinator's protocol, by kind and member."""

from __future__ import annotations

from wirebroker.core.purgatory import Action, Timer, Timers


class TimedGroup:
    """A group that waits for its members."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._pending: dict[tuple[str, str], Timer] = {}

    def set_timer(self, kind: str, member_id: str, when: int, action: Action) -> None:
        """Run the action at `when` (ms since the epoch); it replaces an earlier timer of this kind and member."""
        self.cancel_timer(kind, member_id)
        self._pending[kind, member_id] = self._timers.at(when, action)

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
