"""The rules of classic groups in earlier releases. They are from the sources of these releases, and from real brokers."""

from __future__ import annotations

from typing import Any

import pytest

from inprocess import InProcess
from requesting import (
    heartbeat,
    join_group,
    named,
    offset_commit,
    offset_delete,
    offset_fetch,
    plain,
    sync_group,
    txn_offset_commit,
)
from responses import only
from wirebroker.client.wire import Connections
from wirekit import client


def broker(profile: str) -> InProcess:
    return InProcess(profile=profile, topics={"orders": 1}, warm=True)


def coordinated(profile: str) -> Connections:
    """Returns a client of a broker that coordinates the groups."""
    return client(broker(profile))


def led(wire: Connections, version: int = 2, instance: str | None = None, protocols: str = "range") -> Any:
    """Returns the response to the JoinGroup of the only member. Afterwards the group waits for the member's SyncGroup."""
    return wire.request(join_group("g", protocols=protocols, instance=instance), version)


@pytest.mark.parametrize(
    ("profile", "names", "chosen"),
    [("kafka-4.0", "range roundrobin", "range"), ("kafka-3.9", "range roundrobin", "roundrobin"),
     ("kafka-4.0", "range cooperative-sticky", "range"), ("kafka-3.9", "range cooperative-sticky", "cooperative-sticky"),
     ("kafka-4.0", "range sticky", "sticky"), ("kafka-3.9", "range sticky", "range")],
)  # fmt: skip
def test_equal_votes_for_two_protocols(profile: str, names: str, chosen: str) -> None:
    kafka = broker(profile)
    one, other = client(kafka), client(kafka)
    leader = led(one, protocols=names)
    other.send(join_group("g", protocols=" ".join(reversed(names.split()))), 2)
    again = one.request(join_group("g", leader.member_id, names), 2)
    assert (again.protocol_name, other.response().protocol_name) == (chosen, chosen)


@pytest.mark.parametrize(("profile", "code"), [("kafka-2.5", 27), ("kafka-2.6", 0)])
def test_a_heartbeat_while_the_group_waits_for_its_leader(profile: str, code: int) -> None:
    wire = coordinated(profile)
    member = led(wire)
    assert wire.request(heartbeat("g", member.member_id, member.generation_id), 1).error_code == code


@pytest.mark.parametrize(("profile", "code"), [("kafka-2.3", 27), ("kafka-2.4", 25)])
def test_a_strangers_commit_while_the_group_waits_for_its_leader(profile: str, code: int) -> None:
    wire = coordinated(profile)
    member = led(wire)
    assert only(wire.request(offset_commit("g", 1, "stranger", member.generation_id), 2)).error_code == code
    assert only(wire.request(offset_commit("g", 1, member.member_id, member.generation_id), 2)).error_code == 27


@pytest.mark.parametrize(("profile", "code"), [("kafka-2.8", 0), ("kafka-3.0", 25), ("kafka-3.3", 0)])
def test_a_commit_that_names_a_member_of_an_empty_group(profile: str, code: int) -> None:
    assert only(coordinated(profile).request(offset_commit("g", 1, "somebody"), 2)).error_code == code


@pytest.mark.parametrize(("profile", "generation"), [("kafka-2.4", 1), ("kafka-2.5", 2)])
def test_a_static_member_returns_while_its_group_waits_for_it(profile: str, generation: int) -> None:
    wire = coordinated(profile)
    assert led(wire, 5, "i").generation_id == 1
    again = led(wire, 5, "i")
    assert (again.error_code, again.generation_id) == (0, generation)


@pytest.mark.parametrize(("profile", "told"), [("kafka-2.5", (1, "range")), ("kafka-2.6", (2, "other"))])
def test_a_static_member_returns_with_other_protocols(profile: str, told: tuple[int, str]) -> None:
    wire = coordinated(profile)
    member = led(wire, 5, "i")
    wire.request(sync_group("g", member.member_id, 1, {member.member_id: b"a"}, "i"), 3)
    again = led(wire, 5, "i", "other range")
    assert (again.generation_id, again.protocol_name) == told


