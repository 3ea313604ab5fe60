"""The states of a classic group, and which may follow which (Kafka's ClassicGroupState).

Rule 1: everything that changes a group's state goes through `Group.transition`, which reads this table.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """A group's state; the value is what DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    """No members; there may be offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waiting for the members to join again."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Waiting for the leader's assignment."""
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
"""From which states each may be entered."""
