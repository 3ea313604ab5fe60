"""The broker without I/O. The engine takes requests and returns effects, and does long work in slices."""
