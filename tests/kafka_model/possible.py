"""The states in which a broker may be. Each response removes the states in which the broker could not send this response."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=Hashable)

STORED, REPEATED, REFUSED = "stored", "recognised as a retry", "refused"
DONE = "done"
MOST = 64
"""The model keeps at most this many states, and drops the others. A response that only a dropped state allows counts as wrong.
But so many states already allow nearly every response."""


class Outcome(NamedTuple):
    """What a response says. `detail` is an error code, an offset, or a producer's id and epoch; None stands for any detail."""

    what: str
    detail: object = None

    def allows(self, seen: Outcome) -> bool:
        return self.what == seen.what and self.detail in (None, seen.detail)

    def __str__(self) -> str:
        return self.what if self.detail is None else f"{self.what} ({self.detail})"


def refused(code: int) -> Outcome:
    return Outcome(REFUSED, code)


Step = Callable[[S], Iterable[tuple[Outcome, S]]]


class Possible(Generic[S]):
    """The states that are possible."""

    def __init__(self, *states: S) -> None:
        self.states: tuple[S, ...] = states

    def add(self, *states: S) -> None:
        self.states = tuple(dict.fromkeys((*self.states, *states)))[:MOST]

    def change(self, change: Callable[[S], S]) -> None:
        self.states = tuple(dict.fromkeys(map(change, self.states)))

    def keep(self, holds: Callable[[S], bool]) -> bool:
        """Keeps only the states for which the condition holds. If it holds for no state, changes nothing and returns False."""
        kept = tuple(state for state in self.states if holds(state))
        self.states = kept or self.states
        return bool(kept)

    def see(self, step: Step[S], seen: Outcome) -> list[Outcome]:
        """Does the step in each state, and keeps the resulting states whose outcome is the seen outcome. If there are none,
        returns the possible outcomes of the step."""
        ways = [way for state in self.states for way in step(state)]
        allowed = [after for outcome, after in ways if outcome.allows(seen)]
        if not allowed:
            return list(dict.fromkeys(outcome for outcome, _ in ways))
        self.states = tuple(dict.fromkeys(allowed))[:MOST]
        return []
