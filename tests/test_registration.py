"""Brokers are unregistered. Requests that add or remove voters are refused. A real Kafka 4.3.1 gave the expected responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire.batches import Record, build_batch
from requesting import plain
from responses import sole
from wirebroker import MockKafka
from wirekit import client

VOTER: dict[str, Any] = {"cluster_id": None, "voter_id": 5, "voter_directory_id": bytes(15) + b"\7"}
ADDED: dict[str, Any] = VOTER | {"timeout_ms": 1000, "listeners": [{"name": "controller", "host": "h", "port": 9}]}
FENCED = "All brokers are currently fenced, or have all their log directories cordoned."
ELSEWHERE = [{"name": "X", "host": "h", "port": 9}]
STATIC = "Cluster doesn't support {}ing voter because the kraft.version feature is 0"
NO_VOTER = "{} voter request didn't include a valid voter"
NO_ENDPOINT = "Add voter request didn't include the endpoint (Endpoints(endpoints={%s})) for the default listener"


def ask(kafka: MockKafka, api: str, fields: dict[str, Any]) -> tuple[int, str]:
    response = client(kafka).request(plain(api, **fields), 0)
    return response.error_code, response.error_message


@pytest.mark.parametrize(("api", "fields"), [("AddRaftVoter", ADDED), ("RemoveRaftVoter", VOTER)])
def test_the_quorum_is_static(mock_kafka: MockKafka, api: str, fields: dict[str, Any]) -> None:
    verb = "add" if api == "AddRaftVoter" else "remov"
    own = mock_kafka._call(lambda engine: engine.cluster.cluster_id)
    assert ask(mock_kafka, api, fields) == (35, STATIC.format(verb))
    assert ask(mock_kafka, api, fields | {"cluster_id": own}) == (35, STATIC.format(verb))
    wrong = (104, f'The given id "x" doesn\'t match the cluster id "{own}"')
    assert ask(mock_kafka, api, fields | {"cluster_id": "x", "voter_id": -1}) == wrong
    invalid = (42, NO_VOTER.format("Add" if verb == "add" else "Remove"))
    assert ask(mock_kafka, api, fields | {"voter_id": -1}) == invalid
    assert ask(mock_kafka, api, fields | {"voter_directory_id": bytes(16)}) == invalid


@pytest.mark.parametrize(("listeners", "shown"), [([], ""), (ELSEWHERE, "ListenerName(X)=h/<unresolved>:9")])
def test_a_voter_needs_the_address_of_its_controller(mock_kafka: MockKafka, listeners: list[Any], shown: str) -> None:
    text = f"{NO_ENDPOINT % shown} ListenerName(CONTROLLER)"
    assert ask(mock_kafka, "AddRaftVoter", ADDED | {"listeners": listeners}) == (42, text)


def test_a_broker_is_unregistered_until_it_starts() -> None:
    with MockKafka(brokers=2) as kafka:
        assert ask(kafka, "UnregisterBroker", {"broker_id": 9}) == (102, "Broker ID 9 is not currently registered")
        kafka.kill_broker(2)
        assert ask(kafka, "UnregisterBroker", {"broker_id": 2}) == (0, "")
        assert ask(kafka, "UnregisterBroker", {"broker_id": 2}) == (102, "Broker ID 2 is not currently registered")
        kafka.start_broker(2)
        assert ask(kafka, "UnregisterBroker", {"broker_id": 2}) == (0, "")


def test_a_killed_broker_that_is_unregistered_starts_as_a_new_broker() -> None:
    with MockKafka(brokers=3) as kafka:
        kafka.kill_broker(3, unregister=True)
        assert ask(kafka, "UnregisterBroker", {"broker_id": 3}) == (102, "Broker ID 3 is not currently registered")
        with pytest.raises(ValueError, match="2 brokers cannot hold 3 replicas of 'a'"):
            kafka.create_topic("a", partitions=1, replication_factor=3)
        kafka.create_topic("a", partitions=1, replication_factor=2)
        kafka.start_broker(3)
        kafka.create_topic("b", partitions=1, replication_factor=3)
        nodes, _, partitions = metadata(kafka, 3)
    assert nodes == [1, 2, 3]
    assert [(topic, sorted(isr)) for topic, _, _, _, isr, _ in partitions] == [("a", [1, 2]), ("b", [1, 2, 3])]


def told(kafka: MockKafka, node: int, api: str, version: int, **fields: Any) -> Any:
    return client(kafka, node - 1).request(plain(api, **fields), version)


def metadata(kafka: MockKafka, node: int) -> tuple[Any, ...]:
    response = told(kafka, node, "Metadata", 12, topics=[{"name": "a"}, {"name": "b"}], allow_auto_topic_creation=False)
    partitions = [
        (topic.name, each.error_code, each.leader_id, each.leader_epoch, each.isr_nodes, each.offline_replicas)
        for topic in response.topics
        for each in topic.partitions
    ]
    return sorted(each.node_id for each in response.brokers), response.controller_id, partitions


def produced(kafka: MockKafka, node: int, topic: str) -> list[int]:
    records = build_batch([Record(0, 0, None, b"v")])
    data = [{"name": topic, "partition_data": [{"index": index, "records": records} for index in (0, 1)]}]
    response = told(kafka, node, "Produce", 9, transactional_id=None, acks=-1, timeout_ms=3000, topic_data=data)
    return [each.error_code for each in sole(response.responses).partition_responses]


def creatable(kafka: MockKafka, node: int, **topic: Any) -> tuple[int, str | None]:
    response = told(kafka, node, "CreateTopics", 7, topics=[{"name": "c"} | topic], timeout_ms=5000, validate_only=True)
    return sole(response.topics).error_code, sole(response.topics).error_message


def assign(kafka: MockKafka, name: str, *replicas: list[int]) -> None:
    assignments = [{"partition_index": index, "broker_ids": ids} for index, ids in enumerate(replicas)]
    topic = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    assert sole(told(kafka, 1, "CreateTopics", 7, topics=[topic], timeout_ms=5000).topics).error_code == 0


def test_a_running_broker_that_is_unregistered_leads_nothing_until_it_starts_again() -> None:
    """The responses were recorded on two real brokers. One of these brokers was unregistered, killed and restarted."""
    with MockKafka(brokers=2) as kafka:
        assign(kafka, "a", [1, 2], [2, 1])
        assign(kafka, "b", [2], [1])
        assert ask(kafka, "UnregisterBroker", {"broker_id": 2}) == (0, "")
        moved = [("a", 0, 1, 0, [1], [2]), ("a", 0, 1, 1, [1], [2]), ("b", 5, -1, 1, [], [2]), ("b", 0, 1, 0, [1], [])]
        for node in (1, 2):
            assert metadata(kafka, node) == ([1], 1, moved)
            for fenced_too in (False, True):
                response = told(kafka, node, "DescribeCluster", 2, endpoint_type=1, include_fenced_brokers=fenced_too)
                assert [(each.broker_id, each.is_fenced) for each in response.brokers] == [(1, False)]
            resources = told(kafka, node, "ListConfigResources", 1, resource_types=[4, 8]).config_resources
            assert [each.resource_name for each in resources] == ["1", "1"]
            assert creatable(kafka, node, num_partitions=1, replication_factor=2)[0] == 38
            by_hand = {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [{"partition_index": 0, "broker_ids": [2]}],
            }
            unknown = "The manual partition assignment includes broker 2, but no such broker is registered."
            assert creatable(kafka, node, **by_hand) == (39, unknown)
        assert (produced(kafka, 1, "a"), produced(kafka, 1, "b")) == ([0, 0], [6, 0])
        assert (produced(kafka, 2, "a"), produced(kafka, 2, "b")) == ([6, 6], [6, 6])
        assert ask(kafka, "UnregisterBroker", {"broker_id": 2}) == (102, "Broker ID 2 is not currently registered")
        kafka.kill_broker(2)
        kafka.start_broker(2)
        back = [("a", 0, 1, 0, [1, 2], []), ("a", 0, 1, 1, [1, 2], []), ("b", 0, 2, 2, [2], []), ("b", 0, 1, 0, [1], [])]
        assert metadata(kafka, 2) == ([1, 2], 1, back)
        assert produced(kafka, 2, "b") == [0, 6]


def test_a_cluster_without_a_registered_broker_responds() -> None:
    with MockKafka() as kafka:
        assert ask(kafka, "UnregisterBroker", {"broker_id": 1}) == (0, "")
        assert metadata(kafka, 1)[:2] == ([], -1)
        assert told(kafka, 1, "DescribeCluster", 2, endpoint_type=1).controller_id == -1
        assert sole(told(kafka, 1, "FindCoordinator", 4, key_type=0, coordinator_keys=["g"]).coordinators).error_code == 15
        refusal = f"Unable to replicate the partition 1 time(s): {FENCED}"
        assert creatable(kafka, 1, num_partitions=1, replication_factor=1) == (38, refusal)


@pytest.mark.parametrize("stored", [False, True])
def test_without_a_registered_broker_no_coordinator_is_found(stored: bool, tmp_path: Path) -> None:
    with MockKafka(data=tmp_path if stored else None) as kafka:
        assert ask(kafka, "UnregisterBroker", {"broker_id": 1}) == (0, "")
        for kind in (0, 1):
            response = told(kafka, 1, "FindCoordinator", 4, key_type=kind, coordinator_keys=["a"])
            assert sole(response.coordinators).error_code == 15


@pytest.mark.parametrize("stored", [False, True])
def test_without_a_registered_broker_no_partition_is_made(stored: bool, tmp_path: Path) -> None:
    """The responses were recorded on a real cluster whose only broker was unregistered."""
    with MockKafka(topics=["a"], data=tmp_path if stored else None) as kafka:
        assert ask(kafka, "UnregisterBroker", {"broker_id": 1}) == (0, "")
        for only_checked in (True, False):
            assert grown(kafka, validate_only=only_checked) == (38, FENCED)
        unknown = "The manual partition assignment includes broker 1, but no such broker is registered."
        assert grown(kafka, assignments=[{"broker_ids": [1]}]) == (39, unknown)
        assert [created_by_asking(kafka) for _ in range(2)] == [3, 3]
        partitions = [{"name": "a", "partition_indexes": [0]}]
        described = sole(sole(told(kafka, 1, "DescribeProducers", 0, topics=partitions).topics).partitions)
        assert (described.error_code, described.active_producers) == (0, [])
        elected = told(kafka, 1, "ElectLeaders", 2, election_type=0, topic_partitions=None, timeout_ms=1000)
        assert sole(sole(elected.replica_election_results).partition_result).error_code == 80
        assert list(kafka.topics()) == ["a"]


def grown(kafka: MockKafka, **how: Any) -> tuple[int, str | None]:
    topic = {"name": "a", "count": 2, "assignments": how.pop("assignments", None)}
    response = told(kafka, 1, "CreatePartitions", 3, topics=[topic], timeout_ms=1000, **{"validate_only": False} | how)
    return sole(response.results).error_code, sole(response.results).error_message


def created_by_asking(kafka: MockKafka) -> int:
    return int(sole(told(kafka, 1, "Metadata", 12, topics=[{"name": "auto"}]).topics).error_code)


def test_a_topic_with_too_many_replicas_is_not_created_by_asking_for_it() -> None:
    """A real Kafka with one broker and default.replication.factor=2 also responds with error 3 each time."""
    with MockKafka(configs={"default.replication.factor": 2}) as kafka:
        assert [created_by_asking(kafka) for _ in range(3)] == [3, 3, 3]
        assert not kafka.topics()
