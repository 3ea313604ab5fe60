"""Marks, the parts of a picture, and pictures as SVG.

A mark has texts from clients unchanged. `svg` escapes these texts, and the live page makes text nodes of them. So a name from a
client never becomes markup. Lengths are px.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct, field

from kafkawire.printable import printable, printable_lines

LETTER = 6.65
"""The width in px of a letter of 11 px."""
LINE = 18
"""The height in px of a line of text, including the space to the next line."""
NARROWEST, WIDEST = 320, 4000
"""The smallest and the largest width of a picture, in px."""
STYLE = """
.picture{--p-back:#fff;--p-ink:#1b1f23;--p-dim:#5b636b;--p-line:#d9dee3;--p-soft:#f3f5f7;--p-good:#1a7f37;--p-warn:#8a5a00;
--p-bad:#c0262d;--p-fault:#8250df;--p-note:#0b6e8f;--p-0:#2f6fb3;--p-1:#b35c00;--p-2:#3d8b40;--p-3:#a3408f;--p-4:#00838f;
--p-5:#7a6200;--p-6:#5d5bb5;--p-7:#b0413e;display:block;background:var(--p-back);color-scheme:light dark}
@media(prefers-color-scheme:dark){.picture{--p-back:#14171a;--p-ink:#dfe3e8;--p-dim:#98a1ab;--p-line:#343b43;--p-soft:#1e242a;
--p-good:#56d364;--p-warn:#e3b341;--p-bad:#ff7b72;--p-fault:#d2a8ff;--p-note:#79c0ff;--p-0:#6cb0f5;--p-1:#f0a04b;--p-2:#6fd077;
--p-3:#e58fd3;--p-4:#4fd0dc;--p-5:#d8bf4a;--p-6:#a9a7ff;--p-7:#ff908c}}
.picture text{fill:var(--p-ink);font:11px ui-monospace,Menlo,Consolas,monospace;white-space:pre}
.picture text.head{font-weight:600;font-size:12px}.picture text.middle{text-anchor:middle}.picture text.end{text-anchor:end}
.picture .back{fill:var(--p-back)}.picture .soft{fill:var(--p-soft)}.picture .edge{fill:var(--p-soft);stroke:var(--p-line)}
.picture .rule{stroke:var(--p-line);fill:none}.picture .dashed{stroke-dasharray:3 3}.picture .hit{fill:transparent}
.picture .plain{--p:var(--p-ink)}.picture .dim{--p:var(--p-dim)}.picture .good,.picture .accepted{--p:var(--p-good)}
.picture .warn,.picture .duplicate{--p:var(--p-warn)}.picture .bad,.picture .rejected{--p:var(--p-bad)}
.picture .fault{--p:var(--p-fault)}.picture .note{--p:var(--p-note)}
.picture .c0{--p:var(--p-0)}.picture .c1{--p:var(--p-1)}.picture .c2{--p:var(--p-2)}.picture .c3{--p:var(--p-3)}
.picture .c4{--p:var(--p-4)}.picture .c5{--p:var(--p-5)}.picture .c6{--p:var(--p-6)}.picture .c7{--p:var(--p-7)}
.picture text.say{fill:var(--p)}.picture .fill{fill:var(--p)}.picture .tint{fill:var(--p);fill-opacity:.16}
.picture .half{fill:var(--p);fill-opacity:.45}.picture .stroke{stroke:var(--p);fill:none}
.picture .box{stroke:var(--p);fill:var(--p-back)}.picture .boxed{stroke:var(--p)}
.picture .thick{stroke-width:2}.picture .thin{stroke-opacity:.55}
.picture g[data-row]:hover .hit,.picture g[data-first]:hover .hit,.picture g.chosen .hit{fill:var(--p-note);fill-opacity:.13}
.picture g[data-row],.picture g[data-first]{cursor:pointer}
"""
"""The style sheet of every picture. All variables in it begin with `--p`, so that a picture can be put into any page."""
SERIES = 8
"""The number of colours for different producers, clients or members: the CSS classes c0 to c7."""
TAGS = frozenset(("g", "rect", "line", "path", "circle", "text", "title"))
"""The elements that a picture may have."""


class Mark(NamedTuple):
    """An element of a picture. A mark has attributes, and contains a text or other marks."""

    tag: str
    attributes: Mapping[str, str | int | float]
    text: str = ""
    marks: Sequence[Mark] = ()


class Picture(Struct, frozen=True):
    """A picture of the rows with numbers from `first` to `last`."""

    kind: str
    title: str
    width: int
    height: int
    marks: Sequence[Mark]
    first: int = 0
    last: int = 0
    choices: Sequence[str] = field(default=())
    """the partitions, groups or producers that this kind of picture can show"""
    choice: str = ""
    """the partition, group or producer of this picture"""


def svg(picture: Picture) -> str:
    """Returns the content of an SVG file with the picture: an SVG element that includes its style sheet."""
    return element(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f"><style>{STYLE}</style>", 1
    )  # fmt: skip


def element(picture: Picture) -> str:
    """Returns the picture as an SVG element for a page that already has the style sheet `STYLE`."""
    size = f'width="{picture.width}" height="{picture.height}" viewBox="0 0 {picture.width} {picture.height}"'
    title = f"<title>{_text(picture.title)}</title>"
    return f'<svg class="picture" role="img" {size}>{title}{"".join(map(_written, picture.marks))}</svg>'


def _written(mark: Mark) -> str:
    attributes = "".join(f' {name}="{_text(str(value))}"' for name, value in mark.attributes.items())
    return f"<{mark.tag}{attributes}>{_text(mark.text)}{''.join(map(_written, mark.marks))}</{mark.tag}>"


def _text(text: str) -> str:
    """Returns the text escaped for XML, without the characters that XML forbids: controls, surrogates, and the last two code
    points of a plane."""
    return escape(printable_lines(text))


def fitted(text: str, width: float) -> str:
    """Returns the text, or only its beginning if the text is too long for the width."""
    text, letters = printable(text), int(width / LETTER)
    return text if len(text) <= letters else text[: max(letters - 1, 0)] + "…" if letters > 1 else ""


def named(name: str, width: float, letter: float = LETTER) -> str:
    """Returns the name. If a name is too long for the width, its middle is left out, because names of members and of partitions
    often begin alike and differ at the end.
    """
    name, letters = printable(name), int(width / letter)
    if len(name) <= letters:
        return name
    return f"{name[: (letters - 1) // 2]}…{name[len(name) - letters // 2 :]}" if letters > 1 else ""


def rounded(number: float) -> float:
    """Returns a length in px, rounded to tenths so that files are small."""
    return round(number, 1)


def text(x: float, y: float, words: str, kind: str = "") -> Mark:
    """Returns a text with its base line at `y`."""
    return Mark("text", {"x": rounded(x), "y": rounded(y)} | ({"class": kind} if kind else {}), words)


def label(x: float, y: float, words: str, kind: str, end: bool = False) -> list[Mark]:
    """Returns a text at `y`, on a background that hides the lines behind the text. The text begins at `x`; with `end`, it ends
    at `x`.
    """
    if not words:
        return []
    wide = len(words) * LETTER + 6
    back = rect(x - wide + 3 if end else x - 3, y - 7, wide, 14, "back")
    return [back, text(x, y + 4, words, f"say {'end ' * end}{kind}")]


def legend(pieces: Iterable[str], x: float, y: float, right: float) -> tuple[list[Mark], float]:
    """Returns two values: the marks of a legend, which may need several lines, and the y coordinate below the last line."""
    lines = [""]
    for piece in pieces:
        longer = f"{lines[-1]} · {piece}".removeprefix(" · ")
        lines = [*lines[:-1], longer] if len(longer) * LETTER <= right - x or not lines[-1] else [*lines, piece]
    marks = [text(x, y + at * LINE, fitted(words, right - x), "say dim") for at, words in enumerate(lines)]
    return marks, y + len(lines) * LINE - 8


def coloured(names: Iterable[str]) -> dict[str, str]:
    """Returns a colour class for each name. A name has the same colour in all pictures, unless another name of the picture
    already has this colour.
    """
    found: dict[str, str] = {}
    free = list(range(SERIES))
    for name in names:
        if name in found:
            continue
        wanted = crc32(name.encode(errors="replace")) % SERIES
        while wanted not in free:
            wanted = (wanted + 1) % SERIES
        free.remove(wanted)
        free = free or list(range(SERIES))
        found[name] = f"c{wanted}"
    return found


def rect(x: float, y: float, width: float, height: float, kind: str, title: str = "", round_: float = 0) -> Mark:
    """Returns a rectangle. The title appears when the mouse pointer is over it."""
    attributes: dict[str, str | float] = {
        "x": rounded(x), "y": rounded(y), "width": rounded(max(width, 0)), "height": rounded(max(height, 0)), "class": kind,
    }  # fmt: skip
    return Mark("rect", attributes | ({"rx": round_} if round_ else {}), "", titled(title))


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Mark:
    """Returns a straight line."""
    return Mark("line", {"x1": rounded(x1), "y1": rounded(y1), "x2": rounded(x2), "y2": rounded(y2), "class": kind})


def path(points: Iterable[tuple[float, float]], kind: str, close: bool = False, title: str = "") -> Mark:
    """Returns a line through the points."""
    drawn = "L".join(f"{rounded(x)} {rounded(y)}" for x, y in points)
    return Mark("path", {"d": f"M{drawn}{'Z' * close}", "class": kind}, "", titled(title))


def dot(x: float, y: float, radius: float, kind: str, title: str = "") -> Mark:
    """Returns a circle."""
    return Mark("circle", {"cx": rounded(x), "cy": rounded(y), "r": radius, "class": kind}, "", titled(title))


def cross(x: float, y: float, size: float, kind: str) -> list[Mark]:
    """Returns a cross, which marks where something ends."""
    return [line(x - size, y - size, x + size, y + size, kind), line(x - size, y + size, x + size, y - size, kind)]


def group(marks: Sequence[Mark], **data: str | int) -> Mark:
    """Returns a group of marks that belong together. The argument `row=7` becomes the attribute data-row."""
    return Mark("g", {f"data-{name}": value for name, value in data.items()}, "", marks)


def titled(title: str) -> tuple[Mark, ...]:
    """Returns the mark for a text that appears under the mouse pointer, or nothing if the text is empty."""
    return (Mark("title", {}, title),) if title else ()
