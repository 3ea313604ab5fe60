"""Converts the bytes of frames and record batches to named fields that people can read, and back."""
