"""The brokers that tests make, for the pytest plugin's reports. Every start of pytest imports this module, so it imports
nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

listeners: list[Callable[[Any], None]] = []
"""Called with each MockKafka that has started."""


def announce(kafka: Any) -> None:
    """Report a started broker."""
    for listener in listeners:
        listener(kafka)
