"""The states of a classic group, and the allowed transitions (Kafka's ClassicGroupState).

Every change of a group's state goes through `Group.transition`, which reads this table.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """A group's state; DescribeGroups and ListGroups show the value."""

    EMPTY = "Empty"
    """The group has no members; it may have offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The group waits for its members to join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The group waits for the leader's assignment."""
    STABLE = "Stable"
    """Every member has its assignment."""
    DEAD = "Dead"
    """Deleted."""


PREVIOUS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    State.PREPARING_REBALANCE: frozenset({State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY}),
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    State.DEAD: frozenset(State),
}
"""The states from which each may be entered."""
