"""Authentication: security protocols, principals, SASL mechanisms, credentials, and the session of a connection.

This package does no I/O and reads no clock: tokens are bytes, and the time and random bytes are arguments.
"""
