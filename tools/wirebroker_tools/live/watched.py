"""The rows and findings that the page and `/explain` show, from a running broker, a running proxy or a file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from wirebroker.control.controlled import Controlled, Readable
from wirebroker_tools.explain.explanation import Explanation
from wirebroker_tools.explain.findings import Finding
from wirebroker_tools.live.follower import Follower
from wirebroker_tools.live.saved_file import SavedFile
from wirebroker_tools.pictures.kept import KeptRows
from wirebroker_tools.traces.saved import Numbered


async def rows_for_picture(source: Readable, number: int) -> Sequence[Numbered]:
    """Returns the rows that are kept for pictures. For a file, returns the rows around the row `number`."""
    if isinstance(source, SavedFile):
        return await source.rows_around(number)
    running = cast(Controlled, source)
    kept = running.own(_kept_rows)
    for _ in kept.catch_up(running.machine.trace, running.run):
        await asyncio.sleep(0)
    return kept.rows


def _kept_rows(_: Readable) -> KeptRows:
    return KeptRows()


async def explained(source: Readable) -> tuple[Sequence[Finding], Explanation]:
    """Returns the findings in the rows, and the explanation. The explanation has the number of rows that were read."""
    if isinstance(source, SavedFile):
        return await source.explained()
    follower = cast(Controlled, source).own(Follower)
    return await follower.findings(), follower.explanation
