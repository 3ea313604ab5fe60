"""The offsets that groups commit."""

from __future__ import annotations

from typing import NamedTuple

TopicPartition = tuple[str, int]


class Committed(NamedTuple):
    """A committed offset; `leader_epoch` is −1 if the client did not say.

    `time` is when it was committed, `expires` when it is forgotten if the client said so, both ms since the epoch.
    """

    offset: int
    leader_epoch: int
    metadata: str
    time: int
    expires: int | None = None


NOTHING = Committed(-1, -1, "", -1)


class OffsetStore:
    """Group to partition to committed offset."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[TopicPartition, Committed]] = {}

    def commit(self, group_id: str, where: TopicPartition, committed: Committed) -> None:
        """Remember an offset."""
        self._groups.setdefault(group_id, {})[where] = committed

    def of(self, group_id: str) -> dict[TopicPartition, Committed]:
        """A group's offsets; empty if it has none."""
        return self._groups.get(group_id, {})

    def delete(self, group_id: str, where: TopicPartition) -> None:
        """Forget one offset."""
        self._groups.get(group_id, {}).pop(where, None)

    def delete_group(self, group_id: str) -> None:
        """Forget all offsets of a group."""
        self._groups.pop(group_id, None)

    def delete_topic(self, topic: str) -> None:
        """Forget all offsets of a topic."""
        for offsets in self._groups.values():
            for where in [where for where in offsets if where[0] == topic]:
                del offsets[where]
