"""The colours of the report, for a light and a dark screen.

A picture is drawn with the light colours. In its SVG each becomes a variable, `var(--certain,#c0392b)`: the page sets the
variables, and an image that stands alone keeps the light colour.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Shades(NamedTuple):
    """One colour on both screens."""

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
"""Colours by the name of the page's variable. Text in each of these colours is readable on the page's background, and on the
tint of the same name."""
INK, FAINT, PAPER, STORED, RULE = (PALETTE[name].light for name in ("ink", "faint", "paper", "stored", "rule"))
SEVERITIES = {"certain": PALETTE["certain"].light, "likely": PALETTE["likely"].light, "info": FAINT}
"""A finding has the colour of its own severity everywhere, because one kind may have several severities."""


def variables(dark: bool) -> str:
    """The declarations of the page's variables."""
    return "".join(f"--{name}:{shades.dark if dark else shades.light};" for name, shades in PALETTE.items())


def with_variables(svg: str) -> str:
    """The picture with variables for its colours."""
    names = {shades.light: name for name, shades in PALETTE.items()}
    return re.sub("|".join(names), lambda found: f"var(--{names[found[0]]},{found[0]})", svg)
