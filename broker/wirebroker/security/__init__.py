"""Authentication: security protocols, principals, SASL mechanisms, credentials, and the session of a connection.

Nothing here does I/O or knows the time: tokens come in as bytes and leave as bytes, and `now` and random bytes are arguments.
"""
