"""Helpers for every layer, without imports from any: turns in long work, the name that was probably meant."""
