"""Helpers that every layer may import and that import no layer: pauses in long work, suggestions for mistyped names."""
