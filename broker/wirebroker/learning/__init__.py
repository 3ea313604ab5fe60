"""Learned clusters: their file, the requests to a real cluster, hashed names, and the differences between two clusters."""
