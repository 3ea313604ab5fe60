"""Replaying a scenario on a broker."""

from __future__ import annotations

import re
import secrets
import time
from typing import Any, Protocol

from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wirebroker.conformance.readiness import prepare
from wirebroker.conformance.recording import Difference, Json, Scenario, compare
from wirebroker.conformance.steps import OPERATIONS
from wirebroker.wire_client import ConnectionClosed, NoAnswer, WireClient

_REFERENCE = re.compile(r"\$(\w+)\.(\w+)([+-]\d+)?")
BEHIND_MS = 750
"""How far batches are dated back, so that their timestamps are never taken for the broker's time of an append.

More than the half second between two retention checks: a batch that must be gone a second after it was appended, with
retention.ms=1000, then is, whenever in between the checks fall.
"""
CLOCKS_APART_MS = 2000
"""How far a broker's clock may be from ours for a time it gives to pass as its own present."""


class Broker(Protocol):
    """A broker that scenarios are replayed on."""

    address: tuple[str, int]

    def now(self) -> int:
        """ms since the epoch, by its clock."""

    def sleep(self, seconds: float) -> None:
        """Let time pass for it."""

    def restart(self, mode: str) -> None:
        """Stop it ("clean", or "kill" as with kill −9) and start it again."""


class Run:
    """One scenario being replayed: names, remembered results and the timestamps of its batches."""

    def __init__(self, scenario: Scenario, broker: Broker) -> None:
        self.broker = broker
        self.client = WireClient(*broker.address)
        self._prefix = f"o{secrets.token_hex(4)}-{scenario.name}"
        self._results: dict[str, Json] = {}
        self._index = 0
        self._last_timestamp = 0
        self._batches: dict[int, int] = {}
        self._append_times: set[tuple[int, int]] = set()
        self._scenario = scenario
        self._began = broker.now()

    def prepare(self) -> None:
        """Have internal topics created and coordinators loaded, as before the recording, except in the group "cold"."""
        if self._scenario.ran_on != "cold":
            prepare(self, [row["step"] for row in self._scenario.steps])

    def observe(self, index: int, step: Json) -> Json:
        """Do one step; its observation."""
        self._index = index
        try:
            step = self._resolve(step)
        except KeyError as missing:
            return {"undone": f"no earlier step returned {missing}"}
        try:
            observed = OPERATIONS[step["op"]](self, step)
        except ConnectionClosed:
            return {"conn": "closed"}
        except NoAnswer:
            return {"conn": "timeout"}
        except ProtocolError as wrong:
            return {"conn": "unreadable", "text": str(wrong)}
        if "as" in step:
            self._results[step["as"]] = observed
        return observed

    def _resolve(self, value: Any) -> Any:
        """Replace references to earlier results, like `$p.epoch+1`, by their values."""
        if isinstance(value, dict):
            return {key: self._resolve(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._resolve(item) for item in value]
        if isinstance(value, str) and (match := _REFERENCE.fullmatch(value)):
            result, key, shift = match.groups()
            found = self._results[result][key]
            return found + int(shift) if shift else found
        return value

    def ask(self, request: Message, step: Json, version: int) -> Any:
        """Send a request in the step's version, else in this one, and wait for the answer."""
        return self.client.request(request, step.get("v", version), step.get("conn", "main"))

    def topic(self, step: Json) -> str:
        """The topic's real name: `T`, `T2` … are topics of this run, any other name is literal."""
        name = step.get("topic", "T")
        if name == "T":
            return self._prefix
        return f"{self._prefix}-{name}" if re.fullmatch(r"T\w+", name) else name

    def name(self, name: str) -> str:
        """A transactional id or group of this run alone."""
        return f"{self._prefix}-{name}" if name else name

    def topic_id(self, name: str) -> bytes:
        """The topic's id, as Metadata tells it."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        topic_id: bytes = self.client.request(request, 12).topics[0].topic_id
        return topic_id

    def batch_timestamp(self, entry: Json) -> int:
        """The timestamp of the next batch: unlike any other of this run, unless the step gives it."""
        if "ts" in entry:
            timestamp = int(entry["ts"])
        elif "ts_offset_ms" in entry:
            timestamp = self.broker.now() + int(entry["ts_offset_ms"])
        else:
            timestamp = max(self.broker.now() - BEHIND_MS, self._last_timestamp + 1)
            self._last_timestamp = timestamp
        self._batches.setdefault(timestamp, self._index)
        return timestamp

    def append_time(self, answered: int, base_offset: int) -> Any:
        """A LogAppendTime in the words of the recording."""
        if answered == -1:
            return -1
        if answered in self._batches:
            return f"max_ts_of_batch_in_step_{self._batches[answered]}"
        if not self._began - CLOCKS_APART_MS <= answered <= self.broker.now() + CLOCKS_APART_MS:
            return answered
        known = (answered, base_offset) in self._append_times
        self._append_times.add((answered, base_offset))
        return "broker_earlier" if known else "broker_now"


def replay(scenario: Scenario, broker: Broker) -> tuple[list[Json], list[Difference]]:
    """Replay one scenario; the observation of each step, and the differences from the recording."""
    run = Run(scenario, broker)
    try:
        run.prepare()
        observed = [run.observe(i, row["step"]) for i, row in enumerate(scenario.steps)]
    finally:
        run.client.close()
    return observed, compare(scenario, observed)


class RemoteBroker:
    """A broker by address: time passes there by itself, and it cannot be restarted from here."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)

    def now(self) -> int:
        """ms since the epoch, by this machine's clock."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def restart(self, mode: str) -> None:
        """Cannot be done from here."""
        raise NotImplementedError("a broker by address cannot be restarted from here")
