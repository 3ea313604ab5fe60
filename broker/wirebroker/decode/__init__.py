"""Frames and record batches for people: bytes to named fields, and back."""
