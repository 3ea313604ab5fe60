"""The rules, pure: no sockets, no clock, no randomness of its own."""
