"""The log messages of a start that repairs a data directory."""

from __future__ import annotations

import logging

from kafkawire.disk.damage import shortened

logger = logging.getLogger("wirebroker")


def note(sentence: str) -> None:
    """Log a finding and its repair at once, so that the user reads it even if the next step fails."""
    logger.warning("%s", shortened(sentence))
