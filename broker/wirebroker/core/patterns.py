r"""Regular expressions of clients: topics to subscribe to (KIP-848), transactional ids to list (ListTransactions).

Kafka matches them with RE2/J. RE2 takes the same expressions and needs linear time as well, so that `(a+)+` costs nobody
anything. Where they differ RE2/J decides: it knows no `\C`, and refuses a name that two groups have. What would be large
is refused here with INVALID_REGULAR_EXPRESSION; Kafka compiles it, and fails or dies of some.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

LONGEST = 1000
"""Characters that a pattern may have."""
MOST_REPEATS = 1000
MOST_UNICODE_CLASSES, STATES_OF_CLASS = 10, 1300
r"""How often a pattern may say \p, and the instructions that one takes at most; it takes a millisecond to compile, too."""
MOST_STATES = 2500
"""Instructions that a pattern may have beside those: RE2 may go through all of them for each character of a text."""
MEMORY_AT_FIRST = 600_000
"""Bytes that RE2 may take to find out whether a pattern is too large; with so few that takes it no time."""
MEMORY = 4 << 20
"""Bytes that RE2 may take for one pattern and what it remembers of its matches."""
MOST_KNOWN = 100_000
"""Names of which a pattern remembers whether they match."""
TOO_LARGE = "it is larger than this broker compiles"

_TOKENS = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\(?P<escaped>.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P?<(?P<name>\w+)>"
    r"|\{(?P<low>\d+)(?:,(?P<high>\d*))?\}",
    re.DOTALL,
)
"""What the differences to RE2/J are about; a class in brackets is passed over as a whole."""
_WORDS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": TOO_LARGE,
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""What RE2 says, and what RE2/J says of the same."""


class PatternError(ValueError):
    """A pattern that is not taken; the text says why, in RE2/J's words."""


class Pattern:
    """A compiled pattern. It remembers which names match, since topics are looked through again and again."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._known: dict[str, bool] = {}
        self._states: int = compiled.programsize

    def matches(self, text: str) -> bool:
        """Whether all of the text matches, as RE2/J's `matches` says."""
        return self._compiled.fullmatch(text.encode()) is not None

    def learn(self, names: Iterable[str], steps: int) -> bool:
        """Find out which names match; False if that takes more than so many steps (a hundred or so are a microsecond).

        It may be called again to go on. A call makes some progress in any case.
        """
        known = self._known
        for name in names:
            if name in known:
                continue
            if steps <= 0:
                return False
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[name] = self.matches(name)
            steps -= CALL + len(name) * self._states
        return True

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that match."""
        known = self._known
        return frozenset(name for name in names if (known[name] if name in known else self.matches(name)))


CALL = 500
"""What a call of RE2 costs, in steps."""


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Pattern:
    """The compiled pattern. Raises PatternFault."""
    classes = pattern.count(r"\p") + pattern.count(r"\P")
    if len(pattern) > LONGEST or classes > MOST_UNICODE_CLASSES:
        raise PatternError(TOO_LARGE)
    if _compile(pattern, MEMORY_AT_FIRST).programsize > MOST_STATES + classes * STATES_OF_CLASS:
        raise PatternError(TOO_LARGE)
    _check_differences(pattern)
    return Pattern(_compile(pattern, MEMORY))


def _compile(pattern: str, memory: int) -> Any:
    import re2  # 7 ms that most brokers never need

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = memory
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise PatternError(_in_words_of_re2j(error.args[0])) from None


def _in_words_of_re2j(said: str | bytes) -> str:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    what = text.partition(": ")[0]
    return _WORDS.get(what, what)


def _check_differences(pattern: str) -> None:
    """Refuse what RE2/J refuses and RE2 does not. Raises PatternFault."""
    names: set[str] = set()
    for token in _TOKENS.finditer(pattern):
        if token["escaped"] == "C":
            raise PatternError("invalid escape sequence")
        if token["name"] in names:
            raise PatternError("duplicate capture group name")
        if token["name"] is not None:
            names.add(token["name"])
        if any(int(count) > MOST_REPEATS for count in (token["low"], token["high"]) if count):
            raise PatternError("invalid repeat count")


def is_java_pattern(text: str) -> bool:
    """Whether java.util.regex would take it, as far as Python's `re` can tell; it is never matched with anything."""
    try:
        re.compile(text[: LONGEST + 1])
    except (re.error, RecursionError, OverflowError):
        return False
    return len(text) <= LONGEST
