"""Consumer groups: classic membership, and the offsets that groups commit."""

from wirebroker.core.groups.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
