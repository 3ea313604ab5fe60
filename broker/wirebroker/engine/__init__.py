"""The broker without I/O: requests in, effects out, in slices."""
