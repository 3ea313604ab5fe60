"""Kafka's files: the names in a log directory, and reading and writing the bytes of each file.

Functions of bytes and paths. They own no directory and keep no file open: writing, recovering and locking a
directory is the caller's business.
"""
