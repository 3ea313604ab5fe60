"""What tests set and read beside the wire, for Python and for HTTP: options, operations, states, client settings."""
