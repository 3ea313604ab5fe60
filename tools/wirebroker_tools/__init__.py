"""The tools, which observe a broker from outside. The broker does not import the tools' modules, and calls the tools only
through `TOOLS`.

commands     the tools' commands and their flags
explain      what is wrong in a trace
pictures     a trace as SVG
live         the live page, of a running broker or of a saved file
traces       reading traces: saved files, folds, time lines, scenarios, groups
capture      sessions as pcapng
decode       bytes as named fields, and the dissector for Wireshark
campaign     exploring: which fault breaks an application?
learning     a running cluster as a file
scenarios    named failures
drivers      client libraries behind one interface
conformance  recordings of a real Kafka, and their replay
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from wirebroker_tools.pictures import PICTURES

if TYPE_CHECKING:
    from wirebroker.common.lasting import Rotation
    from wirebroker.control.endpoint import Endpoint
    from wirebroker.engine.engine import Engine
    from wirebroker.tools import Tools
    from wirebroker.trace.rows import Row
    from wirebroker_tools.campaign.in_pytest import Explored
    from wirebroker_tools.capture.recording import Capture
    from wirebroker_tools.explain.findings import Finding
    from wirebroker_tools.scenarios.served import Scene


class _Tools:
    """The tools, each imported on first use (`wirebroker.tools.Tools` says what each method does)."""

    kinds_of_pictures: Sequence[str] = PICTURES

    def add_commands(self, commands: argparse._SubParsersAction[Any]) -> None:
        from wirebroker_tools.commands.parsers import add_commands

        add_commands(commands)

    def endpoints(self) -> Sequence[Endpoint]:
        from wirebroker_tools.live.table import ENDPOINTS

        return ENDPOINTS

    def titles(self) -> Mapping[str, str]:
        from wirebroker_tools.live.table import TITLES

        return TITLES

    def live_page(self) -> Sequence[Any]:
        from wirebroker_tools.live.page import routes

        return routes()

    def findings(self, rows: Iterable[Row], now: int | None) -> list[Finding]:
        from wirebroker_tools.explain.explanation import Explanation

        return Explanation().take_all(rows).findings(now)

    def picture(self, kind: str, rows: Iterable[Row], of: str, width: int, lines: int) -> str:
        from wirebroker_tools.pictures.drawing import Wish, draw
        from wirebroker_tools.pictures.marks import svg

        return svg(draw(kind, list(enumerate(rows, 1)), Wish(width=width, lines=lines, of=of)))

    def pictures_of_failure(self, rows: Iterable[Row]) -> dict[str, str]:
        from wirebroker_tools.pictures.of_failure import pictures_of_failure

        return pictures_of_failure(rows)

    def history_of_groups(self, engine: Engine) -> list[str]:
        from wirebroker_tools.traces.group_history import history_lines

        return history_lines(engine)

    def open_capture(self, path: str, rotation: Rotation | None) -> Capture:
        from wirebroker_tools.capture.recording import open_capture

        return open_capture(path, rotation)

    def scene(self, arguments: argparse.Namespace) -> Scene:
        from wirebroker_tools.scenarios.served import scene

        return scene(arguments)

    def explore(self, item: Any, nextitem: Any, wanted: Any) -> tuple[Explored, Any]:
        from wirebroker_tools.campaign.in_pytest import Explored, budget_of, choice_of, explore_item

        explored = Explored()
        return explored, partial(explore_item, item, nextitem, choice_of(wanted), explored, budget_of(wanted))


TOOLS: Tools = _Tools()
