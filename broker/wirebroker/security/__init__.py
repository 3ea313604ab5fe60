"""Authentication: security protocols, principals, SASL mechanisms, credentials, and the session of a connection.

This package does no I/O and reads no clock. Tokens are bytes; the time and random bytes are arguments.
"""
