"""Kafka's files: how a log directory names them, and how the bytes in them are read and made.

Functions of bytes and paths. They own no directory and keep no file open: writing, recovering and locking a
directory is the caller's business.
"""
