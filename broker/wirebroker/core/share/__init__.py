"""Share groups (KIP-932). Several consumers share the records of a partition. The broker gives out each record under a lock,
and a consumer acknowledges the record."""
