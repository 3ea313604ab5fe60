"""The text of a new id never begins with a hyphen, because Kafka's commands would take such an id for an option
(Uuid.randomUuid).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from inprocess import InProcess
from kafkawire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkawire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafkawire.primitives import format_uuid
from requesting import create_topic, create_topics, find_coordinator, new_topic
from responses import sole
from wirebroker.core.acls import Acl
from wirebroker.storage.store import FolderStore

HYPHEN = bytes([0xFB]) + bytes(15)


class Hyphens:
    """A source of bytes. If three ids were made directly from these bytes, two of them would begin with a hyphen."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> bytes:
        self.count += 1
        return (HYPHEN if self.count % 3 else self.count.to_bytes(16, "little"))[:size]


def topic(kafka: InProcess) -> str:
    return format_uuid(sole(kafka.link().request(create_topic("orders"), 7).topics).topic_id)


def validated_topic(kafka: InProcess) -> str:
    return format_uuid(sole(kafka.link().request(create_topics(new_topic("orders"), validate_only=True), 7).topics).topic_id)


def client_instance(kafka: InProcess) -> str:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16))
    return format_uuid(kafka.link().request(request, 0).client_instance_id)


def member(kafka: InProcess) -> str:
    request = ConsumerGroupHeartbeatRequest(
        group_id="group", member_id="", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=["orders"],
        topic_partitions=[],
    )  # fmt: skip
    link = kafka.link()
    link.request(find_coordinator("group"), 4)
    return str(link.request(request, 0).member_id)


def acl(kafka: InProcess) -> str:
    cluster = kafka.engine.cluster
    cluster.alter_acls([Acl(2, "orders", 3, "User:alice", "*", 3, 3)], [])
    return format_uuid(sole(list(cluster.acls.ids.values())))


MAKERS: list[Callable[[InProcess], str]] = [topic, validated_topic, client_instance, member, acl]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_no_id_begins_with_a_hyphen(make: Callable[[InProcess], str]) -> None:
    kafka = InProcess(telemetry=True)
    kafka.engine.cluster.random_bytes = Hyphens()
    made = make(kafka)
    assert len(made) == 22
    assert not made.startswith("-")


def test_no_id_of_a_directory_or_a_cluster_begins_with_a_hyphen(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, Hyphens())
    made = [store.cluster_id, *map(format_uuid, store.directory_ids.values())]
    store.abandon()
    assert [each[0] for each in made if each.startswith("-")] == []
