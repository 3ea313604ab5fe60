"""For every API and version that kafka-python has, the codec writes the same bytes and reads the same values."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from typing import Any
from uuid import UUID

import pytest

from kafkawire import codec
from kafkawire.declare import Field, Message, Struct
from kafkawire.messages.api_versions import ApiVersionsResponse
from wire.random_messages import MESSAGES, Maker, versions_of

MESSAGES_PER_VERSION = 6
UNKNOWN = {
    "ConsumerGroupDescribe": "KIP-848 groups: no consumer of the new protocol",
    "ConsumerGroupHeartbeat": "KIP-848 groups",
    "ShareGroupHeartbeat": "KIP-932 share groups: no share consumer",
    "ShareGroupDescribe": "KIP-932 share groups",
    "ShareFetch": "KIP-932 share groups",
    "ShareAcknowledge": "KIP-932 share groups",
    "InitializeShareGroupState": "KIP-932 share groups, between brokers",
    "ReadShareGroupState": "KIP-932 share groups, between brokers",
    "ReadShareGroupStateSummary": "KIP-932 share groups, between brokers",
    "WriteShareGroupState": "KIP-932 share groups, between brokers",
    "DeleteShareGroupState": "KIP-932 share groups, between brokers",
    "DescribeShareGroupOffsets": "KIP-932 share groups",
    "AlterShareGroupOffsets": "KIP-932 share groups",
    "DeleteShareGroupOffsets": "KIP-932 share groups",
    "StreamsGroupHeartbeat": "KIP-1071 streams groups: Kafka Streams is a Java library",
    "StreamsGroupDescribe": "KIP-1071 streams groups",
    "GetTelemetrySubscriptions": "KIP-714 client telemetry: none is sent",
    "PushTelemetry": "KIP-714 client telemetry",
    "CreateDelegationToken": "delegation tokens: not in its admin client",
    "RenewDelegationToken": "delegation tokens",
    "ExpireDelegationToken": "delegation tokens",
    "DescribeDelegationToken": "delegation tokens",
    "AddRaftVoter": "KRaft operations: not in its admin client",
    "RemoveRaftVoter": "KRaft operations",
    "UnregisterBroker": "KRaft operations",
    "UnregisterController": "KRaft operations",
    "StreamsGroupTopologyDescriptionUpdate": "KIP-1331 streams groups",
    "LeaderAndIsr": "between brokers, of Kafka before 4.0",
    "StopReplica": "between brokers, of Kafka before 4.0",
    "UpdateMetadata": "between brokers, of Kafka before 4.0",
    "ControlledShutdown": "between brokers, of Kafka before 4.0",
    "Vote": "between controllers",
    "BeginQuorumEpoch": "between controllers",
    "EndQuorumEpoch": "between controllers",
    "FetchSnapshot": "between controllers",
    "UpdateRaftVoter": "between controllers",
    "ControllerRegistration": "between controllers",
    "BrokerRegistration": "between brokers and controllers",
    "BrokerHeartbeat": "between brokers and controllers",
    "AssignReplicasToDirs": "between brokers and controllers",
    "AlterPartition": "between brokers",
    "Envelope": "between brokers",
    "AllocateProducerIds": "between brokers",
}
"""The APIs that are missing in kafka-python 3.0.12."""
NEWER_THAN_IT = {"ApiVersions": 5, "TxnOffsetCommit": 6, "DeleteGroups": 3}
"""For each API, the first version that is missing in kafka-python 3.0.12."""


def load() -> dict[str, Any]:
    """Returns every message class of kafka-python by its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        package = importlib.import_module("kafka.protocol")
        for module in pkgutil.walk_packages(package.__path__, "kafka.protocol."):
            if ".old" not in module.name and not module.name.endswith("generate_stubs"):
                importlib.import_module(module.name)
    base: Any = importlib.import_module("kafka.protocol.api_message").ApiMessage
    return {cls.__name__: cls for cls in base.__subclasses__()}


THEIRS = load()
KNOWN = [cls for cls in MESSAGES if cls.__name__ in THEIRS]


