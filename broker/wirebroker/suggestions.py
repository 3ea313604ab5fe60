"""Advice about a word that somebody mistyped."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 100
"""Characters of the word that are compared; the comparison takes long for long words."""


def did_you_mean(word: str, known: Iterable[str], likeness: float = 0.5) -> str:
    """The end of a sentence about an unknown word, `; did you mean 'orders'?`; "" if no known word is like it."""
    from difflib import get_close_matches  # takes a while to import, and most runs need no advice

    close = get_close_matches(word[:LONGEST], list(known), 1, likeness)
    return f"; did you mean {close[0]!r}?" if close else ""
