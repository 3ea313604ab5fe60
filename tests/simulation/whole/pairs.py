"""The pairs of kinds that have been met, and the pairs that can be met. A schedule meets a pair if the second kind comes within
a few steps after the first. Some pairs concern the same thing, other pairs concern different things.

Every timer counts as concerning the whole cluster, because the timer's name does not show what it concerns. The timers that
fired in a step count as coming after the step, in the order in which they fired.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from simulation.whole.acts import ABOUT, ACTS
from simulation.whole.kinds import ASKED, KINDS
from simulation.whole.things import CLUSTER, SORTS, Things, sorts_of
from simulation.whole.timers import PREFIX, TIMERS

WITHIN = 6
"""The second kind of a pair must come within this many steps after the first."""
Pair = tuple[str, str, bool]
"""The first kind, the second kind, and whether both were about the same thing."""
Deed = tuple[str, Things]
"""A kind, and the things that it concerned."""


class Met:
    """The pairs that schedules have met. `begin` starts a schedule."""

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self.pairs: set[Pair] = set(pairs)
        self._latest: deque[Sequence[Deed]] = deque(maxlen=WITHIN)

    def begin(self) -> None:
        """Remember that a schedule begins. Two steps of different schedules are not a pair."""
        self._latest.clear()

    def note(self, done: Sequence[Deed]) -> None:
        """Note the events of a step: the step itself, and then the timers that fired."""
        before = [each for step in self._latest for each in step]
        for kind, things in done:
            for earlier, others in before:
                same = CLUSTER in things or CLUSTER in others or not things.isdisjoint(others)
                self.pairs.add((earlier, kind, same))
            before.append((kind, things))
        self._latest.append(done)


# Which pairs can be met

EVERY_KIND = [*KINDS, *(PREFIX + name for name in TIMERS)]
DISK: Mapping[str, Any] = {"data": True}
CLUSTERED: Mapping[str, Any] = {"brokers": 3}
SECURED: Mapping[str, Any] = {"secured": True}
EARLIER: Mapping[str, Any] = {"release": "kafka-4.3"}
NEEDS: dict[str, Mapping[str, Any]] = {
    "snapshot": {"data": False}, "restore": {"data": False},
    "start again cleanly": DISK, "start again after a kill": DISK, "the disk is full": DISK, "the disk fails once": DISK,
    "timer: FolderStore.checkpoint": DISK, "timer: FolderStore.compact": DISK, "timer: Decisions._again": DISK,
    "timer: FolderStore._sync_by_timer": {"data": True, "sync": "interval"},
    "an unclean election": CLUSTERED, "cluster: freeze_replica": CLUSTERED, "cluster: thaw_replica": CLUSTERED,
    "timer: Controller._check_lag": CLUSTERED, "timer: Delayed._finish": CLUSTERED,
    "timer: Controller.reassign.<locals>.<lambda>": CLUSTERED,
    "acl: add_acl": SECURED, "acl: remove_acl": SECURED,
    "timer: Group._complete_join": {"static": True}, "timer: Group._complete_late_join": {"static": True},
    "upgrade": EARLIER, "timer: Upgrading.go_on": {"brokers": 3, "release": "kafka-4.3"},
}  # fmt: skip
"""The settings that a kind of step or a timer needs."""


def needs(kinds: Iterable[str]) -> dict[str, Any] | None:
    """Returns the settings that all these kinds need, or None if they contradict each other."""
    found: dict[str, Any] = {}
    for kind in kinds:
        for name, value in NEEDS.get(kind, {}).items():
            if found.setdefault(name, value) != value:
                return None
    return found


def sort_of(kind: str) -> str:
    """Returns whether a kind is a request, a timer or an act."""
    return "timer" if kind.startswith(PREFIX) else "act" if kind in ACTS else "request"


SORTS_OF = {kind: sorts_of(kind) if kind in ASKED else frozenset({ABOUT.get(kind, CLUSTER)}) for kind in EVERY_KIND}
"""The sorts of things that each kind can be about."""


def cannot(before: str, kind: str, *, same: bool) -> str:
    """Returns why a pair cannot be met, or "" if it can."""
    if needs((before, kind)) is None:
        return "they need different clusters"
    ones, others = SORTS_OF[before], SORTS_OF[kind]
    if same:
        return "" if CLUSTER in ones | others or ones & others else "they are never about the same sort of thing"
    ones, others = ones - {CLUSTER}, others - {CLUSTER}
    if not ones or not others:
        return "one of them is always about the whole cluster"
    return "" if len(ones | others) > 1 or ones & SORTS else "there is only one thing of this sort"


def all_pairs() -> Iterator[Pair]:
    """Yields each pair that can be met."""
    for before in EVERY_KIND:
        for kind in EVERY_KIND:
            yield from ((before, kind, same) for same in (True, False) if not cannot(before, kind, same=same))
