"""An endpoint: its path and its handler. The handler's type hints are the forms of request and response."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import getdoc
from typing import Any, get_type_hints

from msgspec import Struct

from wirebroker.control.controlled import ControlledBroker

JSON = "application/json"
JSON_LINES = "application/x-ndjson"
TOML = "application/toml"
PCAPNG = "application/x-pcapng"
EVENTS = "text/event-stream"
SVG = "image/svg+xml"
TEXT = PROMETHEUS = "text/plain"


class Endpoint(Struct, frozen=True, eq=False):
    """An endpoint of the control: a row of the table.

    The handler gets the controlled broker or proxy and, by name, the parts of the path. The handler also gets the following
    arguments if its signature has them: `query` and `body` (forms), and `text` (the raw body). The response is the result in
    JSON; None becomes an empty object, and a text is sent unchanged. With `as_text`, the response is JSON only if the client
    accepts application/json. Otherwise the response is the text that `as_text` makes from the result. The keys of `problems`
    are the statuses that report a problem, and the values are the reasons.
    """

    method: str
    path: str
    handler: Callable[..., Any]
    status: int = 200
    media: str = JSON
    takes: str = JSON
    as_text: Callable[[Any], str] | None = None
    problems: Mapping[int, str] = {}

    @property
    def summary(self) -> str:
        """The first paragraph of the handler's docstring."""
        return (getdoc(self.handler) or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def description(self) -> str:
        """The later paragraphs of the handler's docstring."""
        return (getdoc(self.handler) or "").partition("\n\n")[2]

    @property
    def of_brokers(self) -> bool:
        """Tells whether only brokers have the endpoint."""
        return self.hints["controlled"] is ControlledBroker

    @property
    def shown_path(self) -> str:
        """The path as people read it, in the form of OpenAPI: `{name}` without a converter."""
        return re.sub(r":\w+}", "}", self.path)

    @property
    def area(self) -> str:
        """The name of the handler's module."""
        return self.handler.__module__.rpartition(".")[2]

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parameters in the path."""
        return tuple(re.findall(r"{(\w+)", self.path))

    @property
    def hints(self) -> dict[str, Any]:
        """The types of the handler's arguments and of its result."""
        return _hints(self.handler)


@cache
def _hints(handler: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(handler)
