"""The objects around one request: its connection, its client and the client's rights, its facts, errors and effects. The proxy,
too, uses most of this package.
"""
