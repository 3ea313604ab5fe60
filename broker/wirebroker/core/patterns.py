r"""Regular expressions that clients send: to subscribe to topics (KIP-848), and to list transactional ids (ListTransactions).

Kafka matches these expressions with RE2/J. This module uses RE2. Like RE2/J, RE2 needs only linear time, even for `(a+)+`. RE2
accepts the same expressions as RE2/J and, in addition, `\C` and two groups with the same name; this module refuses both, as
RE2/J does. This broker refuses a large pattern with INVALID_REGULAR_EXPRESSION. Kafka compiles large patterns, but fails or
crashes at some of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

LONGEST = 1000
"""The largest number of characters in a pattern."""
MOST_REPEATS = 1000
MOST_UNICODE_CLASSES, STATES_OF_CLASS = 10, 1300
r"""The largest number of `\p` in a pattern, and the largest number of RE2 instructions for one `\p`. RE2 takes a millisecond to
compile one `\p`."""
MOST_STATES = 2500
r"""The largest number of RE2 instructions of a pattern; the instructions of `\p` do not count. For each character of a text,
RE2 may run all instructions."""
MEMORY_AT_FIRST = 600_000
"""The number of bytes that RE2 may use in the first compilation. This compilation only finds the size of the pattern; because
the limit is small, RE2 gives up early."""
MEMORY = 4 << 20
"""The number of bytes that RE2 may use for one pattern and its cache of states."""
MOST_KNOWN = 100_000
"""A pattern remembers the results of matching for at most this many names."""
TOO_LARGE = "the expression is too large for this broker"

_TOKENS = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\(?P<escaped>.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P?<(?P<name>\w+)>"
    r"|\{(?P<low>\d+)(?:,(?P<high>\d*))?\}",
    re.DOTALL,
)
"""The parts of a pattern that RE2 and RE2/J treat differently. A character class in brackets is one token, so the characters
inside the brackets are not examined."""
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
"""RE2's messages, and RE2/J's messages for the same errors."""


class PatternError(ValueError):
    """Raised if a pattern is refused. The exception has RE2/J's message."""


class Pattern:
    """A compiled pattern. The pattern remembers which names match, because groups match the same topics repeatedly."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self._known: dict[str, bool] = {}
        self._states: int = compiled.programsize

    def matches(self, text: str) -> bool:
        """Tells whether the pattern matches the whole text, like RE2/J's `matches`."""
        return self._compiled.fullmatch(text.encode()) is not None

    def found_in(self, text: str) -> bool:
        """Tells whether the pattern matches some part of the text."""
        return self._compiled.search(text.encode()) is not None

    def learn(self, names: Iterable[str], steps: int) -> bool:
        """Match the names and remember the results. Stops after `steps` steps of RE2 (about 100 steps take a microsecond).

        Returns False if names are left; the caller then calls the method again. Every call matches at least one name.
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
        known = self._known
        return frozenset(name for name in names if (known[name] if name in known else self.matches(name)))


CALL = 500
"""The cost of a call of RE2, in steps."""


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Pattern:
    """Returns the compiled pattern. Raises PatternError."""
    classes = pattern.count(r"\p") + pattern.count(r"\P")
    if len(pattern) > LONGEST or classes > MOST_UNICODE_CLASSES:
        raise PatternError(TOO_LARGE)
    if _compile(pattern, MEMORY_AT_FIRST).programsize > MOST_STATES + classes * STATES_OF_CLASS:
        raise PatternError(TOO_LARGE)
    _check_differences(pattern)
    return Pattern(_compile(pattern, MEMORY))


def _compile(pattern: str, memory: int) -> Any:
    import re2  # the import takes 7 ms, and most brokers never need re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = memory
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise PatternError(_re2j_message(error.args[0])) from None


def _re2j_message(message: str | bytes) -> str:
    text = message.decode(errors="replace") if isinstance(message, bytes) else message
    what = text.partition(": ")[0]
    return _WORDS.get(what, what)


def _check_differences(pattern: str) -> None:
    """Raise PatternError if RE2/J would refuse the pattern, though RE2 accepts it."""
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
    """Tells whether java.util.regex would accept the expression, as far as Python's `re` can tell. The expression is only
    checked, and never matched."""
    try:
        re.compile(text[: LONGEST + 1])
    except (re.error, RecursionError, OverflowError):
        return False
    return len(text) <= LONGEST
