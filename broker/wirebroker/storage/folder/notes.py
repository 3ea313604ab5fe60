"""The log of what a start finds in a data directory and mends."""

from __future__ import annotations

import logging

logger = logging.getLogger("wirebroker")


def note(sentence: str) -> None:
    """Log one thing that was found and done, at once: the user reads it even if the next step fails."""
    logger.warning("%s", sentence)
