"""The broker of a replay, if the user gives no address of a broker. It runs in this process. The replay moves the broker's
clock, and restarts the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from wirebroker.client.wire import address_of
from wirebroker.core.profile import ProfileName
from wirebroker.mock import MockKafka
from wirebroker.net.listener import Listener
from wirebroker.security.protocols import SecurityProtocol
from wirebroker_tools.conformance.recording import USERS

HOST, SASL = "127.0.0.1", "SASL_PLAINTEXT"
LOADING_MS = 900


class OwnBroker:
    """A MockKafka on which a scenario runs. `sleep` only moves the MockKafka's clock."""

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        profile: ProfileName = "kafka-4.3",
        data: Path | None = None,
        secured: bool = False,
        telemetry: bool = False,
    ) -> None:
        users = USERS if secured else {}
        self.kafka = MockKafka(configs=settings, profile=profile, cold_start=True, data=data, users=users, telemetry=telemetry)
        self.addresses: dict[str, tuple[str, int]] = {}
        self.retries = 75  # 1.5 s: coordinators load for LOADING_MS, and nothing else in this process takes so long

    def __enter__(self) -> OwnBroker:
        self.kafka.start()
        # Topics are created at once, because a replay retries without a pause. The recorded client paused between its retries,
        # and Kafka created the topic in a pause.
        self.kafka._call(lambda engine: setattr(engine.cluster, "auto_creation_ms", 0))
        # The name of a deleted topic can be used again only after LOADING_MS, because the replay may be slower than the
        # recording.
        self.kafka._call(lambda engine: setattr(engine.cluster, "deletion_ms", LOADING_MS))
        # Coordinators load for 900 ms. This is long enough for a slow replay: requests that met a loading coordinator in the
        # recording meet a loading coordinator again. It is short enough for steps that pause for 1 s: after the pause the
        # coordinator must be loaded.
        self.kafka._call(lambda engine: setattr(engine.cluster, "loading_ms", LOADING_MS))
        self.address = self.addresses["PLAINTEXT"] = address_of(self.kafka.bootstrap_servers)
        if self.kafka._options.users:
            self.addresses[SASL] = self.kafka._listen(Listener(1, HOST, 0, None, SASL, SecurityProtocol.SASL_PLAINTEXT))
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.kafka.stop()

    def now(self) -> int:
        """Returns the time of the broker's clock, in ms since the epoch."""
        return self.kafka.clock.now()

    def sleep(self, seconds: float) -> None:
        """Move the clock."""
        self.kafka.clock.advance(seconds=seconds)

    def restart(self, mode: str) -> None:
        """Stop and start the broker."""
        self.kafka.restart("kill" if mode == "kill" else "clean")
