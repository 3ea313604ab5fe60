"""The states of a classic group, and the allowed transitions (Kafka's ClassicGroupState).

Every change of a group's state goes through `Group.transition`, which reads this table.
"""

from __future__ import annotations

from enum import Enum


class ClassicGroupState(Enum):
    """The state of a group. The value of the enum member is the name that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    """The group has no members. The group may have committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The group waits for its members to join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The group waits for the leader's assignment."""
    STABLE = "Stable"
    """Every member has its assignment."""
    DEAD = "Dead"
    """Deleted."""


PREVIOUS: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
    ClassicGroupState.DEAD: frozenset(ClassicGroupState),
}
"""For each state, the states from which a group may change to this state."""
