"""The engine's connection to real sockets and real time."""
