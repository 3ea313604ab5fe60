"""A cluster that was learned: its file, how a real cluster is asked for it, names that are hashed, and what differs."""
