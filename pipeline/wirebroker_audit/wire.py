"""A small synchronous client of a live broker: metadata, offsets, one topic setting, and Fetch of whole batches.

The client reads all stored batches, even batches that a consumer would not get: uncommitted and aborted batches, and markers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode, WireError, error_name
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkawire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkawire.primitives import Buffer, format_uuid
from wirebroker.client import wire as wire_client
from wirebroker.client.brokers import Brokers, leaders_in
from wirebroker.client.login import LoginFailed
from wirebroker.client.settings import TIMEOUT_MS, Access

AT_ONCE = 1000
"""A request has at most this many partitions or topics."""
ATTEMPTS, PAUSE = 8, 0.5
"""A request that the broker refuses with a retriable error is sent at most this many times, this many seconds apart."""
FAILOVER_S = 20.0
"""While the leader cannot be reached, the client waits this many seconds for another leader. Kafka elects one after 9 s by
default."""
FETCH_BYTES, LEAST_FETCH_BYTES = 16 * 1024 * 1024, 64 * 1024
WAIT_MS = 500
THROTTLED_S, THROTTLED_IN_ALL_S = 30.0, 600.0
"""Two limits, in seconds, if a broker throttles this client: the longest wait before the next request, and the longest total of
the waits before a request succeeds."""
EARLIEST, LATEST = -2, -1
NEWEST = {0: 12, 1: 12, 2: 7, 3: 12, 18: 0, 32: 4, 60: 0, 61: 0, 65: 0, 66: 0}
"""The newest version that the client sends, by API key; Produce 13 and Fetch 13 name topics by id."""
POLICY, COMPACT = "cleanup.policy", "compact"
MIN_IN_SYNC, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
_TOPIC = 2
_RETRIABLE = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)  # fmt: skip


PLAINTEXT = Access()
"""No TLS, no SASL, no limit of the rate."""
NEEDS_CONFIG = "; a listener with TLS or SASL needs --command-config"


class BrokerError(Exception):
    """Raised if the broker is unreachable or responds with an error. The message names the broker, the request and the
    reason."""


class Unreachable(BrokerError):
    """Raised if one broker cannot be reached."""


@dataclass(frozen=True, slots=True)
class LivePartition:
    """A partition of a live cluster, as it was when the brokers described it."""

    topic: str
    partition: int
    leader: str
    """The address of the partition's leader; "" if the partition has no leader."""
    start: int
    end: int
    compacted: bool | None
    """True if the topic is compacted; None if the broker does not return the setting."""
    topic_id: str = ""
    """the topic's id; "" if the broker has no topic ids"""


