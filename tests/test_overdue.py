"""Requests that are overdue when the controller gets them; the answers are those of Kafka 4.3.1."""

from __future__ import annotations

import pytest

from kafkawire.declare import Message
from kafkawire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkawire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.delete_topics import DeleteTopicsRequest
from kafkawire.messages.elect_leaders import ElectLeadersRequest
from kafkawire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from responses import only, sole
from test_admin_api import Admin

OVERDUE = 7
MOVE = ReassignableTopic(name="x", partitions=[ReassignablePartition(partition_index=0, replicas=[1])])


def new(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])


@pytest.fixture
def admin() -> Admin:
    admin = Admin()
    admin.create(new("x"))
    return admin


@pytest.mark.parametrize("timeout", [0, -1, -(2**31)])
@pytest.mark.parametrize("name", ["good", "not good", "x"])
def test_a_topic_is_not_created(admin: Admin, timeout: int, name: str) -> None:
    (topic,) = admin.ask(CreateTopicsRequest(topics=[new(name)], timeout_ms=timeout), 7).topics
    assert (topic.error_code, topic.error_message, topic.num_partitions) == (OVERDUE, None, -1)
    assert set(admin.engine.cluster.topics) == {"x"}


@pytest.mark.parametrize(
    ("request_", "version", "parts"),
    [
        (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="x", count=2)], timeout_ms=0), 3, "results"),
        (DeleteTopicsRequest(topic_names=["x"], timeout_ms=0), 5, "responses"),
    ],
    ids=["partitions", "deletion"],
)
def test_a_topic_stays_as_it_is(admin: Admin, request_: Message, version: int, parts: str) -> None:
    (result,) = getattr(admin.ask(request_, version), parts)
    assert (result.error_code, result.error_message) == (OVERDUE, None)
    assert len(admin.engine.cluster.topics["x"].partitions) == 1


def test_no_leader_is_elected_and_no_replica_moves(admin: Admin) -> None:
    elected = admin.ask(ElectLeadersRequest(topic_partitions=None, timeout_ms=0), 2)
    assert (elected.error_code, elected.replica_election_results) == (OVERDUE, [])
    moved = admin.ask(AlterPartitionReassignmentsRequest(topics=[MOVE], timeout_ms=0), 0)
    assert (moved.error_code, moved.error_message) == (OVERDUE, None)
    assert only(moved).error_code == OVERDUE


@pytest.mark.parametrize(("epoch", "response"), [(-1, (-1, -1)), (-2, (-2, 0)), (-(2**31), (-(2**31), 0)), (5, (-1, -1))])
def test_leader_epochs_that_never_existed(admin: Admin, epoch: int, response: tuple[int, int]) -> None:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(replica_id=-2, topics=[OffsetForLeaderTopic(topic="x", partitions=[asked])])
    (found,) = sole(admin.ask(request, 3).topics).partitions
    assert (found.error_code, (found.leader_epoch, found.end_offset)) == (0, response)
