"""Advice about a mistyped word."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 100
"""Only this many characters of the word are compared, because the comparison takes long for long words."""
ALMOST = 0.8
"""The beginning of a longer known word counts if it is at least this similar (0 to 1) to the given word."""
BY_BEGINNING = 0.6
"""If the required similarity is higher than this, the beginnings of known words are not compared."""
MOST_NAMES = 30
"""The largest number of known words that a sentence lists."""


def did_you_mean(word: object, known: Iterable[str], likeness: float = 0.5) -> str:
    """Returns the end of a sentence about an unknown word, `; did you mean 'orders'?`, or "" if no known word is similar."""
    from difflib import SequenceMatcher, get_close_matches  # the import takes a while, and most runs need no advice

    word, names = str(word)[:LONGEST], list(known)
    close = get_close_matches(word, names, 1, likeness)
    begins = {name[: len(word)]: name for name in reversed(names) if len(name) > len(word)} if likeness <= BY_BEGINNING else {}
    for begin in get_close_matches(word, begins, 1, ALMOST):  # NOT_LEADR is almost the beginning of NOT_LEADER_OR_FOLLOWER
        if not close or SequenceMatcher(None, close[0], word).ratio() < SequenceMatcher(None, begin, word).ratio() - 0.05:
            close = [begins[begin]]
    return f"; did you mean {close[0]!r}?" if close else ""


def nearest(word: object, known: Iterable[str], among: str = "there are") -> str:
    """Like `did_you_mean`. If no known word is similar, lists all known words, unless they are more than `MOST_NAMES`."""
    names = list(known)
    listed = f"; {among} {', '.join(names)}" if 0 < len(names) <= MOST_NAMES else ""
    return did_you_mean(word, names) or listed
