"""Which pairs of kinds have been met: the second within a few steps after the first, about the same thing or not.

Timers are about the cluster as a whole, because their names do not tell what they are about.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from simulation.whole.things import CLUSTER, Things

WITHIN = 6
"""How many steps may lie between the two of a pair."""
Pair = tuple[str, str, bool]
"""The first kind, the second kind, and whether both were about the same thing."""


class Met:
    """The pairs that schedules have met. `begin` starts a schedule."""

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self.pairs: set[Pair] = set(pairs)
        self._latest: deque[tuple[str, Things]] = deque(maxlen=WITHIN)

    def begin(self) -> None:
        """A schedule begins, so nothing has come before."""
        self._latest.clear()

    def note(self, kind: str, things: Things) -> None:
        """Note a step that was done."""
        for before, others in self._latest:
            same = CLUSTER in things or CLUSTER in others or bool(things & others)
            self.pairs.add((before, kind, same))
        self._latest.append((kind, things))
