"""A member of a share group, and the group's share partitions that have a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wirebroker.core.groups.modern_member import ModernMember
from wirebroker.core.groups.simple_assignor import Partitions


@dataclass(frozen=True, slots=True)
class ShareMember(ModernMember):
    """A member of a share group."""

    topics: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=dict)


class Prepared(NamedTuple):
    """Partitions of one topic whose state is being initialized or is initialized. `time` is the start of the initialization, in
    ms since the epoch."""

    name: str
    partitions: frozenset[int]
    time: int


@dataclass(frozen=True, slots=True)
class Preparation:
    """For a share group, by topic id: the topics whose state is being initialized, is initialized, or is being deleted. The
    state of a topic is that of its share partitions."""

    initializing: Mapping[bytes, Prepared] = field(default_factory=dict)
    initialized: Mapping[bytes, Prepared] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    @property
    def by_state(self) -> tuple[Mapping[bytes, Any], ...]:
        """The three mappings, in the order of the fields."""
        return self.initializing, self.initialized, self.deleting
