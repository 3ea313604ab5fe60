"""The metadata log has the records that Kafka's controller writes for the same deeds, in the same batches and order.

`kafka-dump-log --cluster-metadata-decoder` of Kafka 4.4.0 showed the expected records for 4.4. No-op records are left out.
There is one difference: after a restart, Kafka writes the new leaders together with the record that unfences the broker.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kafkawire.batches import iter_batches, iter_records, read_header
from kafkawire.codec import decode
from kafkawire.declare import Message
from kafkawire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from kafkawire.messages.leader_change_message import LeaderChangeMessage
from kafkawire.metadata_records import __path__ as records
from requesting import create_topic
from responses import sole
from wirebroker.mock import MockKafka
from wirekit import client

CLASSES: dict[int, type[Message]] = {}
for path in sorted(Path(records[0]).glob("*_record.py")):
    name = "".join(word.capitalize() for word in path.stem.split("_"))
    found = getattr(import_module(f"kafkawire.metadata_records.{path.stem}"), name)
    CLASSES[found.__schema__.key] = found
FIELDS = {
    "fenced": 0, "in_controlled_shutdown": 0, "cordoned_log_dirs": None,
    "isr": None, "leader": -2, "eligible_leader_replicas": None, "last_known_elr": None,
}  # fmt: skip
"""Fields of change records. For each field: the value that means "unchanged". A field with this value is not shown."""
REGISTERED = ["RegisterController 0", "RegisterBroker 4", "BrokerRegistrationChange 3 cordoned_log_dirs=[]"]
UP, LEAVING, DOWN = (f"BrokerRegistrationChange {what}" for what in ("0 fenced=-1", "1 in_controlled_shutdown=1", "0 fenced=1"))
LED = "PartitionChange 2 isr=[1] leader=1 eligible_leader_replicas=[] last_known_elr=[]"
UNLED = "PartitionChange 2 isr=[] leader=-1 eligible_leader_replicas=[1] last_known_elr=[1]"
LEVELS = [
    "metadata.version=33", "eligible.leader.replicas.version=1", "group.version=1", "share.version=2", "streams.version=1",
    "transaction.version=2",
]  # fmt: skip
IN_4_4 = [
    "LeaderChange 1",
    "; ".join([
        "BeginTransaction 0", *(f"FeatureLevel 0 {each}" for each in LEVELS), "Config 0 min.insync.replicas=1",
        "EndTransaction 0",
    ]),
    *REGISTERED, UP,
    "Topic 0 orders; Config 0 cleanup.policy=compact; Config 0 retention.ms=5; Config 0 segment.bytes=1048576; Partition 2",
    "Config 0 cleanup.policy=compact,delete; Config 0 flush.ms=7; Config 0 retention.ms=1000; Config 0 segment.ms=5000",
    f"{LEAVING}; {UNLED}", DOWN,
    "LeaderChange 2", LED, *REGISTERED, UP,
    f"{LEAVING}; {UNLED}", DOWN,
]  # fmt: skip
IN_3_6 = [
    "LeaderChange 1", "BeginTransaction 0; FeatureLevel 0 metadata.version=14; EndTransaction 0", "RegisterBroker 2", UP,
    "Topic 0 orders; Config 0 cleanup.policy=compact; Config 0 retention.ms=5; Config 0 segment.bytes=1048576; Partition 1",
    "Config 0 cleanup.policy=compact,delete; Config 0 flush.ms=7; Config 0 retention.ms=1000; Config 0 segment.ms=5000",
    f"{LEAVING}; PartitionChange 1 leader=-1", DOWN,
    "LeaderChange 2", "PartitionChange 1 leader=1", "RegisterBroker 2", UP,
    f"{LEAVING}; PartitionChange 1 leader=-1", DOWN,
]  # fmt: skip
SETTINGS = {"segment.ms": "5000", "retention.ms": "1000", "cleanup.policy": "compact,delete", "flush.ms": "7"}


def shown(record: Any, version: int) -> str:
    text = f"{type(record).__name__.removesuffix('Record')} {version}"
    if text.startswith("FeatureLevel"):
        return f"{text} {record.name}={record.feature_level}"
    if text.startswith("Config"):
        return f"{text} {record.name}={record.value}"
    if text.startswith("Topic"):
        return f"{text} {record.name}"
    changed = {name: getattr(record, name, same) for name, same in FIELDS.items() if "Change" in text}
    return " ".join([text, *(f"{name}={value}" for name, value in changed.items() if value != FIELDS[name])])


def batches(folder: Path) -> list[str]:
    """Returns the records of the metadata log. Each text has the records of one batch."""
    found = []
    (path,) = (folder / "__cluster_metadata-0").glob("*.log")
    for batch in iter_batches(path.read_bytes()):
        parts = []
        for each in iter_records(batch):
            value = bytes(each.value or b"")
            if read_header(batch).is_control:
                message, _ = decode(LeaderChangeMessage, value, 0)
                assert (each.key, [voter.voter_id for voter in message.voters], message.leader_id) == (b"\0\0\0\2", [1], 1)
                parts.append(f"LeaderChange {read_header(batch).partition_leader_epoch}")
            else:
                record, end = decode(CLASSES[value[1]], value, value[2], 3)
                assert end == len(value)
                parts.append(shown(record, value[2]))
        found.append("; ".join(parts))
    return found


@pytest.mark.parametrize(("profile", "expected"), [("kafka-4.4", IN_4_4), ("kafka-3.6", IN_3_6)])
def test_starts_deeds_and_stops_are_written_as_kafka_writes_them(profile: str, expected: list[str], tmp_path: Path) -> None:
    with MockKafka(profile=profile, data=tmp_path) as kafka:
        wire = client(kafka)
        own = {"retention.ms": "5", "cleanup.policy": "compact", "segment.bytes": "1048576"}
        assert sole(wire.request(create_topic("orders", configs=own), 7).topics).error_code == 0
        changes = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in SETTINGS.items()]
        resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        assert sole(wire.request(request, 1).responses).error_code == 0
    with MockKafka(profile=profile, data=tmp_path):
        pass
    assert batches(tmp_path) == expected
