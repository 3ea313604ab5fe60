"""Helpers that every layer may import and that import no layer: turns in long work, suggestions for mistyped names."""
