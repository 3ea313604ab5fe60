"""An endpoint: where it is, what it does, and what it takes and gives, which its handler's type hints say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import getdoc
from typing import Any, get_type_hints

JSON = "application/json"
JSON_LINES = "application/x-ndjson"
TOML = "application/toml"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the table.

    The handler is given what is controlled, and by name: the parts of the path, and where its signature has them `query`
    and `body` (forms) or `text` (the body as it came). What it returns is written as JSON, text as it is, and None is an
    empty answer. `problems` are the statuses it can also answer with, and when.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    status: int = 200
    media: str = JSON
    takes: str = JSON
    problems: Mapping[int, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """What it does, in a sentence."""
        return (getdoc(self.handler) or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def description(self) -> str:
        """What else there is to say."""
        return (getdoc(self.handler) or "").partition("\n\n")[2]

    @property
    def shown_path(self) -> str:
        """Its path as people and OpenAPI write it."""
        return re.sub(r":\w+}", "}", self.path)

    @property
    def area(self) -> str:
        """What it is about."""
        return self.handler.__module__.rpartition(".")[2]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(re.findall(r"{(\w+)", self.path))

    @property
    def hints(self) -> dict[str, Any]:
        """The types of what the handler takes and gives."""
        return _hints(self.handler)


@cache
def _hints(handler: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(handler)
