"""Principals: the identities of clients (org.apache.kafka.common.security.auth.KafkaPrincipal)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kafkawire.primitives import LIKE_JAVA

USER = "User"


class Principal(NamedTuple):
    """A client's identity: its kind, which is `User` for every client, and its name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")
"""The principal of a client that has not authenticated."""


# Principals of certificates

_KEYWORDS = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}  # fmt: skip
"""The attributes that RFC 2253 names, by their object identifiers."""
_STRINGS = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
"""The tags of the strings that Java writes as text: UTF8, Printable, T61, IA5, General and BMP. Other values are written in
hexadecimal digits."""
_VERSION = 0xA0
_SUBJECT = 4
"""The index of the subject among a certificate's fields, if the version is not counted."""
_MANY = 0x80
"""If the first byte of a length has at least this value, the length is in the following bytes, and the first byte gives their
number."""
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_SPLIT = re.compile(r"\s*(DEFAULT|RULE:(?:\\.|[^\\/])*/(?:\\.|[^\\/])*/[LU]?)\s*(?:,\s*|$)")


class _Element(NamedTuple):
    """An element of DER."""

    tag: int
    content: bytes
    whole: bytes


def _elements(der: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(der):
        size, start = der[at + 1], at + 2
        if size >= _MANY:
            size, start = int.from_bytes(der[start : start + size - _MANY], "big"), start + size - _MANY
        yield _Element(der[at], der[start : start + size], der[at : start + size])
        at = start + size


def distinguished_name(certificate: bytes) -> str:
    """Returns the subject of a certificate (in DER) in the form of Java's X500Principal.getName (RFC 2253), in which the last
    part of the name comes first. `SSLSocket.getpeercert` is not enough: the form depends on the types of the values, and this
    method does not return the types.
    """
    (signed, *_) = _elements(next(_elements(certificate)).content)
    fields = [each for each in _elements(signed.content) if each.tag != _VERSION]
    parts = [_part(each) for each in _elements(fields[_SUBJECT].content)]
    return ",".join(reversed(parts))


def _part(part: _Element) -> str:
    return "+".join(_attribute(*_elements(each.content)) for each in _elements(part.content))


def _attribute(kind: _Element, value: _Element) -> str:
    identifier = _identifier(kind.content)
    if identifier not in _KEYWORDS or value.tag not in _STRINGS:
        return f"{_KEYWORDS.get(identifier, identifier)}=#{value.whole.hex()}"
    text = value.content.decode(errors=LIKE_JAVA)
    escaped = re.sub(r'^[ \r]+|[ \r]+$|[,=+<>#;"\\]', lambda found: "".join(f"\\{each}" for each in found[0]), text)
    escaped = escaped.replace("\0", r"\00")
    return f"{_KEYWORDS[identifier]}={escaped}"


def _identifier(content: bytes) -> str:
    """Returns an object identifier with dots."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


class PrincipalRules:
    """The rules in `ssl.principal.mapping.rules`, which turn the distinguished name in a certificate into a user's name
    (SslPrincipalMapper). Raises ValueError.
    """

    def __init__(self, text: str) -> None:
        self._rules: list[tuple[re.Pattern[str], str, str] | None] = []
        position = 0
        while position < len(text.strip()):
            match = _SPLIT.match(text.strip(), position)
            if match is None:
                raise ValueError(
                    f"ssl.principal.mapping.rules: {text.strip()[position:]!r} is not RULE:pattern/replacement/[LU]"
                )
            rule = _RULE.fullmatch(match[1])
            self._rules.append(None if rule is None else (re.compile(rule[1]), rule[2], rule[3]))
            position = match.end()

    def name(self, distinguished: str) -> str | None:
        """Returns the user's name from the first rule that matches the whole distinguished name, or None if no rule matches."""
        for rule in self._rules:
            if rule is None:
                return distinguished
            pattern, replacement, case = rule
            if (match := pattern.fullmatch(distinguished)) is not None:
                found = re.sub(r"\$(\d)", lambda group, match=match: _group(match, group), replacement)  # type: ignore[misc]
                return found.lower() if case == "L" else found.upper() if case == "U" else found
        return None


def _group(match: re.Match[str], reference: re.Match[str]) -> str:
    number = int(reference[1])
    return (match[number] or "") if number <= match.re.groups else reference[0]