@pytest.mark.parametrize("profile", ["kafka-2.7", "kafka-3.0"])
def test_a_member_that_joins_again_with_an_unknown_instance(profile: str) -> None:
    wire = coordinated(profile)
    assert wire.request(join_group("g", led(wire).member_id, instance="i"), 5).error_code == 25


@pytest.mark.parametrize(("profile", "code"), [("kafka-2.4", 0), ("kafka-2.5", 35), ("kafka-3.0", 35), ("kafka-3.3", 0)])
def test_a_response_that_cannot_name_instances(profile: str, code: int) -> None:
    wire = coordinated(profile)
    member = led(wire, 5, "i")
    response = wire.request(join_group("g", member.member_id), 4)
    assert (response.error_code, len(response.members)) == (code, 0 if code else 1)


@pytest.mark.parametrize(("profile", "listed"), [("kafka-3.7", []), ("kafka-3.8", ["g"])])
def test_the_case_of_a_state_in_the_filter_of_list_groups(profile: str, listed: list[str]) -> None:
    wire = coordinated(profile)
    led(wire)
    for state, expected in (("CompletingRebalance", ["g"]), ("completingrebalance", listed)):
        groups = wire.request(plain("ListGroups", states_filter=[state]), 4).groups
        assert [each.group_id for each in groups] == expected


@pytest.mark.parametrize(("profile", "listed"), [("kafka-3.9", []), ("kafka-4.0", ["g"])])
def test_blanks_in_the_filter_of_list_groups(profile: str, listed: list[str]) -> None:
    wire = coordinated(profile)
    led(wire)
    groups = wire.request(plain("ListGroups", states_filter=[" CompletingRebalance "]), 4).groups
    assert [each.group_id for each in groups] == listed


@pytest.mark.parametrize(("profile", "code"), [("kafka-3.3", 24), ("kafka-3.4", 35), ("kafka-3.5", 24)])
def test_a_refused_leave_group_before_version_3(profile: str, code: int) -> None:
    assert coordinated(profile).request(plain("LeaveGroup", group_id="", member_id="m"), 2).error_code == code


@pytest.mark.parametrize(
    ("profile", "metadata"), [("kafka-2.1", b"meta range"), ("kafka-2.3", b"a"), ("kafka-2.4", b"meta range")]
)
def test_the_metadata_of_a_described_member(profile: str, metadata: bytes) -> None:
    wire = coordinated(profile)
    member = led(wire)
    wire.request(sync_group("g", member.member_id, 1, {member.member_id: b"a"}), 1)
    (described,) = wire.request(plain("DescribeGroups", groups=["g"]), 1).groups[0].members
    assert (described.member_metadata, described.member_assignment) == (metadata, b"a")


@pytest.mark.parametrize(("profile", "operations"), [("kafka-2.4", 0), ("kafka-2.5", -(2**31))])
def test_operations_that_nobody_asked_for(profile: str, operations: int) -> None:
    wire = coordinated(profile)
    assert wire.request(plain("DescribeGroups", groups=["g"]), 3).groups[0].authorized_operations == operations
    response = wire.request(plain("Metadata", topics=named(["orders"])), 8)
    assert response.cluster_authorized_operations == operations
    assert response.topics[0].topic_authorized_operations == operations


@pytest.mark.parametrize(("profile", "times"), [("kafka-2.5", 2), ("kafka-2.6", 1)])
def test_a_topic_with_two_partitions_whose_offsets_are_deleted(profile: str, times: int) -> None:
    wire = coordinated(profile)
    wire.request(offset_commit("g", 1), 2)
    (*topics,) = wire.request(offset_delete("g", partitions=(0, 7)), 0).topics
    assert [[each.error_code for each in topic.partitions] for topic in topics] == [[0, 3]] * times


