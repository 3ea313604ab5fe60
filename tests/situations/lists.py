"""For every API with a list of topics or partitions: requests whose list is empty, or names something twice."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from kafkawire.declare import Struct
from kafkawire.errors import EncodeError
from kafkawire.primitives import ZERO_UUID
from requesting import Plain, end_txn, offset_commit, plain
from responses import only
from situations.side import TRIES, Side
from wirekit import batch

LISTS: dict[str, list[tuple[str, list[int]]] | None] = {
    "none": [],
    "null": None,
    "one": [("a", [0])],
    "empty": [("a", [])],
    "empty and full": [("b", []), ("a", [0])],
    "full and empty": [("a", [0]), ("b", [])],
    "the same topic empty and full": [("a", []), ("a", [0])],
    "empty twice": [("a", []), ("a", [])],
    "absent and empty": [("none", [])],
    "absent and empty, and full": [("none", []), ("a", [0])],
    "a topic twice": [("a", [0]), ("a", [1])],
    "a topic twice, apart": [("a", [0]), ("b", [0]), ("a", [1])],
    "a topic twice, and an absent partition": [("a", [0]), ("b", [9]), ("a", [1])],
    "a partition twice": [("a", [0, 0])],
    "a partition twice, apart": [("a", [0]), ("a", [0])],
    "an absent topic twice": [("none", [0]), ("none", [0])],
    "an absent partition twice": [("a", [9, 9])],
    "absent and present": [("a", [9, 0]), ("none", [0])],
    "deleted": [("deleted", [0]), ("a", [0])],
    "made again": [("again", [0]), ("a", [0])],
}
"""Each list has topics with their partitions. The topics `a` and `b` have two partitions. The topic `none` does not exist;
`deleted` has been deleted; `again` has been deleted and made again, and requests have the id of the deleted topic."""
NEVER_ANSWERED = {
    "WriteTxnMarkers": ("a partition twice", "a partition twice, apart"),
    "DescribeShareGroupOffsets": (
        "a topic twice, and an absent partition", "an absent partition twice", "absent and present",
    ),
}  # fmt: skip
"""Kafka never responds to these requests."""
GROUP, SHARE_GROUP, TXID = "group", "share-group", "transaction"
ABSENT_ID = b"\1" * 16
NOT_READY = frozenset((14, 15, 16, 51, 122))
"""Errors that the broker returns only for a short time. (Error 122 means that a member's former connection was closed a moment
ago.)
"""
VARYING = frozenset((
    "throttle_time_ms", "log_append_time_ms", "base_offset", "offset", "log_start_offset", "high_watermark",
    "last_stable_offset", "session_id", "records", "total_bytes", "usable_bytes", "is_cordoned", "partition_size", "offset_lag",
    "member_id", "heartbeat_interval_ms", "lag", "log_dir", "leader_epoch", "low_watermark", "active_producers", "end_offset",
    "timestamp", "start_offset", "state_epoch", "member_epoch",
))  # fmt: skip
"""Fields that are not compared, because they depend on other requests or on the machine."""
MESSAGES = frozenset(("error_message", "acknowledge_error_message"))


@dataclass(frozen=True)
class Asked:
    """An API, and the place of the list in its requests. `path` leads to the list; `topic` and `parts` are the names of the
    fields that have a topic and its partitions."""

    api: str
    version: int
    path: str = "topics"
    topic: str = "name"
    parts: str = "partitions"
    part: Callable[[int], Any] = int
    """Makes one element for the list of partitions."""
    fields: Plain = field(default_factory=dict)

    def request(self, topics: list[tuple[str, list[int]]] | None, ids: dict[str, bytes], fields: Plain) -> Any:
        """Returns a request whose list has these topics and partitions."""
        by_id = self.topic == "topic_id"
        value = None
        if topics is not None:
            value = [{self.topic: ids[t] if by_id else t, self.parts: [self.part(i) for i in each]} for t, each in topics]
        body = deepcopy(self.fields) | fields
        outer, _, last = self.path.rpartition(".")
        holder = body.setdefault(outer, [{}])[0] if outer else body
        holder[last] = value
        return plain(self.api, **body)


def _indexed(name: str = "partition_index", **fields: Any) -> Callable[[int], Plain]:
    return lambda index: {name: index, **deepcopy(fields)}


def _records(index: int) -> Plain:
    return {"index": index, "records": batch()}


_FETCH = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 10}
_COMMIT = {"group_id": GROUP, "generation_id_or_member_epoch": -1, "member_id": ""}
_SHARE = {
    "group_id": SHARE_GROUP, "member_id": "m", "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 100, "max_records": 0,
    "batch_size": 1, "forgotten_topics_data": [],
}  # fmt: skip
_ACKNOWLEDGE = {"group_id": SHARE_GROUP, "member_id": "m", "share_session_epoch": 1}
_MEMBER = {"group_id": "members", "member_id": "A" * 22}
_STATE = {"group_id": "states"}
_MARKER = {"producer_id": 4000, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}
_SHARED = _indexed(acknowledgement_batches=[])
_OFFSET = _indexed(committed_offset=7, committed_metadata="")
_WAIT = {"timeout_ms": 1000}
ALL = (
    Asked("Produce", 9, "topic_data", parts="partition_data", part=_records, fields={"acks": -1} | _WAIT),
    Asked("Produce", 8, "topic_data", parts="partition_data", part=_records, fields={"acks": 2} | _WAIT),
    Asked("Produce", 13, "topic_data", "topic_id", "partition_data", _records, {"acks": -1} | _WAIT),
    Asked("Fetch", 12, topic="topic", part=_indexed("partition", fetch_offset=0, partition_max_bytes=0), fields=_FETCH),
    Asked("Fetch", 17, topic="topic_id", part=_indexed("partition", fetch_offset=0, partition_max_bytes=0), fields=_FETCH),
    Asked("ListOffsets", 7, part=_indexed(timestamp=-2, current_leader_epoch=-1), fields={"replica_id": -1}),
    Asked("OffsetCommit", 8, part=_OFFSET, fields=_COMMIT),
    Asked("OffsetCommit", 10, topic="topic_id", part=_OFFSET, fields=_COMMIT),
    Asked("OffsetFetch", 7, parts="partition_indexes", fields={"group_id": GROUP}),
    Asked("OffsetFetch", 9, "groups.topics", parts="partition_indexes", fields={"groups": [{"group_id": GROUP}]}),
    Asked("OffsetFetch", 10, "groups.topics", "topic_id", "partition_indexes", fields={"groups": [{"group_id": GROUP}]}),
    Asked("DeleteRecords", 2, part=_indexed(offset=0), fields=_WAIT),
    Asked(
        "OffsetForLeaderEpoch", 4, topic="topic", part=_indexed("partition", current_leader_epoch=-1, leader_epoch=0),
        fields={"replica_id": -1},
    ),
    Asked("AddPartitionsToTxn", 3, "v3_and_below_topics"),
    Asked("AddPartitionsToTxn", 4, "transactions.topics"),
    Asked("TxnOffsetCommit", 3, part=_OFFSET, fields={"group_id": GROUP}),
    Asked("TxnOffsetCommit", 6, topic="topic_id", part=_OFFSET, fields={"group_id": GROUP}),
    Asked("WriteTxnMarkers", 1, "markers.topics", parts="partition_indexes", fields={"markers": [_MARKER]}),
    Asked("OffsetDelete", 0, part=_indexed(), fields={"group_id": GROUP}),
    Asked("DescribeProducers", 0, parts="partition_indexes"),
    Asked("DescribeLogDirs", 4, topic="topic"),
    Asked("DescribeQuorum", 2, topic="topic_name", part=_indexed()),
    Asked("AlterReplicaLogDirs", 2, "dirs.topics"),
    Asked("ElectLeaders", 2, "topic_partitions", "topic", fields={"election_type": 0} | _WAIT),
    Asked("AlterPartitionReassignments", 0, part=_indexed(replicas=None), fields=_WAIT),
    Asked("ListPartitionReassignments", 0, parts="partition_indexes", fields=_WAIT),
    Asked("ShareFetch", 2, topic="topic_id", part=_SHARED, fields=_SHARE | {"share_session_epoch": 0}),
    Asked("ShareAcknowledge", 2, topic="topic_id", part=_SHARED, fields=_ACKNOWLEDGE),
    Asked(
        "InitializeShareGroupState", 0, topic="topic_id", fields=_STATE,
        part=_indexed("partition", state_epoch=1, start_offset=0),
    ),
    Asked(
        "WriteShareGroupState", 1, topic="topic_id", fields=_STATE,
        part=_indexed("partition", state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[]),
    ),
    Asked("ReadShareGroupState", 0, topic="topic_id", part=_indexed("partition", leader_epoch=0), fields=_STATE),
    Asked("ReadShareGroupStateSummary", 0, topic="topic_id", part=_indexed("partition", leader_epoch=0), fields=_STATE),
    Asked("DeleteShareGroupState", 0, topic="topic_id", part=_indexed("partition"), fields=_STATE),
    Asked("DescribeShareGroupOffsets", 0, "groups.topics", "topic_name", fields={"groups": [{"group_id": "offsets"}]}),
    Asked("AlterShareGroupOffsets", 0, topic="topic_name", part=_indexed(start_offset=0), fields={"group_id": "offsets"}),
    Asked(
        "ConsumerGroupHeartbeat", 1, "topic_partitions", "topic_id",
        fields=_MEMBER | {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["a"]},
    ),
)  # fmt: skip


def play(side: Side) -> dict[str, str]:
    """Sends all requests, and returns the responses as texts."""
    broker = _Broker(side)
    return {
        f"{asked.api} v{asked.version}: {name}": broker.response(asked, topics)
        for asked in ALL
        for name, topics in LISTS.items()
        if name not in NEVER_ANSWERED.get(asked.api, ())
    }


class _Broker:
    """A broker with the topics, and with coordinators that are ready."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._ids = {name: side.create(name, 2) for name in ("a", "b")} | {"none": ABSENT_ID}
        self._names = {topic_id: f"id of {name}" for name, topic_id in self._ids.items()}
        for group in (GROUP, SHARE_GROUP, "members", "offsets"):
            side.find(group)
        for name in ("deleted", "again"):
            self._ids[name] = side.create(name)
            self._names[self._ids[name]] = f"id of {name}"
            assert only(side.wire.request(offset_commit(GROUP, 1, topic=name), 8)).error_code == 0
            side.delete(name)
        self._names[side.create("again")] = "new id of again"
        state = urlsafe_b64encode(self._ids["a"]).decode().rstrip("=")
        side.find(f"states:{state}:0", kind=2)
        self._producer = side.producer(TXID)
        self._path = side.wire.request(plain("DescribeLogDirs", topics=None), 4).results[0].log_dir

    def response(self, asked: Asked, topics: list[tuple[str, list[int]]] | None) -> str:
        """Returns the response as a text."""
        try:
            request = asked.request(topics, self._ids, self._fields(asked))
            for _ in range(TRIES):
                text = self._ask(asked, request)
                if not any(f'_code": {code}' in text for code in NOT_READY):
                    return text
                self._side.settle()
        except EncodeError:
            return "cannot be sent"
        raise AssertionError(text)

    def _ask(self, asked: Asked, request: Any) -> str:
        with self._side.link() as wire:
            if asked.api == "ShareAcknowledge":
                self._side.ask(wire, plain("ShareFetch", **_SHARE, share_session_epoch=0, topics=[]), 2)
            how, response = self._side.ask(wire, request, asked.version)
            if asked.api == "ShareFetch":
                self._side.ask(wire, plain("ShareFetch", **_SHARE, share_session_epoch=-1, topics=[]), 2)
            elif asked.api == "ConsumerGroupHeartbeat":
                self._side.ask(wire, plain("ConsumerGroupHeartbeat", **_MEMBER, member_epoch=-1), 1)
        if asked.api in ("AddPartitionsToTxn", "TxnOffsetCommit"):
            self._side.until(end_txn(TXID, self._producer, False), 3, lambda told: told.error_code != 51)
            self._side.settle()  # otherwise a transaction could still be ending when the next request comes
        return how if response is None else f"{how} {json.dumps(shown(response, self._names), sort_keys=True)}"

    def _fields(self, asked: Asked) -> Plain:
        producer_id, epoch = self._producer
        who = {"transactional_id": TXID, "producer_id": producer_id, "producer_epoch": epoch}
        match asked.api, asked.version:
            case "AddPartitionsToTxn", 3:
                return {f"v3_and_below_{name}": value for name, value in who.items()}
            case "AddPartitionsToTxn", _:
                return {"transactions": [who | {"verify_only": False}]}
            case "TxnOffsetCommit", _:
                return who | {"generation_id": -1, "member_id": ""}
            case "AlterReplicaLogDirs", _:
                return {"dirs": [{"path": self._path}]}
        return {}


def shown(value: Any, names: Mapping[bytes, str]) -> Any:
    """Returns the fields of a response that are not empty, as plain data. `names` has a name for each topic id. Lists are
    sorted, because Kafka has them in the order of Scala's hash tables."""
    if isinstance(value, Struct):
        return dict(_set_fields(value, names))
    if isinstance(value, bytes):
        return names.get(value, value.hex())
    if isinstance(value, list):
        items = [shown(each, names) for each in value if not _is_internal(each)]
        return sorted(items, key=lambda each: json.dumps(each, sort_keys=True))
    return value


def _set_fields(struct: Struct, names: Mapping[bytes, str]) -> Iterator[tuple[str, Any]]:
    for declared in struct.__wire__:
        value = getattr(struct, declared.name)
        if declared.name in VARYING or value in ([], ZERO_UUID):
            continue
        if declared.name in MESSAGES:
            value = bool(value)
        yield declared.name, shown(value, names)


def _is_internal(part: Any) -> bool:
    """Returns whether this is an internal topic of Kafka. The number of partitions of internal topics differs between
    brokers.
    """
    return str(getattr(part, "name", "")).startswith("__")
