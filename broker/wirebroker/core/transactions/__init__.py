"""The transaction coordinator: states, one transactional id, and the coordinator that finds it."""

from wirebroker.core.transactions.coordinator import TransactionCoordinator

__all__ = ["TransactionCoordinator"]
