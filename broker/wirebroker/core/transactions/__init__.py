"""The transaction coordinator, the state of one transactional id, and the records of __transaction_state."""

from wirebroker.core.transactions.coordinator import TransactionCoordinator

__all__ = ["TransactionCoordinator"]
