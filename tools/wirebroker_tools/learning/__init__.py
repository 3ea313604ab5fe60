"""Learned clusters: the format of their file, the requests that learn from a real cluster, the hashing of names, and the
comparison of two clusters."""
