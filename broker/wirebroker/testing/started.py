"""Tells the pytest plugin which brokers tests start; the plugin needs them for its reports. Every start of pytest imports this
module, so the module itself imports nothing else of wirebroker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

listeners: list[Callable[[Any], None]] = []
"""Functions that are called with each MockKafka that has started."""


def announce(kafka: Any) -> None:
    """Tell all listeners that a broker has started."""
    for listener in listeners:
        listener(kafka)
