"""The form of every report: one self-contained HTML page, without scripts, for wide screens and phones, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from kafkawire.printable import printable_lines


class Shades(NamedTuple):
    """One colour in the light and in the dark mode."""

    light: str
    dark: str


PALETTE = {
    "paper": Shades("#ffffff", "#0d1117"),
    "ink": Shades("#1b2631", "#e6edf3"),
    "faint": Shades("#566573", "#9aa7b4"),
    "rule": Shades("#d5d8dc", "#30363d"),
    "stored": Shades("#2874a6", "#58a6ff"),
    "certain": Shades("#c0392b", "#ff7b72"),
    "likely": Shades("#8f5f00", "#e3b341"),
    "good": Shades("#1e8449", "#3fb950"),
    "certain-tint": Shades("#fdedec", "#3c1618"),
    "likely-tint": Shades("#fef5e7", "#332701"),
    "good-tint": Shades("#eafaf1", "#12261e"),
}
"""Colours by the name of the page's CSS variable. Text in each colour is readable on the page's background and on the tint that
has the colour's name, for example `likely` on `likely-tint`."""


def variables(dark: bool) -> str:
    """Returns the declarations of the page's variables."""
    return "".join(f"--{name}:{shades.dark if dark else shades.light};" for name, shades in PALETTE.items())


PHONE = "@media(max-width:40rem)"
STYLE = f"""
:root{{color-scheme:light dark;{variables(dark=False)}}}
@media(prefers-color-scheme:dark){{:root{{{variables(dark=True)}}}}}
body{{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:0 1rem 3rem;color:var(--ink);
background:var(--paper);overflow-wrap:anywhere}}
h1{{font-size:1.5rem;margin-bottom:.2rem}}h2{{font-size:1.2rem;margin-top:2.2rem}}h3{{font-size:1rem;margin:1.4rem 0 0}}
p{{margin:.4rem 0}}.about{{color:var(--faint);font-size:.9rem}}
.certain{{color:var(--certain)}}.likely{{color:var(--likely)}}.info{{color:var(--faint)}}
.verdict,.problem{{padding:.7rem 1rem;margin:1rem 0;border-left:.4rem solid var(--good);background:var(--good-tint);
color:var(--ink)}}
.verdict{{font-size:1.1rem}}.verdict.certain,.problem{{border-color:var(--certain);background:var(--certain-tint)}}
.verdict.likely{{border-color:var(--likely);background:var(--likely-tint)}}
details{{margin:.3rem 0}}summary{{cursor:pointer}}pre{{white-space:pre-wrap;margin:.3rem 0 .3rem 1rem;color:var(--faint)}}
code{{font-size:.85em}}svg{{width:100%;height:auto;display:block}}svg text{{fill:var(--ink)}}.narrow{{display:none}}
table{{border-collapse:collapse;font-size:.9rem;width:100%}}th,td{{text-align:right;padding:.3rem .5rem;
border-bottom:1px solid var(--rule);vertical-align:top;overflow-wrap:normal}}
th:first-child,td:first-child{{text-align:left;overflow-wrap:anywhere;min-width:9rem}}
{PHONE}{{.narrow{{display:block}}.wide,thead{{display:none}}table,tbody,tr,td,td:first-child{{display:block;text-align:left}}
tr{{border-bottom:1px solid var(--rule);padding:.4rem 0}}td{{display:inline-block;border:0;padding:0 .8rem 0 0}}
td:first-child{{font-weight:600}}td+td::before{{content:attr(title)' ';color:var(--faint)}}}}
"""
"""On a phone each picture is drawn narrower, and each row of a table becomes a paragraph: nothing is cut off."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The content security policy of a page.

The page shows names and contents of records from any source, so the browser must neither run nor fetch any of this text.
"""


def head(title: str, heading: str, about: str) -> str:
    """Returns the beginning of a page: its head, its heading and a line about the page. The text of this line, `about`, is
    HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body><h1>{text(heading)}</h1><p class='about'>{about}</p>"
    )


def text(words: str) -> str:
    """Escapes the text for HTML. Also escapes control characters, so that no name or key can reverse the text after it."""
    return escape(printable_lines(words))


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table of HTML cells; on a phone each row becomes a paragraph."""
    names = "".join(f"<th>{name}</th>" for name in heading)
    body = "".join(
        "<tr>" + "".join(f"<td title='{name}'>{cell}</td>" for name, cell in zip(heading, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"