def test_the_apis_that_kafka_python_lacks_are_listed() -> None:
    missing = {cls.__name__.removesuffix("Request").removesuffix("Response") for cls in MESSAGES if cls not in KNOWN}
    assert missing == UNKNOWN.keys()


@pytest.mark.parametrize("cls", KNOWN, ids=lambda cls: cls.__name__)
def test_messages_equal_those_of_kafka_python_byte_for_byte(cls: type[Message]) -> None:
    theirs_class = THEIRS[cls.__name__]
    newer = NEWER_THAN_IT.get(cls.__name__.removesuffix("Request").removesuffix("Response"))
    known = [version for version in versions_of(cls) if version != newer]
    assert theirs_class.max_version == known[-1]
    for version in known:
        maker = Maker((cls.__name__, version))
        for _ in range(MESSAGES_PER_VERSION):
            ours = maker.message(cls, version)
            if isinstance(ours, ApiVersionsResponse):
                ours.error_code = 0  # kafka-python reads a response with an error as version 0
            theirs = twin(ours, theirs_class._struct, theirs_class, version)
            raw = bytes(theirs.encode(version=version))
            assert (version, codec.encode(ours, version)) == (version, raw)
            assert (version, *codec.decode(cls, raw, version)) == (version, ours, len(raw))
            read = theirs_class.decode(raw, version=version)
            assert (version, plain(read, theirs_class._struct, cls, version)) == (version, ours)


def pairs(cls: type[Struct], struct: Any, version: int) -> list[tuple[Field, Any]]:
    """Pairs our fields of a message in a version with kafka-python's fields. Both lists of fields are in the order of Kafka's
    definition.
    """
    mine = [field for field in cls.__wire__ if field.present(version)]
    others = [field for field in struct.fields.values() if field.for_version_q(version)]
    for field, other in zip(mine, others, strict=True):
        assert field.name.replace("_", "").endswith(other.name.replace("_", "")), (field.name, other.name)
    return list(zip(mine, others, strict=True))


def twin(ours: Any, struct: Any, made: Any, version: int) -> Any:
    """Converts one of our messages to an object of kafka-python."""
    values = {}
    for field, other in pairs(type(ours), struct, version):
        value = getattr(ours, field.name)
        if field.tag is not None and value == (field.default() if callable(field.default) else field.default):
            continue  # kafka-python would write a tagged struct that has only defaults, but Kafka would not
        if other.is_struct_array():
            value = None if value is None else [twin(item, other, other.data_class, version) for item in value]
        elif other.is_struct():
            value = None if value is None else twin(value, other, other.data_class, version)
        else:
            value = theirs_form(value, other)
        values[other.name] = value
    return made(version=version, **values)


def theirs_form(value: Any, other: Any) -> Any:
    if isinstance(value, list):
        return [theirs_form(item, other.array_of) for item in value]
    if other.type_str == "uuid":
        return UUID(bytes=value)
    if other.type_str == "bitfield":
        return {bit for bit in range(32) if value >> bit & 1}
    return value


def plain(theirs: Any, struct: Any, cls: type[Struct], version: int) -> Any:
    """Converts a message of kafka-python to one of our messages."""
    values = {}
    for field, other in pairs(cls, struct, version):
        value, spec = getattr(theirs, other.name), field.spec
        if field.tag is not None and other.is_struct() and value is None:
            continue  # the message does not have this tagged struct
        if other.is_struct_array():
            value = None if value is None else [plain(item, other, spec[0], version) for item in value]
        elif other.is_struct():
            value = None if value is None else plain(value, other, spec, version)
        else:
            value = our_form(value, other)
        values[field.name] = value
    return cls(**values)


def our_form(value: Any, other: Any) -> Any:
    if isinstance(value, list):
        return [our_form(item, other.array_of) for item in value]
    if other.type_str == "uuid":
        return bytes(16) if value is None else value.bytes
    if other.type_str == "bitfield":
        bits = {31} if value is None else value
        return sum(-(1 << bit) if bit == 31 else 1 << bit for bit in bits)
    return value
