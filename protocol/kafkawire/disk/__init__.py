"""Kafka's files: the names in a log directory, and reading and writing the bytes of each file.

The package has functions of bytes and paths. These functions keep no file open. Writing, recovering and locking a directory is
left to the caller.
"""
