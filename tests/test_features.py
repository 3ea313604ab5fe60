"""Feature levels: how they are set at the start, how they are stored and changed, which changes are refused, and what effects
they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from inprocess import InProcess
from kafkawire.errors import ErrorCode
from requesting import plain
from wirebroker import MockKafka
from wirebroker.core.elections import NO_LEADER, Assignment, Circumstances, Registration, elect
from wirebroker.core.releases import DEFAULT, release
from wirebroker.testing.options import BrokerOptions, OptionError
from wirebroker.trace.layout import line
from wirekit import client

UPGRADE, DOWNGRADE = 1, 2
ELIGIBLE, METADATA = "eligible.leader.replicas.version", "metadata.version"
NEWEST = release(DEFAULT).features[METADATA].level


Broker = MockKafka | InProcess


def ask(kafka: Broker, api: str, version: int, node: int = 0, **fields: Any) -> Any:
    return client(kafka, node).request(plain(api, **fields), version)


def update(kafka: Broker, kind: int = DOWNGRADE, **levels: int) -> int:
    """Update features. In `levels`, the names of the features have no `.version` at the end. Returns the error code."""
    updates = [
        {"feature": f"{name}.version", "max_version_level": level, "upgrade_type": kind} for name, level in levels.items()
    ]
    code: int = ask(kafka, "UpdateFeatures", 2, feature_updates=updates).error_code
    return code


def levels(kafka: Broker) -> Mapping[str, int]:
    response = ask(kafka, "ApiVersions", 4, client_software_name="a", client_software_version="1")
    return {each.name: each.max_version_level for each in response.finalized_features}


def least_in_sync(kafka: Broker) -> list[str]:
    """Returns the value of min.insync.replicas that applies to all brokers, if it is set."""
    resource = {"resource_type": 4, "resource_name": "", "configuration_keys": ["min.insync.replicas"]}
    return [each.value for each in ask(kafka, "DescribeConfigs", 4, resources=[resource]).results[0].configs]


# Levels at the start, and levels that are stored


def test_levels_at_the_start() -> None:
    kafka = InProcess(features={"transaction.version": 1, "share.version": 0, ELIGIBLE: 0})
    assert levels(kafka) == {METADATA: NEWEST, "transaction.version": 1, "group.version": 1, "streams.version": 1}
    assert least_in_sync(kafka) == []
    heartbeat = {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["t"]}
    assert ask(kafka, "ShareGroupHeartbeat", 1, **heartbeat).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_data_directory_keeps_the_levels(tmp_path: Path) -> None:
    with MockKafka(data=tmp_path, features={"streams.version": 0}) as kafka:
        assert update(kafka, transaction=0, group=0) == 0
        assert update(kafka, **{"eligible.leader.replicas": 0}) == 0
        change = {"name": "min.insync.replicas", "config_operation": 1, "value": None}
        resource = {"resource_type": 4, "resource_name": "", "configs": [change]}
        assert ask(kafka, "IncrementalAlterConfigs", 1, resources=[resource]).responses[0].error_code == 0
    with MockKafka(data=tmp_path, features={"transaction.version": 1}) as kafka:
        share = release(DEFAULT).features["share.version"].level
        assert levels(kafka) == {METADATA: NEWEST, "share.version": share}, "the option applies only to a new cluster"
        assert least_in_sync(kafka) == []
        assert update(kafka, UPGRADE, **{"eligible.leader.replicas": 1}) == 0
        assert least_in_sync(kafka) == ["1"]


def test_a_directory_from_before_the_levels_were_kept_has_those_of_a_new_cluster(tmp_path: Path) -> None:
    with MockKafka(data=tmp_path, topics="orders") as kafka:
        expected = levels(kafka)
        assert expected["transaction.version"] == 2
    with MockKafka(data=tmp_path) as kafka:
        assert levels(kafka) == expected


@pytest.mark.parametrize(
    ("features", "problem"),
    [
        ({"transactions.version": 1}, "there is no feature named 'transactions.version'"),
        ({"transaction.version": 3}, "transaction.version has the levels 0 to 2 here, not 3"),
        ({"metadata.version": 29}, f"metadata.version has the levels {NEWEST} to {NEWEST} here, not 29"),
        ({"group.version": True}, "group.version has the levels 0 to 1 here, not True"),
    ],
)
def test_a_level_that_does_not_exist(features: dict[str, int], problem: str) -> None:
    with pytest.raises(OptionError, match=f"features: {problem}"):
        BrokerOptions(features=features)


# Changes


def test_an_unknown_feature_is_refused_by_a_broker_that_is_not_registered() -> None:
    kafka = InProcess()
    ask(kafka, "UnregisterBroker", 0, broker_id=1)
    assert update(kafka, UPGRADE, pace=1) == ErrorCode.INVALID_UPDATE_VERSION


def test_a_change_is_in_the_trace() -> None:
    kafka = InProcess(trace="changes")
    assert update(kafka, transaction=1, group=1) == 0
    (row,) = kafka.engine.trace.events("feature")
    assert "transaction.version" in line(row)
    assert "from level 2 to 1" in line(row)


def test_who_may_not_alter_the_cluster_may_not_update_features() -> None:
    kafka = InProcess(acls=["allow User:alice READ TOPIC orders"])
    assert update(kafka, transaction=1) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_feature_at_level_0_is_refused_before_anybody_asks_who_may() -> None:
    kafka = InProcess(acls=["allow User:alice READ TOPIC orders"], features={"group.version": 0})
    described = ask(kafka, "ConsumerGroupDescribe", 1, group_ids=["g"]).groups[0]
    assert described.error_code == ErrorCode.UNSUPPORTED_VERSION


# Elections without eligible leader replicas


def without(alive: set[int]) -> Circumstances:
    return Circumstances(alive.__contains__, 2, unclean=False, keeps_eligible=False)


def test_the_last_replica_stays_in_sync() -> None:
    of = Assignment((1, 2, 3))
    down = elect(Registration(of, 1, 4, (1,), (2,)), without({2, 3}), [])
    assert down == Registration(of, NO_LEADER, 5, (1,))
    assert elect(down, without({2, 3}), [1]) == down, "replica 2 is no longer eligible"
    assert elect(down, without({1, 2, 3}), [1]) == Registration(of, 1, 6, (1,))


def test_a_partition_whose_replicas_all_died_waits_for_the_last_one() -> None:
    kafka = InProcess(brokers=3, features={ELIGIBLE: 0})
    kafka.create_topic("orders", partitions=1, replication_factor=3)
    for node in (1, 2):
        kafka.kill_broker(node)
    topics = [{"name": "orders"}]
    (partition,) = ask(kafka, "DescribeTopicPartitions", 0, node=2, topics=topics, cursor=None).topics[0].partitions
    assert (partition.leader_id, partition.isr_nodes) == (3, [3])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])
