"""Principals: the identities of clients (org.apache.kafka.common.security.auth.KafkaPrincipal)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

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

_SHORT = {
    "commonName": "CN", "countryName": "C", "localityName": "L", "stateOrProvinceName": "ST", "organizationName": "O",
    "organizationalUnitName": "OU", "streetAddress": "STREET", "domainComponent": "DC", "userId": "UID",
}  # fmt: skip
_EMAIL = "emailAddress"
_RULE = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_SPLIT = re.compile(r"\s*(DEFAULT|RULE:(?:\\.|[^\\/])*/(?:\\.|[^\\/])*/[LU]?)\s*(?:,\s*|$)")


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Returns a certificate's subject in the form of Java's X500Principal.getName (RFC 2253), in which the last part of the
    name comes first.
    """
    return ",".join("+".join(_attribute(*each) for each in part) for part in reversed(list(subject)))


def _attribute(name: str, value: str) -> str:
    if name == _EMAIL:
        return f"1.2.840.113549.1.9.1=#16{len(value):02x}{value.encode().hex()}"
    escaped = re.sub(r'([,=+<>#;"\\])', r"\\\1", value)
    return f"{_SHORT.get(name, name)}={escaped}"


class PrincipalRules:
    """The rules in `ssl.principal.mapping.rules`, which map the name in a certificate to a user's name (SslPrincipalMapper).
    Raises ValueError.
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
