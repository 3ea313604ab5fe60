"""The interface for tests, in Python and over HTTP: options, operations, states and client settings."""
