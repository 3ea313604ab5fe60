"""The rules of the broker. The package uses no sockets, no clock and no randomness of its own."""
