"""Parses the login modules in `sasl.jaas.config` and in JAAS files, which have the form `MODULE required name="value" …;`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USER = "user_"
_QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_MODULE = re.compile(
    rf"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b((?:{_QUOTED}|[^;\"'])*);?\s*", re.DOTALL | re.IGNORECASE
)
_OPTION = re.compile(rf"\s*([\w.]+)\s*=\s*({_QUOTED}|[^\s\"';]+)\s*", re.DOTALL)
_SECTION = re.compile(rf"([\w.\-]+)\s*\{{((?:{_QUOTED}|[^}}\"'])*)\}}", re.DOTALL)
_COMMENT = re.compile(rf"({_QUOTED})|//[^\n]*|/\*.*?\*/|^\s*#[^\n]*", re.DOTALL | re.MULTILINE)


class LoginModule(NamedTuple):
    """A login module: its class name and its options."""

    name: str
    options: dict[str, str]


def login_modules(text: str) -> list[LoginModule]:
    """Returns the login modules in a text. Raises ValueError if the text contains anything else. The error message shows no
    part of the text.
    """
    found, position = [], 0
    while position < len(text.rstrip()):
        if (module := _MODULE.match(text, position)) is None:
            raise ValueError('it is not `MODULE required name="value" …;`')
        options, place = {}, module.start(2)
        while (option := _OPTION.match(text, place, module.end(2))) is not None:
            options[option[1]] = re.sub(r"\\(.)", r"\1", option[2][1:-1]) if option[2][0] in "\"'" else option[2]
            place = option.end()
        if text[place : module.end(2)].strip():
            raise ValueError(f'the options of {module[1]} are not all name="value"')
        found.append(LoginModule(module[1], options))
        position = module.end()
    return found


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
