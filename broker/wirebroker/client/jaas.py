"""Parses the login modules in `sasl.jaas.config` and in JAAS files, which have the form `MODULE required name="value" …;`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USER = "user_"
_QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_TOKEN = re.compile(
    r"""(?P<number>-?(?=[0-9.])[0-9]*\.?[0-9]*)|(?P<word>(?:[A-Za-z_$]|[^\0-\x9f])(?:[\w.$\-]|[^\0-\x9f])*)"""
    r"""|(?P<quoted>(?P<mark>["'])(?P<text>(?:\\.|(?!(?P=mark))[^\\\r\n])*)(?:(?P=mark)|(?=[\r\n])|\Z))"""
    r"""|/\*.*?(?:\*/|\Z)|/[^\r\n]*|[\0- ]+|(?P<sign>.)""",
    re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_MEANT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_SECTION = re.compile(rf"([\w.\-]+)\s*\{{((?:{_QUOTED}|[^}}\"'])*)\}}", re.DOTALL)
_COMMENT = re.compile(rf"({_QUOTED})|//[^\n]*|/\*.*?\*/|^\s*#[^\n]*", re.DOTALL | re.MULTILINE)


class LoginModule(NamedTuple):
    """A login module: its class name and its options."""

    name: str
    options: dict[str, str]


def login_modules(text: str) -> list[LoginModule]:
    """Returns the login modules in a text, as Kafka's JaasConfig reads them. Raises ValueError if the text contains anything
    else. The error message shows no part of the text.
    """
    found, tokens = [], _tokens(text)
    for name, _ in tokens:
        if name is None or (next(tokens, END)[0] or "").lower() not in _FLAGS:
            raise ValueError('it is not `MODULE required name="value" …;`')
        options: dict[str, str] = {}
        while (token := next(tokens, END))[1] != ";":
            if token is END or next(tokens, END)[1] != "=" or (value := next(tokens, END)[0]) is None:
                raise ValueError(f'the options of {name} must be name="value", with a semicolon after the last option')
            options[token[0] or ""] = value
        found.append(LoginModule(name, options))
    return found


END: tuple[str | None, str] = (None, "")
"""This token marks the end of the text."""


def _tokens(text: str) -> Iterator[tuple[str | None, str]]:
    """Yields the tokens that Java's StreamTokenizer finds with the options of JaasConfig. Each token is a pair. For a word or a
    string, the pair has the text and "". For a number or any other character, the pair has None and a character.
    """
    for token in _TOKEN.finditer(text):
        if token["word"] is not None:
            yield token["word"], ""
        elif token["quoted"] is not None:
            yield _ESCAPE.sub(_meant, token["text"]), ""
        elif token["number"] or token["sign"]:
            yield None, token["sign"] or "0"


def _meant(escape: re.Match[str]) -> str:
    word = escape[1]
    return chr(int(word, 8)) if word[0] in "01234567" else _MEANT.get(word, word)


def sections(text: str) -> dict[str, str]:
    """Returns the text of the login modules in each section of a JAAS file, by section name. A section is `KafkaServer { …
    };`.
    """
    return dict(_SECTION.findall(_COMMENT.sub(lambda match: match[1] or " ", text)))


@lru_cache(maxsize=16)
def users_of(text: str) -> dict[str, str]:
    """Returns the passwords of the users that PlainLoginModule defines with options such as `user_alice`. Raises ValueError."""
    options = [each.options for each in login_modules(text) if each.name == PLAIN_MODULE]
    return {name.removeprefix(_USER): value for some in options for name, value in some.items() if name.startswith(_USER)}
