"""Share groups (KIP-932). Several consumers share the records; the broker gives out each record under a lock, and a consumer
acknowledges it."""
