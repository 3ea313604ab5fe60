"""Tells the pytest plugin which brokers a test has started, so that the plugin can report on these brokers. Every start of
pytest imports this module, so it imports nothing else of wirebroker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

listeners: list[Callable[[Any], None]] = []
"""Each of these functions is called with every MockKafka that has started."""


def announce(kafka: Any) -> None:
    """Tell all listeners that a broker has started."""
    for listener in listeners:
        listener(kafka)
