"""Pictures of the trace, as files and for the live page."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from wirebroker.common.suggestions import nearest
from wirebroker.control.controlled import Readable
from wirebroker.control.forms import Form, about
from wirebroker.control.problems import Problem
from wirebroker_tools.live.watched import rows_for_picture
from wirebroker_tools.pictures.drawing import ALL, MOST_LINES, Wish, draw
from wirebroker_tools.pictures.marks import NARROWEST, WIDEST, Mark, Picture, svg


class Wanted(Form):
    """The rows and the size of a picture."""

    first: Annotated[int, about("the number of the first row, as in /events; 0: the first row that is kept", ge=0)] = 0
    last: Annotated[int, about("the number of the last row; 0: the latest", ge=0)] = 0
    latest: Annotated[int, about("draw this many of the latest rows, in place of `first` and `last`", ge=0)] = 0
    width: Annotated[int, about("the width in px", ge=NARROWEST, le=WIDEST)] = 1000
    lines: Annotated[int, about("the largest number of lines of a sequence diagram or a window", ge=5, le=MOST_LINES)] = 60
    of: Annotated[str, about("the partition, group or producer to draw; by default the subject with the most rows")] = ""


class Drawn(Form):
    """A picture as a tree of marks. A mark has a tag, attributes, a text, and inner marks."""

    run: Annotated[str, about("the run, as in the first event of /events")]
    title: str
    width: int
    height: int
    first: Annotated[int, about("the number of the first row in the picture")]
    last: Annotated[int, about("the number of the last row in the picture")]
    choices: Annotated[list[str], about("the partitions, groups or producers that have such a picture")]
    choice: Annotated[str, about("the partition, group or producer of this picture")]
    marks: list[Any]


async def picture(controlled: Readable, kind: str, query: Wanted) -> str:
    """Returns a picture of the trace or of the file as an SVG file.

    After the first picture the control keeps up to 200,000 rows of the run. The control reads new rows when a picture is drawn.
    If more than 10,000 rows are traced between two pictures, the later picture misses some of these rows.
    """
    return svg(await _drawn(controlled, kind, query))


async def marks(controlled: Readable, kind: str, query: Wanted) -> Drawn:
    """Returns a picture as a tree of marks, from which a page makes elements. Names in the picture are text, never markup."""
    made = await _drawn(controlled, kind, query)
    return Drawn(
        controlled.run, made.title, made.width, made.height, made.first, made.last, list(made.choices), made.choice,
        [_plain(mark) for mark in made.marks],
    )  # fmt: skip


def _plain(mark: Mark) -> list[Any]:
    return [mark.tag, dict(mark.attributes), mark.text, [_plain(each) for each in mark.marks]]


async def _drawn(controlled: Readable, kind: str, wanted: Wanted) -> Picture:
    if kind not in ALL:
        raise Problem(404, f"there is no picture {kind!r}{nearest(kind, ALL)}", "kind")
    first = max(controlled.newest - wanted.latest + 1, 1) if wanted.latest else wanted.first
    rows = await rows_for_picture(controlled, first)
    wish = Wish(first, 0 if wanted.latest else wanted.last, wanted.width, wanted.lines, wanted.of)
    return await asyncio.to_thread(draw, kind, rows, wish)
