"""The colours of the report, for a light and a dark screen.

A picture is drawn with the light colours. In its SVG each colour becomes a variable, `var(--certain,#c0392b)`. The page sets
the variables; an SVG file outside the page keeps the light colours.
"""

from __future__ import annotations

import re

from wirebroker.common.page import PALETTE

INK, FAINT, PAPER, STORED, RULE = (PALETTE[name].light for name in ("ink", "faint", "paper", "stored", "rule"))
SEVERITIES = {"certain": PALETTE["certain"].light, "likely": PALETTE["likely"].light, "info": FAINT}
"""A finding has the colour of its own severity everywhere, because one kind may have several severities."""


def with_variables(svg: str) -> str:
    """Returns the picture with its colours replaced by variables."""
    names = {shades.light: name for name, shades in PALETTE.items()}
    return re.sub("|".join(names), lambda found: f"var(--{names[found[0]]},{found[0]})", svg)
