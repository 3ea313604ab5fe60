"""The brokers that tests make, for the pytest plugin's reports. It is imported at every start of pytest and imports nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wirebroker.mock import MockKafka

listeners: list[Callable[[MockKafka], None]] = []
"""Called with each MockKafka that has started."""


def announce(kafka: MockKafka) -> None:
    """A broker has started."""
    for listener in listeners:
        listener(kafka)
