"""A member of a consumer, share or streams group (Kafka's ModernGroupMember)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self

LEAVES = -1
"""The member epoch in the heartbeat of a member that leaves."""
LEAVES_FOR_A_WHILE = -2
"""The member epoch in the heartbeat of a static member that leaves temporarily."""


class MemberState(Enum):
    """The state of a member's reconciliation."""

    STABLE = 0
    """The member has the target assignment of its epoch."""
    UNREVOKED = 1
    """The member must give up partitions or tasks, and has not confirmed yet that it has done so."""
    UNRELEASED = 2
    """The member waits for partitions or tasks that other members still own."""


@dataclass(frozen=True, slots=True)
class ModernMember:
    """A member of a group. The object is immutable: to change a member, the group replaces its object. Timeouts are in ms."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Any = field(default_factory=dict)
    revoking: Any = field(default_factory=dict)
    """The partitions or tasks that the member must give up."""

    @property
    def speaks_classic(self) -> bool:
        """Tells whether the member uses the classic protocol."""
        return False

    def reconciled_to(self, epoch: int) -> bool:
        """Tells whether the member has reached the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def moved(self, epoch: int, state: MemberState, assigned: Any, revoking: Any) -> Self:
        """Returns the member with this epoch, state and assignment. The epoch that it has now becomes its previous epoch."""
        return replace(
            self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking
        )  # fmt: skip

    def has_metadata_of(self, other: ModernMember) -> bool:
        """Tells whether both members would have the same record of the fields that the member sends."""
        return _same(self, other, (each for each in self.__dataclass_fields__ if each not in ASSIGNMENT))

    def has_assignment_of(self, other: ModernMember) -> bool:
        """Tells whether both members would have the same record of epochs and assignment."""
        return _same(self, other, ASSIGNMENT)


ASSIGNMENT = ("epoch", "previous_epoch", "state", "assigned", "revoking")
"""The fields that are in the record of a member's epochs and assignment. The other fields are in the record of the fields that
the member sends."""


def _same(one: ModernMember, other: ModernMember, names: Iterable[str]) -> bool:
    return all((held := getattr(one, each)) is (also := getattr(other, each)) or held == also for each in names)
