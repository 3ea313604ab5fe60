"""Kafka's files: the names in a log directory, and reading and writing the bytes of each file.

The functions of this package take bytes and paths, and keep no file open. Writing, recovering and locking a directory is left
to the caller.
"""
