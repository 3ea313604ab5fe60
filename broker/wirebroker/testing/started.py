"""Tells the pytest plugin which brokers tests start, for its reports. Every start of pytest imports this module, so it imports
nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

listeners: list[Callable[[Any], None]] = []
"""Called with each MockKafka that has started."""


def announce(kafka: Any) -> None:
    """Tell all listeners that a broker has started."""
    for listener in listeners:
        listener(kafka)
