"""Writes log messages about what the broker finds and repairs in its data directory."""

from __future__ import annotations

import logging

from kafkawire.disk.damage import shortened

logger = logging.getLogger("wirebroker")


def note(sentence: str) -> None:
    """Log a finding and its repair immediately, so that the user sees the message even if the next step fails."""
    logger.warning("%s", shortened(sentence))
