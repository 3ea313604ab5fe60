"""The run of one scenario, with the state that its steps share."""

from __future__ import annotations

import re
import secrets
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from kafkawire.declare import from_plain
from kafkawire.registry import KEYS, request_class
from wirebroker.client.wire import WireClient
from wirebroker_tools.conformance.recording import Json, Scenario
from wirebroker_tools.conformance.versions import Announced, VersionMode

_REFERENCE = re.compile(r"\$(\w+)\.(\w+)([+-]\d+)?")
BEHIND_MS = 750
"""A batch gets a timestamp that is this many ms before the present time, so that the timestamp differs from the broker's time
of the append.

Retention checks run every half second, and this time is longer than half a second. Therefore, with retention.ms=1000, a batch
is gone one second after its append, at whatever moment the checks run.
"""
CLOCKS_APART_MS = 2000
"""A time from a broker counts as its present time if it differs from this machine's clock by at most this many ms."""


RETRIES = 250
"""The recorded client repeated a request up to this many times, with a pause of 20 ms."""


class ReplayTarget(Protocol):
    """A broker on which scenarios are replayed."""

    address: tuple[str, int]
    addresses: dict[str, tuple[str, int]]
    """The address of each listener by name. A remote broker has only one entry."""
    retries: int
    """A step repeats a request up to this many times while the request gets a temporary error, such as
    CONCURRENT_TRANSACTIONS."""

    def now(self) -> int:
        """Returns the time of the broker's clock in ms since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Let time pass for the broker."""

    def restart(self, mode: str) -> None:
        """Stop the broker ("clean", or "kill" as with kill −9) and start it again."""


@dataclass(slots=True)
class Token:
    """A delegation token. The values are from the latest response about the token."""

    token_id: str
    secret: bytes
    most_at: int
    ends: int | None = None


class Run:
    """The replay of one scenario: its names, its remembered results and the timestamps of its batches."""

    def __init__(self, scenario: Scenario, broker: ReplayTarget, versions: VersionMode = "named") -> None:
        self.broker = broker
        self.versions = versions
        self.lowered = False
        """True if the version of a request was lowered, or would be lowered with versions "clamped"."""
        self.client = WireClient(*broker.address)
        self._clients: dict[str, WireClient] = {}
        self.scenario = scenario
        self.index = 0
        """The number of the present step."""
        self.results: dict[str, Json] = {}
        """The observations to which later steps may refer, by name."""
        self.topic_names: dict[bytes, str] = {}
        """The names of the run's topics by topic id. It has only topics whose ids a step `exchange` has needed."""
        self.tokens: dict[str, Token] = {}
        """The delegation tokens of the run, by name."""
        self._prefix = f"o{secrets.token_hex(4)}-{scenario.name}"
        self._last_timestamp = 0
        self._batches: dict[int, int] = {}
        self._append_times: set[tuple[int, int]] = set()
        self._began = broker.now()

    def resolve(self, value: Any) -> Any:
        """Replace each reference to an earlier result, like `$p.epoch+1`, by its value."""
        if isinstance(value, dict):
            return {key: self.resolve(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if isinstance(value, str) and (match := _REFERENCE.fullmatch(value)):
            result, key, shift = match.groups()
            found = self.results[result][key]
            return found + int(shift) if shift else found
        return value

    def client_of(self, step: Json) -> WireClient:
        """Returns the client that is connected to the step's listener, by default to the first listener."""
        name = step.get("listener")
        if name is None:
            return self.client
        if name not in self._clients:
            self._clients[name] = WireClient(*self.broker.addresses[name])
        return self._clients[name]

    def close(self) -> None:
        for client in (self.client, *self._clients.values()):
            client.close()

    @cached_property
    def announced(self) -> Announced:
        """The versions that the broker announces."""
        with closing(WireClient(*self.broker.address)) as client:
            return Announced.by(client)

    def version(self, api: str, step: Json, version: int) -> int:
        """Returns the version of a step's request: the version that the step names, else `version`.

        If the broker does not announce this version, the version is lowered in two cases: versions are "clamped", or the
        request belongs to no step of the scenario (then `step` has no operation).
        """
        named: int = step.get("v", version)
        lowered = self.announced.lowered(api, named)
        if "op" not in step:
            return lowered
        self.lowered |= lowered != named
        return lowered if self.versions == "clamped" else named

    def ask(self, api: str, step: Json, version: int, **fields: Any) -> Any:
        """Send a request with these fields. Its version is the step's version, or `version` if the step names no version.
        Returns the response."""
        request = from_plain(request_class(KEYS[api]), fields)
        return self.client_of(step).request(request, self.version(api, step, version), step.get("conn", "main"))

    def topic(self, step: Json) -> str:
        """Returns the topic's real name: `T`, `T2` … are topics of this run, any other name is literal."""
        name = step.get("topic", "T")
        if name == "T":
            return self._prefix
        return f"{self._prefix}-{name}" if re.fullmatch(r"T\w+", name) else name

    def name(self, name: str) -> str:
        """Returns the transactional id or group id with this run's prefix, so that no other run uses it."""
        return f"{self._prefix}-{name}" if name else name

    def is_of_another(self, name: str) -> bool:
        """Tells whether a name belongs to another run on the same broker."""
        return re.match(r"o[0-9a-f]{8}-", name) is not None and not name.startswith(self._prefix)

    def topic_id(self, name: str) -> bytes:
        """Returns the topic's id, from Metadata."""
        response = self.ask("Metadata", {}, 12, topics=[{"name": name}], allow_auto_topic_creation=False)
        topic_id: bytes = response.topics[0].topic_id
        return topic_id

    def batch_timestamp(self, entry: Json) -> int:
        """Returns the timestamp of the next batch: the step's own timestamp, or else a new timestamp that no other batch of
        this run has."""
        if "ts" in entry:
            timestamp = int(entry["ts"])
        elif "ts_offset_ms" in entry:
            timestamp = self.broker.now() + int(entry["ts_offset_ms"])
        else:
            timestamp = max(self.broker.now() - BEHIND_MS, self._last_timestamp + 1)
            self._last_timestamp = timestamp
        self._batches.setdefault(timestamp, self.index)
        return timestamp

    def append_time(self, answered: int, base_offset: int) -> Any:
        """Returns a text that stands for a LogAppendTime in a recording."""
        if answered == -1:
            return -1
        if answered in self._batches:
            return f"max_ts_of_batch_in_step_{self._batches[answered]}"
        if not self._began - CLOCKS_APART_MS <= answered <= self.broker.now() + CLOCKS_APART_MS:
            return answered
        known = (answered, base_offset) in self._append_times
        self._append_times.add((answered, base_offset))
        return "broker_earlier" if known else "broker_now"
