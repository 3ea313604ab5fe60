"""Producer ids. The controller allocates blocks of ids to the brokers (Kafka's RPCProducerIdManager)."""

from __future__ import annotations

BLOCK_SIZE = 1000


class ProducerIds:
    """Cluster-wide unique 64-bit ids. A broker that restarts loses the rest of its block."""

    def __init__(self) -> None:
        self.next_block = 0
        self._blocks: dict[int, tuple[int, int]] = {}

    def allocate(self, node_id: int) -> int:
        """Returns the next id of this broker."""
        following, end = self._blocks.get(node_id, (0, 0))
        if following >= end:
            following = self.next_block
            self.next_block = end = following + BLOCK_SIZE
        self._blocks[node_id] = (following + 1, end)
        return following

    def give_back(self, node_id: int, next_block: int) -> None:
        """The allocation of the broker's new block could not be written down. Take the block back, and set the next block back
        to `next_block`."""
        self._blocks.pop(node_id, None)
        self.next_block = next_block

    def issued(self, producer_id: int) -> bool:
        if not 0 <= producer_id < self.next_block:
            return False
        return all(not following <= producer_id < end for following, end in self._blocks.values())

    def restarted(self, node_id: int) -> None:
        """Forget the broker's block."""
        self._blocks.pop(node_id, None)
