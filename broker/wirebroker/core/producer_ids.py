"""Producer ids: the controller hands out blocks, each broker counts through its own (Kafka's RPCProducerIdManager)."""

from __future__ import annotations

BLOCK_SIZE = 1000


class ProducerIds:
    """Cluster-wide unique 64-bit ids. What a broker has left of its block is lost when it restarts."""

    def __init__(self) -> None:
        self.next_block = 0
        self._blocks: dict[int, tuple[int, int]] = {}

    def allocate(self, node_id: int) -> int:
        """The next id of this broker."""
        following, end = self._blocks.get(node_id, (0, 0))
        if following >= end:
            following = self.next_block
            self.next_block = end = following + BLOCK_SIZE
        self._blocks[node_id] = (following + 1, end)
        return following

    def give_back(self, node_id: int, next_block: int) -> None:
        """The block that the broker just got cannot be written down: it is `next_block` that comes next."""
        self._blocks.pop(node_id, None)
        self.next_block = next_block

    def issued(self, producer_id: int) -> bool:
        """Whether some broker has handed out this id."""
        if not 0 <= producer_id < self.next_block:
            return False
        return all(not following <= producer_id < end for following, end in self._blocks.values())

    def restarted(self, node_id: int) -> None:
        """The broker forgets its block."""
        self._blocks.pop(node_id, None)
