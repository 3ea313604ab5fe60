"""Requests whose timeout has passed when they reach the controller. The expected responses are from Kafka 4.3.1."""

from __future__ import annotations

import pytest

from kafkawire.declare import Message
from requesting import create_topic, new_topic, plain
from responses import only, sole
from test_admin_api import Admin

OVERDUE = 7
MOVE = {"name": "x", "partitions": [{"partition_index": 0, "replicas": [1]}]}


@pytest.fixture
def admin() -> Admin:
    admin = Admin()
    admin.create(new_topic("x"))
    return admin


@pytest.mark.parametrize("timeout", [0, -1, -(2**31)])
@pytest.mark.parametrize("name", ["good", "not good", "x"])
def test_a_topic_is_not_created(admin: Admin, timeout: int, name: str) -> None:
    (topic,) = admin.ask(create_topic(name, timeout_ms=timeout), 7).topics
    assert (topic.error_code, topic.error_message, topic.num_partitions) == (OVERDUE, None, -1)
    assert set(admin.engine.cluster.topics) == {"x"}


@pytest.mark.parametrize(
    ("request_", "version", "parts"),
    [
        (plain("CreatePartitions", topics=[{"name": "x", "count": 2}], timeout_ms=0), 3, "results"),
        (plain("DeleteTopics", topic_names=["x"], timeout_ms=0), 5, "responses"),
    ],
    ids=["partitions", "deletion"],
)
def test_a_topic_stays_as_it_is(admin: Admin, request_: Message, version: int, parts: str) -> None:
    (result,) = getattr(admin.ask(request_, version), parts)
    assert (result.error_code, result.error_message) == (OVERDUE, None)
    assert len(admin.engine.cluster.topics["x"].partitions) == 1


def test_no_leader_is_elected_and_no_replica_moves(admin: Admin) -> None:
    elected = admin.ask(plain("ElectLeaders", topic_partitions=None, timeout_ms=0), 2)
    assert (elected.error_code, elected.replica_election_results) == (OVERDUE, [])
    moved = admin.ask(plain("AlterPartitionReassignments", topics=[MOVE], timeout_ms=0), 0)
    assert (moved.error_code, moved.error_message) == (OVERDUE, None)
    assert only(moved).error_code == OVERDUE


@pytest.mark.parametrize(("epoch", "response"), [(-1, (-1, -1)), (-2, (-2, 0)), (-(2**31), (-(2**31), 0)), (5, (-1, -1))])
def test_leader_epochs_that_never_existed(admin: Admin, epoch: int, response: tuple[int, int]) -> None:
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    request = plain("OffsetForLeaderEpoch", replica_id=-2, topics=[{"topic": "x", "partitions": [asked]}])
    (found,) = sole(admin.ask(request, 3).topics).partitions
    assert (found.error_code, (found.leader_epoch, found.end_offset)) == (0, response)