class Client:
    """Connections to the brokers of one cluster, made when they are needed. Every method raises BrokerError."""

    def __init__(self, bootstrap: str, access: Access = PLAINTEXT) -> None:
        self._access = access
        self._free_at = 0.0
        """Under `max_rate`, the earliest time of the next Fetch, by `time.monotonic`."""
        self._bootstrap = [each.strip() for each in bootstrap.split(",") if each.strip()]
        for each in self._bootstrap:
            address_of(each)
        self._brokers = Brokers(access, access.timeout_ms / 1000, access.client_id)
        self._versions: dict[str, dict[int, int]] = {}
        self._leaders: dict[tuple[str, int], str] = {}
        self._ids: dict[str, str] = {}
        self.replicas: dict[str, int] = {}
        """The number of replicas of each topic."""
        self.settings: dict[str, dict[str, str]] = {}
        """The settings that an audit needs, by topic; empty for a topic whose settings the broker does not return."""
        self._refused: dict[str, int] = {}
        """the error code of each topic that a broker refused to describe"""

    def close(self) -> None:
        self._brokers.close()

    def partitions(self, topics: Iterable[str] = (), turns: Mapping[str, int] | None = None) -> list[LivePartition]:
        """Returns the partitions of these topics (or of all topics) in order, each with its offsets.

        The offsets of a topic with a higher number in `turns` are requested later; topics that are not in `turns` have the
        number 0.
        """
        turns = turns or {}
        wanted = tuple(topics)
        self.refresh(wanted)
        for topic in wanted:
            self.numbers_of(topic)
        self.settings = self._settings_of(sorted({topic for topic, _ in self._leaders}))
        starts = self._offsets(EARLIEST, self._leaders)
        ends: dict[tuple[str, int], int] = {}
        for number in sorted({turns.get(topic, 0) for topic, _ in self._leaders}):
            ends |= self._offsets(LATEST, [where for where in self._leaders if turns.get(where[0], 0) == number])
        compacted = {topic: COMPACT in held.get(POLICY, "") if held else None for topic, held in self.settings.items()}
        found = []
        for topic, partition in sorted(self._leaders):
            where = topic, partition
            start = starts[where] if where in starts else self.offset(*where, EARLIEST)
            end = ends[where] if where in ends else self.offset(*where, LATEST)
            leader = self._leaders[where]
            found.append(LivePartition(topic, partition, leader, start, end, compacted[topic], self._ids[topic]))
        return found

    def numbers_of(self, topic: str) -> list[int]:
        """Returns the numbers of a topic's partitions, as of the last `refresh`."""
        found = sorted(number for name, number in self._leaders if name == topic)
        if not found:
            raise BrokerError(
                f"{self._bootstrap[0]} has no topic {topic}, or this client may not describe the topic (DESCRIBE)"
            )
        return found

    def produce(self, topic: str, partition: int, batch: bytes) -> None:
        """Append a batch, and wait until all in-sync replicas have acknowledged it."""

        def ask(leader: str) -> tuple[int, Any]:
            part = PartitionProduceData(index=partition, records=batch)
            request = ProduceRequest(
                acks=-1,
                timeout_ms=TIMEOUT_MS,
                topic_data=[TopicProduceData(name=topic, partition_data=[part])],
            )
            (found,) = (each for answered in self._ask(leader, request).responses for each in answered.partition_responses)
            return found.error_code, found

        self._of_leader(topic, partition, "Produce", ask)

    def nodes(self) -> list[str]:
        """Returns the addresses of all brokers."""
        response = self._ask_any(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        return [f"{each.host}:{each.port}" for each in response.brokers]

    def leader(self, topic: str, partition: int) -> str:
        """Returns the address of a partition's leader, as of the last `refresh`, "" if the partition has no leader."""
        return self._leaders.get((topic, partition), "")

    def ask(self, address: str, request: Message) -> Any:
        """Returns the response of the broker at this address, in the newest version that both sides support."""
        return self._ask(address, request)

    def refresh(self, topics: tuple[str, ...]) -> None:
        """Asks the cluster again for the partitions' leaders."""
        names = [MetadataRequestTopic(name=name) for name in topics] if topics else None
        response = self._ask_any(MetadataRequest(topics=names, allow_auto_topic_creation=False))
        self._leaders.update(leaders_in(response))
        for topic in response.topics:
            if topic.error_code != ErrorCode.NONE:
                self._refused[topic.name] = topic.error_code
            else:
                self._ids[topic.name] = format_uuid(topic.topic_id) if any(topic.topic_id) else ""
                self.replicas[topic.name] = max((len(each.replica_nodes) for each in topic.partitions), default=0)

    def _offsets(self, which: int, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Returns the offsets of these partitions, with few requests to each leader. Partitions that need another request are
        left out.
        """
        led: dict[str, list[tuple[str, int]]] = {}
        for where in sorted(partitions):
            led.setdefault(self._leaders[where], []).append(where)
        found: dict[tuple[str, int], int] = {}
        for leader, places in led.items():
            for begin in range(0, len(places) if leader else 0, AT_ONCE):
                topics: dict[str, list[ListOffsetsPartition]] = {}
                for topic, partition in places[begin : begin + AT_ONCE]:
                    topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=which))
                named = [ListOffsetsTopic(name=topic, partitions=parts) for topic, parts in topics.items()]
                with suppress(BrokerError):
                    told = self._ask(leader, ListOffsetsRequest(replica_id=-1, topics=named)).topics
                    parts = ((topic.name, each) for topic in told for each in topic.partitions)
                    found |= {(name, each.partition_index): each.offset for name, each in parts if not each.error_code}
        return found

    def offset(self, topic: str, partition: int, which: int) -> int:
        """Returns the first offset of a partition or the offset after its last record, as `which` requests."""

        def ask(leader: str) -> tuple[int, Any]:
            entry = ListOffsetsPartition(partition_index=partition, timestamp=which)
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[entry])])
            found = _only(leader, self._ask(leader, request).topics)
            return found.error_code, found.offset

        return int(self._of_leader(topic, partition, "ListOffsets", ask))

    def fetch(self, topic: str, partition: int, offset: int) -> tuple[Buffer, int]:
        """Returns two values: the record data from the batch that holds this offset on, and the high watermark."""
        rate = self._access.max_rate
        size = min(FETCH_BYTES, max(int(rate), LEAST_FETCH_BYTES)) if rate else FETCH_BYTES

        def ask(leader: str) -> tuple[int, Any]:
            entry = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)
            request = FetchRequest(
                max_wait_ms=WAIT_MS,
                min_bytes=1,
                max_bytes=size,
                topics=[FetchTopic(topic=topic, partitions=[entry])],
            )
            response = self._unthrottled(leader, request)
            if response.error_code != ErrorCode.NONE:
                return response.error_code, None
            found = _only(leader, response.responses)
            return found.error_code, (found.records or b"", found.high_watermark)

        if (early := self._free_at - time.monotonic()) > 0:
            time.sleep(early)
        records, watermark = self._of_leader(topic, partition, f"Fetch at offset {offset}", ask)
        if rate:
            self._free_at = max(self._free_at, time.monotonic() - 1) + len(records) / rate
        return records, watermark

    def _unthrottled(self, leader: str, request: Message) -> Any:
        """Returns the response to a Fetch. If the client exceeds its quota, Kafka's response has no partitions, but a throttle
        time. This method then waits and asks again."""
        waited = 0.0
        while True:
            response = self._ask(leader, request)
            if response.responses or not response.throttle_time_ms:
                return response
            if waited >= THROTTLED_IN_ALL_S:
                raise BrokerError(f"{leader} throttles: nothing could be fetched for {waited:.0f} s")
            pause = min(response.throttle_time_ms / 1000, THROTTLED_S)
            time.sleep(pause)
            waited += pause

    def _settings_of(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Returns the settings that an audit needs, by topic; empty for a topic whose settings the broker does not return."""
        found: dict[str, dict[str, str]] = {topic: {} for topic in topics}
        keys = [POLICY, MIN_IN_SYNC, UNCLEAN]
        for begin in range(0, len(topics), AT_ONCE):
            resources = [
                DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=keys)
                for topic in topics[begin : begin + AT_ONCE]
            ]
            with suppress(BrokerError):  # a broker that does not return its settings can still be audited
                told = self._ask_any(DescribeConfigsRequest(resources=resources)).results
                found |= {
                    each.resource_name: {held.name: held.value or "" for held in each.configs}
                    for each in told
                    if not each.error_code and each.resource_name in found
                }
        return found

    def _of_leader(self, topic: str, partition: int, what: str, ask: Callable[[str], tuple[int, Any]]) -> Any:
        """Returns the response of the partition's leader, after finding the leader again if needed."""
        where = f"{topic}-{partition}"
        why, until, leader = "it has no leader", 0.0, ""
        for attempt in count():
            if attempt >= ATTEMPTS and time.monotonic() >= until:
                break
            if attempt:
                time.sleep(PAUSE)
            try:
                leader = ""
                if attempt or (topic, partition) not in self._leaders:
                    self.refresh((topic,))
                leader = self._leaders.get((topic, partition), "")
                if not leader:
                    if code := self._refused.get(topic):
                        why = f"a broker returned {code} {error_name(code)} for this topic"
                    continue
                code, response = ask(leader)
            except BrokerError as broken:
                why = str(broken)
                if isinstance(broken, Unreachable):
                    until = until or time.monotonic() + FAILOVER_S
                elif not leader:  # no broker can be reached
                    until = 0.0
                continue
            if code == ErrorCode.NONE:
                return response
            why = f"{leader} answers {what} with {code} {error_name(code)}"
            if code not in _RETRIABLE:
                break
        raise BrokerError(f"{where}: {why}")

    def _ask_any(self, request: Message) -> Any:
        """Returns the response of the first broker that responds."""
        reasons = []
        for address in dict.fromkeys([*self._bootstrap, *filter(None, self._leaders.values())]):
            try:
                return self._ask(address, request)
            except BrokerError as broken:
                reasons.append(str(broken))
        raise BrokerError("; ".join(reasons))

    def _ask(self, address: str, request: Message) -> Any:
        key = request.__schema__.key
        try:
            if address not in self._versions:
                offered = self._brokers.request(ApiVersionsRequest(), 0, address)
                self._versions[address] = {each.api_key: each.max_version for each in offered.api_keys}
            version = min(NEWEST[key], self._versions[address].get(key, -1))
            if version < request.__schema__.versions[0]:
                raise BrokerError(f"{address} offers no version of {type(request).__name__} that this client speaks")
            return self._brokers.request(request, version, address)
        except (OSError, WireError, LoginFailed, ValueError) as broken:
            self._brokers.drop(address)
            raise Unreachable(f"{address}: {broken or type(broken).__name__}") from broken


def ask(bootstrap: str, topics: tuple[str, ...] = (), access: Access = PLAINTEXT) -> None:
    """Checks that a broker responds and has these topics. Raises BrokerError."""
    client = Client(bootstrap, access)
    try:
        client.refresh(topics or ("",))
        for topic in topics:
            client.numbers_of(topic)
    except BrokerError as broken:
        is_secured = any(words in str(broken) for words in ("closed the connection", "not a Kafka broker"))
        raise BrokerError(f"{broken}{NEEDS_CONFIG if is_secured and access.protocol == PLAINTEXT.protocol else ''}") from broken
    finally:
        client.close()


def _only(leader: str, topics: list[Any]) -> Any:
    """Returns the only partition in the response. Raises BrokerError."""
    found = [partition for topic in topics for partition in topic.partitions]
    if len(found) != 1:
        raise BrokerError(f"{leader} was asked about one partition, and responded about {len(found)}")
    return found[0]


def address_of(text: str) -> tuple[str, int]:
    """Returns the host and the port of an address. Raises BrokerError."""
    try:
        return wire_client.address_of(text)
    except ValueError as wrong:
        raise BrokerError(str(wrong)) from None
