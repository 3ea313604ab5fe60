"""Advice about a mistyped word."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 100
"""The number of characters of the word that are compared, because the comparison takes long for long words."""
MOST_NAMES = 30
"""The largest number of known words that a sentence lists."""


def did_you_mean(word: str, known: Iterable[str], likeness: float = 0.5) -> str:
    """Returns the end of a sentence about an unknown word, `; did you mean 'orders'?`, or "" if no known word is similar."""
    from difflib import get_close_matches  # its import takes a while, and most runs need no advice

    close = get_close_matches(word[:LONGEST], list(known), 1, likeness)
    return f"; did you mean {close[0]!r}?" if close else ""


def nearest(word: str, known: Iterable[str], among: str = "there are") -> str:
    """Like `did_you_mean`. If no known word is similar, lists all known words, unless there are more than `MOST_NAMES`."""
    names = list(known)
    listed = f"; {among} {', '.join(names)}" if len(names) <= MOST_NAMES else ""
    return did_you_mean(word, names) or listed
