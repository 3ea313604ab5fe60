"""Regular expressions of topic names, in the syntax of RE2/J, which Kafka uses for SubscribedTopicRegex.

What RE2/J refuses is refused with its words; what it takes becomes a pattern of Python. Topic names consist of few
characters, so that everything that matches one character becomes the set of those it can match in a name.
"""

from __future__ import annotations

import re
import string
import unicodedata
from functools import lru_cache

IN_NAMES = frozenset(string.ascii_letters + string.digits + "._-")
"""The characters that a topic's name may have."""
MOST_REPEATS = 1000
INVALID_ESCAPE = "invalid escape sequence"
INVALID_RANGE = "invalid character class range"
INVALID_GROUP = "invalid or unsupported Perl syntax"
INVALID_NAME = "invalid named capture"
NOTHING_TO_REPEAT = "missing argument to repetition operator"

_ASCII = frozenset(map(chr, range(128)))
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_PERL = {"d": frozenset(string.digits), "s": frozenset("\t\n\f\r "), "w": _WORD}
_POSIX = {
    "alnum": frozenset(string.ascii_letters + string.digits), "alpha": frozenset(string.ascii_letters), "ascii": _ASCII,
    "blank": frozenset("\t "), "cntrl": frozenset(map(chr, [*range(32), 127])), "digit": frozenset(string.digits),
    "graph": frozenset(map(chr, range(33, 127))), "lower": frozenset(string.ascii_lowercase),
    "print": frozenset(map(chr, range(32, 127))), "punct": frozenset(string.punctuation),
    "space": frozenset("\t\n\v\f\r "), "upper": frozenset(string.ascii_uppercase), "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}  # fmt: skip
_CATEGORIES = (
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
_SCRIPTS = (
    "Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal "
    "Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic "
    "Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited "
    "Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin "
    "Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham "
    "Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic "
    "Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil "
    "Telugu Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi"
)
_CLASSES = frozenset([*_CATEGORIES.split(), *_SCRIPTS.split(), "Any"])
_LETTERS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_REPEAT = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_HEX = re.compile(r"\\x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")
_NAMED = re.compile(r"\(\?P?<")
_POSIX_CLASS = re.compile(r"\[:(\^?)(.*?):\]", re.DOTALL)


class RegexFault(ValueError):
    """RE2/J does not take the expression; the text is what it says of it."""


@lru_cache(maxsize=256)
def compile_topic_regex(regex: str) -> re.Pattern[str]:
    """A pattern whose `fullmatch` says whether RE2/J's `matches` does, for topic names. RegexFault if it is refused."""
    return re.compile(_Parser(regex).parse())


class _Group:
    """An open parenthesis: what it was opened with, and the alternatives in it so far."""

    def __init__(self, flags: frozenset[str]) -> None:
        self.flags = flags
        self.alternatives: list[list[str]] = [[]]

    def joined(self) -> str:
        return "(?:" + "|".join("".join(atoms) for atoms in self.alternatives) + ")"


class _Parser:
    def __init__(self, regex: str) -> None:
        self._regex = regex
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = [_Group(self._flags)]
        self._names: set[str] = set()

    def parse(self) -> str:
        repeated = False
        while self._at < len(self._regex):
            repeated = self._step(repeated)
        if len(self._groups) > 1:
            raise RegexFault("missing closing )")
        return self._groups[0].joined()

    @property
    def _rest(self) -> str:
        return self._regex[self._at :]

    def _add(self, atom: str) -> None:
        self._groups[-1].alternatives[-1].append(atom)

    def _step(self, repeated: bool) -> bool:
        """One element of the expression; `repeated`, and the answer, say that it was a repetition."""
        char = self._regex[self._at]
        if char in "*+?":
            self._at += 1
            self._repeat(char, repeated)
            return True
        if char == "{":
            return self._braces(repeated)
        if char == "[":
            self._add(_one_of(self._class(), self._flags))
        elif char == "\\":
            self._escape()
        elif char == "(":
            self._open()
        else:
            self._at += 1
            if char == ")":
                self._close()
            elif char == "|":
                self._groups[-1].alternatives.append([])
            elif char == ".":
                self._add(_one_of(_ASCII, self._flags))
            elif char in "^$":
                self._add(r"\A" if char == "^" else r"\Z")
            else:
                self._add(_one_of(frozenset(char), self._flags))
        return False

    # Repetition

    def _braces(self, repeated: bool) -> bool:
        found = _REPEAT.match(self._regex, self._at)
        if found is None:
            self._at += 1
            self._add(_one_of(frozenset("{"), self._flags))
            return True  # as RE2/J has it, so that {* is a repetition of a repetition
        low = int(found[1])
        high = low if found[2] is None else int(found[3]) if found[3] else None
        if low > MOST_REPEATS or (high is not None and (high > MOST_REPEATS or low > high)):
            raise RegexFault("invalid repeat count")
        self._at = found.end()
        self._repeat(found[0], repeated)
        return True

    def _repeat(self, operator: str, repeated: bool) -> None:
        if self._rest.startswith("?"):
            self._at += 1  # non-greedy: all the same for a full match
        if repeated:
            raise RegexFault("invalid nested repetition operator")
        atoms = self._groups[-1].alternatives[-1]
        if not atoms:
            raise RegexFault(NOTHING_TO_REPEAT)
        atoms[-1] = f"(?:{atoms[-1]}){operator}"

    # Groups

    def _open(self) -> None:
        if not self._rest.startswith("(?"):
            self._at += 1
            self._groups.append(_Group(self._flags))
        elif (named := _NAMED.match(self._rest)) is not None:
            self._open_named(named.end())
        else:
            self._at += 2
            self._open_with_flags()

    def _open_named(self, begin: int) -> None:
        name, closed, _ = self._rest[begin:].partition(">")
        if not closed or not name or not _WORD.issuperset(name):
            raise RegexFault(INVALID_NAME)
        if name in self._names:
            raise RegexFault("duplicate capture group name")
        self._names.add(name)
        self._at += begin + len(name) + 1
        self._groups.append(_Group(self._flags))

    def _open_with_flags(self) -> None:
        flags, adds, seen = set(self._flags), True, False
        while self._at < len(self._regex):
            char = self._regex[self._at]
            self._at += 1
            if char in "imsU":
                (flags.add if adds else flags.discard)(char)
                seen = True
            elif char == "-" and adds:
                adds = seen = False
            elif char in ":)" and (adds or seen):
                if char == ":":
                    self._groups.append(_Group(self._flags))
                self._flags = frozenset(flags)
                return
            else:
                break
        raise RegexFault(INVALID_GROUP)

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise RegexFault("regexp/syntax: internal error")
        closed = self._groups.pop()
        self._flags = closed.flags
        self._add(closed.joined())

    # Single characters

    def _escape(self) -> None:
        after = self._rest[1:2]
        if after == "Q":
            quoted, _, _ = self._rest[2:].partition(r"\E")
            self._at += min(2 + len(quoted) + 2, len(self._rest))
            for char in quoted:
                self._add(_one_of(frozenset(char), self._flags))
        elif after in ("A", "z", "b", "B"):
            self._at += 2
            self._add({"A": r"\A", "z": r"\Z", "b": r"(?a:\b)", "B": r"(?a:\B)"}[after])
        elif after == "C":
            raise RegexFault(INVALID_ESCAPE)
        elif (known := self._known_class()) is not None:
            self._add(_one_of(known, self._flags))
        else:
            self._add(_one_of(frozenset(self._escaped()), self._flags))

    def _known_class(self) -> frozenset[str] | None:
        r"""What \\pL or \\d stands for, if such a thing is here."""
        letter = self._rest[1:2]
        if not self._rest.startswith("\\") or not letter:
            return None
        if letter in "pP":
            return self._unicode_class(letter == "P")
        if letter.lower() in _PERL:
            self._at += 2
            found = _PERL[letter.lower()]
            return found if letter.islower() else _ASCII - found
        return None

    def _unicode_class(self, negated: bool) -> frozenset[str]:
        name = self._rest[2:3]
        if name == "{":
            name, closed, _ = self._rest[3:].partition("}")
            if not closed:
                raise RegexFault(INVALID_RANGE)
            self._at += len(name) + 4
        else:
            self._at += 3
        if name.startswith("^"):
            name, negated = name[1:], not negated
        if name not in _CLASSES:
            raise RegexFault(INVALID_RANGE)
        found = frozenset(char for char in _ASCII if _is_in(char, name))
        return _ASCII - found if negated else found

    def _escaped(self) -> str:
        char = self._rest[1:2]
        if not char:
            raise RegexFault("trailing backslash at end of expression")
        if (octal := _OCTAL.match(self._rest)) is not None:
            self._at += octal.end()
            return chr(int(octal[1], 8))
        if char == "x":
            hexadecimal = _HEX.match(self._rest)
            code = int(hexadecimal[1] or hexadecimal[2], 16) if hexadecimal is not None else 0x110000
            if hexadecimal is None or code > 0x10FFFF:
                raise RegexFault(INVALID_ESCAPE)
            self._at += hexadecimal.end()
            return chr(code)
        if char not in _LETTERS and char.isascii() and char.isalnum():
            raise RegexFault(INVALID_ESCAPE)
        self._at += 2
        return _LETTERS.get(char, char)

    def _class(self) -> frozenset[str]:
        """A class in brackets, folded as the flags say before it is negated."""
        self._at += 1
        negated = self._rest.startswith("^")
        self._at += negated
        found: set[str] = set()
        first = True
        while first or not self._rest.startswith("]"):
            first = False
            posix = _POSIX_CLASS.match(self._rest)
            if posix is not None:
                if posix[2] not in _POSIX:
                    raise RegexFault(INVALID_RANGE)
                self._at += posix.end()
                found |= _ASCII - _POSIX[posix[2]] if posix[1] else _POSIX[posix[2]]
            elif (known := self._known_class()) is not None:
                found |= known
            else:
                found |= self._range()
        self._at += 1
        folded = _folded(frozenset(found), self._flags)
        return _ASCII - folded if negated else folded

    def _range(self) -> set[str]:
        low = high = ord(self._class_char())
        if self._rest.startswith("-") and not self._rest.startswith("-]"):
            self._at += 1
            high = ord(self._class_char())
            if high < low:
                raise RegexFault(INVALID_RANGE)
        if low == high:
            return {chr(low)}
        beyond = {char for char in ("\u017f", "\u212a") if low <= ord(char) <= high}
        return {chr(code) for code in range(low, min(high, 127) + 1)} | beyond

    def _class_char(self) -> str:
        if self._at >= len(self._regex):
            raise RegexFault("missing closing ]")
        if self._regex[self._at] == "\\":
            return self._escaped()
        self._at += 1
        return self._regex[self._at - 1]


def _is_in(char: str, name: str) -> bool:
    """Whether an ASCII character is in this category or script."""
    if name in _CATEGORIES.split():
        return unicodedata.category(char).startswith(name)
    return name == "Any" or (char.isalpha() if name == "Latin" else name == "Common" and not char.isalpha())


def _folded(chars: frozenset[str], flags: frozenset[str]) -> frozenset[str]:
    """With the flag i also the other case; two characters beyond ASCII are other cases of s and k."""
    if "i" not in flags:
        return chars
    return chars | {other for char in chars for other in (char.lower(), char.upper()) if len(other) == 1}


def _one_of(chars: frozenset[str], flags: frozenset[str]) -> str:
    """A pattern for one of these characters, as far as they can be in a name."""
    possible = "".join(sorted(_folded(chars, flags) & IN_NAMES))
    if not possible:
        return "(?!)"
    return f"[{re.escape(possible)}]"
