"""Makes requests from their declarations: first valid requests that name existing things, then changes some of their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from fuzzing.batches import NUMBERS, damaged_batch, fit, good_batch
from fuzzing.known import Known, Member, Producer
from kafkawire.batches import HEADER_SIZE, read_header, seal
from kafkawire.codec import encode
from kafkawire.declare import Field, Message, Struct
from kafkawire.errors import EncodeError
from kafkawire.messages.join_group import JoinGroupRequestProtocol
from kafkawire.messages.sync_group import SyncGroupRequestAssignment
from kafkawire.registry import api_name, request_class

INVALID = "\U0010ffff"
"""A placeholder in strings: `spoil_utf8` replaces it by bytes that are not UTF-8."""
BITS = {"int8": 8, "int16": 16, "uint16": 17, "int32": 32, "uint32": 33, "int64": 64}
WORDS = (
    "", " ", "a", ".", "..", "__consumer_offsets", "__transaction_state", "a" * 249, "a" * 250, "x" * 32767, "größe",
    "主題", "\x00", "\ud7ff", "a/b", "../../etc", "%s%n", "\r\n", "\u202e", INVALID, INVALID * 60, INVALID * 8000, "null",
    "-1", "NaN", "*", "(", "[", "a{2,1}", ".*", "(?i)ORDERS", "o+", "\\p{L}+", "(a|b)*c", "^$", "(?<n>x)",
    "(a+)+$", "((a{1000}){1000}){1000}", "(" * 5000, "a{2000000000}", "[a-z]*" * 3000, "(o|r|d|e|r|s)*" * 20 + "x",
    "9" * 5000, "a" + " " * 32000 + "b", "," * 32000, "١٢٣", "1e999", "-" * 30000, "." * 30000,
)  # fmt: skip
SETTINGS = {
    "cleanup.policy": ("compact", "delete", "compact,delete", ""), "retention.ms": ("-1", "1", "0", "9223372036854775807"),
    "segment.bytes": ("1048576", "0"), "message.timestamp.type": ("LogAppendTime", "CreateTime"),
    "compression.type": ("zstd", "gzip", "producer", "lz4", "snappy", "uncompressed"), "max.message.bytes": ("100", "1048588"),
    "min.insync.replicas": ("1", "2", "0"), "delete.retention.ms": ("0", "86400000"), "retention.bytes": ("0", "100", "-1"),
    "message.timestamp.before.max.ms": ("0", "9223372036854775807"), "min.compaction.lag.ms": ("0", "-1"),
    "consumer.session.timeout.ms": ("1", "45000"), "consumer.heartbeat.interval.ms": ("5000", "2147483647"),
    "log.cleaner.backoff.ms": ("15000", "x"), "group.max.session.timeout.ms": ("1", "1800000"),
    "file.delete.delay.ms": ("0", "60000"), "flush.messages": ("1", ""), "no.such.setting": ("1",),
    "follower.replication.throttled.replicas": ("*", "0:1", "0:1,1:1"), "min.cleanable.dirty.ratio": ("0.1", "NaN", "1e400"),
}  # fmt: skip
SETTING_STRUCTS = frozenset({"CreatableTopicConfig", "AlterableConfig", "AlterConfigsResource"})
PROTOCOLS = ("range", "roundrobin", "sticky", "uniform", "x")
SUBSCRIPTION = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0"
TEXTS: dict[str, str] = {
    "topic": "topic", "topic_name": "topic", "topic_names": "topic", "subscribed_topic_names": "topic",
    "group_id": "group", "group_ids": "group", "groups": "group", "groups_names": "group",
    "transactional_id": "transactional_id", "transactional_ids": "transactional_id",
    "v3_and_below_transactional_id": "transactional_id", "group_instance_id": "instance", "instance_id": "instance",
    "path": "path",
}  # fmt: skip
"""Fields of requests. For each field: the kind of value that `Known` chooses for this field."""
CHOICES: dict[str, tuple[Any, ...]] = {
    "acks": (-1, -1, -1, 1, 0), "timeout_ms": (0, 100, 5000), "max_wait_ms": (0, 0, 50, 500), "min_bytes": (0, 1, 1, 1000),
    "max_bytes": (1 << 20, 1 << 20, 100), "partition_max_bytes": (1 << 20, 1000, 0), "isolation_level": (0, 1),
    "replica_id": (-1, -1, -1, 1, -2), "session_epoch": (-1, 0, 1, 2), "current_leader_epoch": (-1, -1, 0, 1),
    "last_fetched_epoch": (-1, -1, 0), "timestamp": (-1, -2, -3, -4, -5, 0, 1_800_000_000_000), "key_type": (0, 1),
    "session_timeout_ms": (6000, 10_000, 300_000), "rebalance_timeout_ms": (1000, 10_000, 300_000),
    "transaction_timeout_ms": (1000, 60_000, 900_000), "num_partitions": (1, 2, 3, -1), "replication_factor": (1, -1),
    "count": (2, 3, 4, 8), "config_operation": (0, 1, 2, 3), "resource_type": (2, 2, 4, 8, 32, 16), "coordinator_epoch": (0, 1),
    "transaction_version": (0, 1, 2), "election_type": (0, 1), "endpoint_type": (1, 2), "retention_time_ms": (-1, 1000),
    "response_partition_limit": (1, 2, 2000), "committed_leader_epoch": (-1, 0), "leader_epoch": (0, 1, -1),
    "partition": (0, 0, 1, 2), "partition_index": (0, 0, 1, 2), "index": (0, 0, 1, 2), "partitions": (0, 1, 2),
    "partition_indexes": (0, 1, 2), "broker_ids": (1, 1, 2), "replicas": (1, 1, 2), "protocol_type": ("consumer",),
    "protocol_name": PROTOCOLS, "server_assignor": ("uniform", "range", "x"), "metadata": (SUBSCRIPTION, b"", b"x"),
    "assignment": (SUBSCRIPTION, b"", b"x"), "subscribed_topic_regex": ("o.*", "", "[a-z]+", "x", "(a+)+$"),
    "transactional_id_pattern": ("t.*", "", "x|y"), "committed_metadata": ("", "note"), "resource_types": (2, 4, 8, 16, 32),
    "duration_filter": (-1, 0, 1000), "client_software_name": ("fuzz", "a b"), "client_software_version": ("1.0", "-"),
    "states_filter": ("Stable", "Empty", "x"), "types_filter": ("classic", "consumer"), "state_filters": ("Ongoing", "x"),
    "configuration_keys": tuple(SETTINGS), "rack_id": ("",), "reason": ("bye",), "resource_type_filter": (1, 2, 3),
    "pattern_type_filter": (1, 3), "operation": (1, 2, 3), "permission_type": (1, 2, 3), "host": ("*",),
    "principal": ("User:a",),
    "resource_pattern_type": (3, 4), "cluster_id": ("x",), "replica_epoch": (-1, 0),
}  # fmt: skip
FITTING = 0.8
"""The probability that the fields of a request are made consistent, before some of them are changed."""
LONGEST_REPEAT = 3000
"""The largest number of times that a mutation repeats an element of a list."""
MOST_SLOTS = 100_000
"""The largest number of fields in a request after mutations. (Without a limit, repeated elements that contain repeated elements
would make too many.)
"""
MOST_BYTES = 32 << 20
"""The largest number of bytes and characters in the fields of a request after mutations."""


class Made(NamedTuple):
    """A request, and its encoded body."""

    message: Message
    body: bytes
    producer: Producer | None


class Slot(NamedTuple):
    """A field of a request, or of a struct in the request."""

    owner: Struct
    field: Field


class Author:
    """Makes requests. Its choices depend only on the seed and on the values that responses had."""

    def __init__(self, random: Random, known: Known, now: Callable[[], int]) -> None:
        self.random = random
        self.known = known
        self._now = now
        self._member: Member | None = None
        self._producer: Producer | None = None

    def request(self, key: int, version: int, *, mutations: int) -> Made:
        """Returns a request of this API and version. `mutations` of its fields are changed."""
        for _ in range(10):
            self._member, self._producer = self._somebody(api_name(key))
            message = self._fill(request_class(key), version)
            if self.random.random() < FITTING:
                fit_together(self.random, message, self._member)
            for _ in range(mutations):
                self._mutate(message, version)
            try:
                return Made(message, spoil_utf8(self.random, encode(message, version)), self._producer)
            except EncodeError:
                continue  # the version cannot encode one of the values
        return Made(request_class(key)(), encode(request_class(key)(), version), None)

    # Well-formed

    def _somebody(self, api: str) -> tuple[Member | None, Producer | None]:
        """Chooses a member and a producer that may send this request; None if there is none. In half of the
        cases, chooses the latest member and producer."""
        members = [each for each in self.known.members if each.classic != api.startswith("ConsumerGroup")]
        producers = [each for each in self.known.producers if each.transactional_id is not None or "Txn" not in api]
        latest = self.random.random() < 0.5
        return (
            self.random.choice([*(members[-1:] if latest else members), None]),
            self.random.choice([*(producers[-1:] if latest else producers * 2), None]),
        )

    def _fill(self, cls: type[Struct], version: int) -> Any:
        present = [each for each in cls.__wire__ if each.present(version)]
        made = cls(**{each.name: self._value(cls, each, version) for each in present})
        if cls.__name__ == "TopicProduceData":
            self._number(made)
        elif self.random.random() < FITTING:
            self._settle_settings(made)
        return made

    def _settle_settings(self, made: Any) -> None:
        """Give each setting a value that fits it, and each resource a name of its type."""
        if hasattr(made, "resource_type") and hasattr(made, "resource_name"):
            names = {
                2: self.known.pick("topic", "orders"),
                4: self.random.choice(("1", "")),
                32: "group-0",
                8: "1",
                16: "m",
            }
            made.resource_name = names.get(made.resource_type, "")
        if hasattr(made, "name") and hasattr(made, "value") and made.name in SETTINGS:
            made.value = self.random.choice(SETTINGS[made.name])

    def _value(self, cls: type[Struct], field: Field, version: int) -> Any:
        chance = self.random.random()
        if field.nullable(version) and chance < 0.15 and field.spec != "records":
            return None
        if field.tag is not None and chance < 0.6:
            return field.default() if callable(field.default) else field.default
        if isinstance(field.spec, list):
            count = self.random.choice((0, 1, 1, 1, 1, 2, 3))
            return [self._one(cls, field.name, field.spec[0], version) for _ in range(count)]
        return self._one(cls, field.name, field.spec, version)

    def _one(self, cls: type[Struct], name: str, spec: Any, version: int) -> Any:
        """Returns a value for a field, mostly a value that the broker knows."""
        if isinstance(spec, type):
            return self._fill(spec, version)
        if spec == "bool":
            return self.random.random() < 0.3
        if spec == "records":
            return self._records(cls)
        special = self._who(name)
        if special is None:
            special = self._named(cls, name)
        if special is not None:
            return special
        if name in CHOICES:
            return self.random.choice(CHOICES[name])
        return {"string": "fuzz", "bytes": b"", "uuid": self.known.pick("topic_id", bytes(16)), "float64": 0.0}.get(spec, 0)

    def _who(self, name: str) -> Any:
        """Returns the value that the sending member or producer has for this field, so that the request's fields match."""
        member, producer = self._member, self._producer
        if member is not None and self.random.random() < 0.9:
            if name in ("group_id", "groups", "group_ids"):
                return member.group
            if name == "member_id":
                return member.member_id
            if name in ("generation_id", "member_epoch", "generation_id_or_member_epoch"):
                return member.generation
        if name.startswith("v3_and_below_"):
            name = name.removeprefix("v3_and_below_")
        if producer is not None and self.random.random() < 0.9:
            if name in ("producer_id", "producer_id_filters"):
                return producer.producer_id
            if name == "producer_epoch":
                return producer.epoch
            if name == "transactional_id" and producer.transactional_id is not None:
                return producer.transactional_id
        return {"producer_id": -1, "producer_epoch": -1, "generation_id": -1, "generation_id_or_member_epoch": -1}.get(name)

    def _named(self, cls: type[Struct], name: str) -> Any:
        known, structure = self.known, cls.__name__
        if structure in SETTING_STRUCTS and name in ("name", "value"):
            setting = self.random.choice(list(SETTINGS))
            return setting if name == "name" else self.random.choice(SETTINGS[setting])
        if structure == "CreatableTopic" and name == "name":
            return self.random.choice(("orders", f"topic-{self.random.randrange(6)}"))
        if structure == "JoinGroupRequestProtocol" and name == "name":
            return self.random.choice(PROTOCOLS)
        if name == "name":
            return known.pick("topic", "orders")
        if name in ("key", "coordinator_keys"):
            return known.pick(self.random.choice(("group", "transactional_id")), "x")
        if name == "resource_name":
            return self.random.choice((known.pick("topic", "orders"), "1", "", known.pick("group", "x")))
        if name in TEXTS:
            return known.pick(TEXTS[name], f"{TEXTS[name]}-0")
        if name == "member_id":
            return self.random.choice(("", known.pick("member_id", "")))
        if name in ("fetch_offset", "offset", "committed_offset", "log_start_offset"):
            return self.random.choice((0, known.pick("offset", 0), known.pick("offset", 0) + 1))
        if name == "session_id":
            return self.random.choice((0, known.pick("session", 0)))
        return None

    def _records(self, cls: type[Struct]) -> bytes | None:
        producer = self._producer
        if cls.__name__ != "PartitionProduceData":
            return b""
        if producer is None or self.random.random() < 0.3:
            return good_batch(self.random, self._now())
        return good_batch(
            self.random, self._now(), producer_id=producer.producer_id, epoch=producer.epoch, sequence=0,
            transactional=producer.transactional_id is not None,
        )  # fmt: skip

    def _number(self, topic: Any) -> None:
        """In nine of ten cases, gives each batch in the request the producer's next sequences."""
        producer = self._producer
        for partition in topic.partition_data:
            if producer is not None and partition.records and self.random.random() < 0.9:
                first = producer.sequences.get((topic.name or topic.topic_id, partition.index), 0)
                partition.records = with_sequence(partition.records, first)

    # Changed

    def _mutate(self, message: Message, version: int) -> None:
        slots = list(slots_of(message, version))
        if not slots:
            return
        slot = self.random.choice(slots)
        before = getattr(slot.owner, slot.field.name)
        value = self._other(slot.field.spec, before, slot.field.nullable(version))
        setattr(slot.owner, slot.field.name, value)
        if not is_small(message, version):
            setattr(slot.owner, slot.field.name, before)

    def _other(self, spec: Any, value: Any, nullable: bool) -> Any:
        random = self.random
        if nullable and random.random() < 0.15:
            return None
        if isinstance(spec, list):
            return self._other_array(spec, value or [])
        if isinstance(spec, type):
            return value
        if spec in BITS:
            return fit(random.choice((*NUMBERS, value + 1, value - 1, -value, random.getrandbits(64))), BITS[spec])
        if spec == "string":
            kind = random.choice(("topic", "group", "member_id", "transactional_id", "instance"))
            return random.choice((*WORDS, (value or "") + "x", (value or "")[:-1], known_or_none(self.known, kind)))
        if spec == "uuid":
            return random.choice((bytes(16), b"\xff" * 16, random.randbytes(16), self.known.pick("topic_id", bytes(16))))
        if spec == "records":
            return damaged_batch(random, value) if value else random.choice((b"", None, random.randbytes(70)))
        if spec == "bytes":
            return random.choice(
                (b"", b"\xff" * 40, random.randbytes(20), (value or b"")[:-1], (value or b"") * 500, SUBSCRIPTION)
            )
        return not value if spec == "bool" else value

    def _other_array(self, spec: list[Any], value: list[Any]) -> list[Any]:
        random, length = self.random, len(value)
        way = random.randrange(6)
        if way == 0 or not value:
            return [self._other(spec[0], 0, False)] * 2 if spec[0] in BITS and random.random() < 0.5 else []
        if way == 1:
            return [*value, random.choice(value)]
        if way == 2:
            return value * min(random.choice((2, 10, 100, LONGEST_REPEAT)), max(LONGEST_REPEAT // length, 1))
        if way == 3:
            return value[::-1] + value
        if way == 4 and not isinstance(spec[0], type):
            return [self._other(spec[0], each, False) for each in value]
        return value[: random.randrange(length + 1)]


def fit_together(random: Random, message: Any, member: Member | None) -> None:
    """Sets consistent values in the request of a group's member, so that the group becomes stable."""
    kind = type(message).__name__
    if hasattr(message, "group_instance_id") and random.random() < 0.8:
        message.group_instance_id = None
    if kind == "JoinGroupRequest":
        message.session_timeout_ms, message.rebalance_timeout_ms = 30_000, 10_000
        message.protocol_type = "consumer"
        message.protocols = [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)]
    elif kind == "SyncGroupRequest":
        message.protocol_type, message.protocol_name = "consumer", "range"
        if member is not None:
            message.assignments = [SyncGroupRequestAssignment(member_id=member.member_id, assignment=SUBSCRIPTION)]
    elif kind == "ConsumerGroupHeartbeatRequest":
        message.instance_id = message.subscribed_topic_regex = message.server_assignor = None
        message.rebalance_timeout_ms = 10_000
        message.subscribed_topic_names = message.subscribed_topic_names or ["orders"]
        if member is None:
            message.member_id, message.member_epoch = f"member-{random.randrange(4)}", 0
        if message.member_epoch == 0:
            message.topic_partitions = []
    elif kind == "LeaveGroupRequest":
        for each in message.members:
            each.group_instance_id = None


def known_or_none(known: Known, kind: str) -> str:
    """Returns a known value of this kind, or the word none."""
    return str(known.pick(kind, "none"))


def with_sequence(batch: Any, first: int) -> bytes:
    """Returns the batch with another first sequence and a valid CRC."""
    header = read_header(batch)
    if header.producer_id < 0:
        return bytes(batch)
    return seal(header._replace(base_sequence=fit(first, 32)), bytes(batch)[HEADER_SIZE:])


def slots_of(part: Struct, version: int) -> Iterator[Slot]:
    """Yields every field that a request of this version has, including the fields of its structs."""
    for each in part.__wire__:
        if not each.present(version):
            continue
        yield Slot(part, each)
        value = getattr(part, each.name)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Struct):
                yield from slots_of(inner, version)


def is_small(message: Message, version: int) -> bool:
    """Tells whether the request has at most `MOST_SLOTS` fields and `MOST_BYTES` bytes."""
    size = 0
    for number, slot in enumerate(slots_of(message, version)):
        value = getattr(slot.owner, slot.field.name)
        size += len(value) if isinstance(value, (str, bytes, memoryview)) else 0
        if number >= MOST_SLOTS or size > MOST_BYTES:
            return False
    return True


def spoil_utf8(random: Random, body: bytes) -> bytes:
    """Replace `INVALID` by bytes that are not UTF-8."""
    marker = INVALID.encode()
    if marker not in body:
        return body
    return body.replace(
        marker, random.choice((b"\xff\xff\xff\xff", b"\xc3\x28\xa0\xa1", b"\xed\xa0\x80x", b"\xf0\x28\x8c\xbc"))
    )
