"""The interface through which the broker uses the tools: explanations, pictures, captures, explorations, the live page.

The tools are in the package `wirebroker_tools`. The broker looks for this package by name on first use, and serves clients
without it. The broker never imports the package's modules, and uses only the interface in this module.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from wirebroker.common.lasting import Rotation
    from wirebroker.engine.engine import Engine
    from wirebroker.net.capturing import Capture
    from wirebroker.trace.rows import Row

PACKAGE = "wirebroker_tools"


class NoTools(ImportError):
    """Raised if a function needs the package `wirebroker_tools`, which is not installed."""


class Finding(Protocol):
    """A problem in the rows of a trace, described in sentences."""

    @property
    def kind(self) -> str:
        """The kind of finding, as in docs/how-to/debugging.md."""

    @property
    def sentence(self) -> str:
        """A sentence that says what happened to which client, how often and when."""

    @property
    def cause(self) -> str:
        """The usual cause of such a finding."""

    @property
    def look_at(self) -> str:
        """The setting or the code to look at."""

    @property
    def where(self) -> str:
        """The filter for all rows that belong to the finding."""

    def as_json(self) -> dict[str, Any]:
        """Returns the finding as `wirebroker explain --json` writes it."""


class Scene(Protocol):
    """The state in which `serve --scenario` starts a broker."""

    @property
    def faults(self) -> Sequence[object]:
        """The faults that are loaded."""

    def bring_about(self, engine: Engine, now: int) -> None:
        """Bring the broker into the scenario's start state, at the time `now` in ms since the epoch."""


class Tools(Protocol):
    """The functions of `wirebroker_tools` that the broker calls."""

    kinds_of_pictures: Sequence[str]

    def add_commands(self, commands: argparse._SubParsersAction[Any]) -> None:
        """Add the parsers of the tools' commands."""

    def endpoints(self) -> Sequence[Any]:
        """Returns the tools' `control.endpoint.Endpoint`s."""

    def titles(self) -> Mapping[str, str]:
        """Returns the titles of the endpoints' areas."""

    def live_page(self) -> Sequence[Any]:
        """Returns Starlette's routes of the live page."""

    def findings(self, rows: Iterable[Row], now: int | None) -> Sequence[Finding]:
        """Returns the findings in the rows, the most important finding first. `now` is the time in ms since the epoch, by
        default the time of the latest row."""

    def picture(self, kind: str, rows: Iterable[Row], of: str, width: int, lines: int) -> str:
        """Returns a picture of the rows as SVG."""

    def pictures_of_failure(self, rows: Iterable[Row]) -> Mapping[str, str]:
        """Returns the non-empty pictures of the latest rows, as SVG files by kind."""

    def history_of_groups(self, engine: Engine) -> Sequence[str]:
        """Returns a line for each of the last rebalances and commits of the groups."""

    def open_capture(self, path: str, rotation: Rotation | None) -> Capture:
        """Begin a pcapng file. Raises OSError."""

    def scene(self, arguments: argparse.Namespace) -> Scene:
        """Add the settings of the scenario in `serve --scenario` to the flags. Returns the scene to serve. Raises
        ValueError."""

    def explore(self, item: Any, nextitem: Any, wanted: Any) -> tuple[Any, Callable[[], None]]:
        """Returns the exploration of a pytest test, and a function that runs the test once for each fault. The plugin tells the
        exploration when each run begins, when it ends, and which error it had. `wanted` is the argument `explore` of the test's
        marker. Raises ValueError."""


@cache
def installed_tools() -> Tools | None:
    """Returns the tools, or None if they are not installed."""
    return cast("Tools", import_module(PACKAGE).TOOLS) if find_spec(PACKAGE) is not None else None


def tools() -> Tools:
    """Returns the tools. Raises NoTools."""
    found = installed_tools()
    if found is None:
        raise NoTools(f"this needs the package {PACKAGE} of wirebroker, which is not installed here", name=PACKAGE)
    return found
