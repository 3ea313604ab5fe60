"""Our own broker for replaying: in this process, its clock and its restarts in our hands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from wirebroker.mock import MockKafka
from wirebroker.wire_client import address_of


class OwnBroker:
    """A MockKafka that a scenario runs on; sleeping is moving its clock."""

    def __init__(self, settings: Mapping[str, str], *, profile: str = "kafka-4.3", data: Path | None = None) -> None:
        self.kafka = MockKafka(configs=settings, profile=profile, cold_start=True, data=data)

    def __enter__(self) -> OwnBroker:
        self.kafka.start()
        self.address = address_of(self.kafka.bootstrap_servers)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.kafka.stop()

    def now(self) -> int:
        """ms since the epoch, by the broker's clock."""
        return self.kafka.clock.now()

    def sleep(self, seconds: float) -> None:
        """Move the clock."""
        self.kafka.clock.advance(seconds=seconds)

    def restart(self, mode: str) -> None:
        """Stop and start the broker."""
        self.kafka.restart(mode)