@pytest.mark.parametrize(("profile", "times"), [("kafka-3.0", 1), ("kafka-3.4", 1), ("kafka-3.5", 2)])
def test_a_group_that_offset_fetch_names_twice(profile: str, times: int) -> None:
    wanted = named(["g", "g"], "group_id", topics=named(["orders"], partition_indexes=[0]))
    response = coordinated(profile).request(plain("OffsetFetch", groups=wanted), 8)
    assert [each.group_id for each in response.groups] == ["g"] * times


@pytest.mark.parametrize(("profile", "offset"), [("kafka-3.6", 5), ("kafka-3.7", -1)])
def test_a_transactional_commit_without_a_producer_id(profile: str, offset: int) -> None:
    wire = coordinated(profile)
    wire.request(txn_offset_commit("t", (-1, 0), "g", 5), 2)
    assert only(wire.request(offset_fetch("g"), 5)).committed_offset == offset


@pytest.mark.parametrize(("profile", "codes"), [("kafka-1.1", (25, 25, 25, 0)), ("kafka-2.1", (24, 24, 24, 24))])
def test_requests_of_members_with_an_empty_group_id(profile: str, codes: tuple[int, ...]) -> None:
    wire = coordinated(profile)
    wire.request(offset_commit("", 1), 2)
    told = (
        wire.request(heartbeat("", "m", 1), 1).error_code,
        wire.request(sync_group("", "m", 1), 1).error_code,
        wire.request(plain("LeaveGroup", group_id="", member_id="m"), 1).error_code,
        only(wire.request(txn_offset_commit("t", (1, 0), "", 5), 0)).error_code,
    )
    assert told == codes


@pytest.mark.parametrize(("profile", "state"), [("kafka-1.0", "AwaitingSync"), ("kafka-1.1", "CompletingRebalance")])
def test_the_name_of_the_state_in_which_a_group_waits_for_its_leader(profile: str, state: str) -> None:
    wire = coordinated(profile)
    led(wire)
    assert wire.request(plain("DescribeGroups", groups=["g"]), 1).groups[0].group_state == state


@pytest.mark.parametrize(("profile", "generation", "code"), [("kafka-2.1", 0, 27), ("kafka-2.3", -1, 22)])
def test_wrong_generations_before_2_3(profile: str, generation: int, code: int) -> None:
    wire = coordinated(profile)
    assert wire.request(join_group("g", session_ms=1), 2).generation_id == generation
    assert wire.request(heartbeat("g", led(wire).member_id, 9), 1).error_code == code


@pytest.mark.parametrize(("profile", "code"), [("kafka-1.1", 0), ("kafka-2.1", 3)])
def test_a_commit_to_an_unknown_partition_of_a_known_topic(profile: str, code: int) -> None:
    wire = coordinated(profile)
    assert only(wire.request(offset_commit("g", 5, partition=7), 2)).error_code == code
    assert only(wire.request(offset_fetch("g", partitions=(7,)), 2)).committed_offset == (-1 if code else 5)


@pytest.mark.parametrize(("profile", "times"), [("kafka-2.1", 1), ("kafka-2.3", 2)])
def test_a_group_that_describe_groups_names_twice(profile: str, times: int) -> None:
    response = coordinated(profile).request(plain("DescribeGroups", groups=["g", "g"]), 1)
    assert [each.group_id for each in response.groups] == ["g"] * times


@pytest.mark.parametrize(("profile", "code"), [("kafka-3.9", 0), ("kafka-4.0", 27)])
def test_a_client_leaves_before_it_has_joined(profile: str, code: int) -> None:
    wire = coordinated(profile)
    member = led(wire)
    issued = wire.request(join_group("g"), 5)
    assert issued.error_code == 79
    assert wire.request(plain("LeaveGroup", group_id="g", member_id=issued.member_id), 1).error_code == 0
    assert wire.request(sync_group("g", member.member_id, member.generation_id), 2).error_code == code
