"""Share groups (KIP-932): records that several consumers share, each given out under a lock and acknowledged on its own."""
