"""Classic groups over the raw wire, as dialogues of requests and responses."""

from __future__ import annotations

from typing import Any

import pytest

from actors import MEMBER_ID_REQUIRED, TEAM, ClassicMember
from dialogue import ANY_RESPONSE, Dialogue, answered, refused
from inprocess import InProcess
from requesting import (
    find_coordinator,
    heartbeat,
    init_producer_id,
    offset_commit,
    offset_delete,
    plain,
)
from responses import only, sole
from wirebroker.core.groups.states import PREVIOUS, ClassicGroupState
from wirebroker.mock import MockKafka
from wirekit import client

REBALANCE, UNKNOWN_MEMBER, ILLEGAL_GENERATION, FENCED_INSTANCE, FULL = 27, 25, 22, 82, 81


def started(**options: Any) -> InProcess:
    broker = InProcess(**{"topics": {"orders": 2}} | options)
    assert only(client(broker).request(find_coordinator(TEAM), 4)).error_code == 0
    return broker


@pytest.fixture
def broker() -> InProcess:
    return started()


def test_on_a_cold_start_clients_must_retry() -> None:
    asker = client(InProcess(cold_start=True, clock="frozen"))
    codes = [sole(asker.request(find_coordinator(TEAM), 4).coordinators).error_code for _ in range(2)]
    assert codes == [15, 0], "the first request creates __consumer_offsets"
    fetch = plain("OffsetFetch", group_id=TEAM, topics=None)
    assert [asker.request(fetch, 7).error_code for _ in range(2)] == [16, 0], "at first the coordinator is loading"


def test_on_a_cold_start_a_coordinator_has_loaded_after_a_pause() -> None:
    """franz-go does not always retry after NOT_COORDINATOR. So, as on Kafka 4.3.1, a retry after 250 ms must not get this
    error."""
    broker = InProcess(cold_start=True)
    asker = client(broker)
    asker.request(find_coordinator(TEAM), 4)
    broker.clock.advance(milliseconds=200)
    assert asker.request(plain("OffsetFetch", group_id=TEAM, topics=None), 7).error_code == 0


def group_state(broker: InProcess) -> ClassicGroupState:
    return broker._call(lambda engine: engine.groups.groups[TEAM].state)


def stable_pair(broker: InProcess) -> tuple[ClassicMember, ClassicMember]:
    """Makes a stable group with two members. The first member is the leader."""
    one, two = ClassicMember(broker), ClassicMember(broker)
    one.join()
    assert one.sync({one.member: b"all"}) == (0, b"all")
    two.ask_to_join()
    two.joined()
    two.ask_to_join()
    assert one.heartbeat() == REBALANCE
    one.ask_to_join()
    leader, follower = one.joined(), two.joined()
    assert leader.leader == follower.leader == one.member
    assert sorted(m.member_id for m in leader.members) == sorted([one.member, two.member])
    assert follower.members == []
    two.ask_to_sync()
    assert one.sync({one.member: b"half", two.member: b"other half"}) == (0, b"half")
    assert two.synced() == (0, b"other half")
    return one, two


def test_the_table_of_states_is_closed() -> None:
    assert set(PREVIOUS) == set(ClassicGroupState)
    assert ClassicGroupState.STABLE not in PREVIOUS[ClassicGroupState.EMPTY]


def test_two_members_join_sync_and_stay(broker: InProcess) -> None:
    one, two = stable_pair(broker)
    assert (one.generation, two.generation) == (2, 2)
    assert [member.heartbeat() for member in (one, two)] == [0, 0]


def test_when_one_leaves_the_other_has_to_join_again(broker: InProcess) -> None:
    one, two = stable_pair(broker)
    assert one.leave() == 0
    assert two.heartbeat() == REBALANCE
    assert two.join().leader == two.member
    assert one.heartbeat() == UNKNOWN_MEMBER
    assert one.leave() == UNKNOWN_MEMBER


def test_a_member_without_heartbeats_is_removed(broker: InProcess) -> None:
    one, two = stable_pair(broker)
    broker.clock.advance(seconds=8)
    assert one.heartbeat() == 0
    broker.clock.advance(seconds=8)
    assert one.heartbeat() == REBALANCE
    assert two.heartbeat() == UNKNOWN_MEMBER


def test_the_rebalance_continues_without_missing_members(broker: InProcess) -> None:
    one, two = stable_pair(broker)
    one.ask_to_join(session_ms=300_000, rebalance_ms=60_000)
    for _ in range(8):
        assert two.heartbeat() == REBALANCE
        broker.clock.advance(seconds=8)
    assert [member.member_id for member in one.joined().members] == [one.member]
    assert two.heartbeat() == UNKNOWN_MEMBER


def test_a_member_that_does_not_sync_in_time_is_removed(broker: InProcess) -> None:
    one = ClassicMember(broker)
    one.join(session_ms=300_000, rebalance_ms=1000)
    broker.clock.advance(seconds=2)
    assert one.heartbeat() == UNKNOWN_MEMBER


def test_a_group_that_has_synced_stays_as_it_is(broker: InProcess) -> None:
    """The follower syncs only after the leader has made the group stable."""
    one, two = ClassicMember(broker), ClassicMember(broker)
    one.join()
    one.sync()
    two.ask_to_join()
    two.joined()
    two.ask_to_join()
    one.ask_to_join()
    one.joined(), two.joined()
    assert one.sync({one.member: b"half", two.member: b"other half"}) == (0, b"half")
    assert two.sync() == (0, b"other half")
    for _ in range(14):  # this is longer than the rebalance timeout; SyncGroup has the same time limit
        broker.clock.advance(seconds=5)
        assert [one.heartbeat(), two.heartbeat()] == [0, 0]


def test_a_pending_id_is_forgotten(broker: InProcess) -> None:
    one = ClassicMember(broker)
    one.ask_to_join(session_ms=6000)
    one.joined()
    broker.clock.advance(seconds=7)
    one.ask_to_join(session_ms=6000)
    assert one.joined().error_code == UNKNOWN_MEMBER


def test_a_protocol_that_all_members_support_is_chosen(broker: InProcess) -> None:
    one, two = ClassicMember(broker), ClassicMember(broker)
    one.join(protocols="sticky range")
    two.ask_to_join("range")
    two.joined()
    two.ask_to_join("range")
    one.ask_to_join("sticky range")
    assert (one.joined().protocol_name, two.joined().protocol_name) == ("range", "range")
    three = ClassicMember(broker)
    three.ask_to_join("sticky")
    assert three.joined().error_code == 23


REFUSED = [
    ("no_group", {"group": ""}, {}, 24),
    ("session_too_short", {}, {"session_ms": 5}, 26),
    ("session_too_long", {}, {"session_ms": 10**9}, 26),
]


@pytest.mark.parametrize(("settings", "options", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_members_that_must_not_join(broker: InProcess, settings: dict[str, Any], options: dict[str, Any], code: int) -> None:
    one = ClassicMember(broker, **settings)
    one.ask_to_join(**options)
    assert one.joined().error_code == code


def in_rebalance(broker: InProcess, **options: Any) -> tuple[ClassicMember, ClassicMember]:
    """Starts a rebalance. Returns two members: a member with these JoinGroup options, which has not joined again, and a new
    member, which waits.
    """
    one, two = ClassicMember(broker, options.pop("instance", None)), ClassicMember(broker)
    one.join(**options)
    one.sync({one.member: b"all"})
    two.ask_to_join()
    two.joined()
    two.ask_to_join(session_ms=10_000, rebalance_ms=1000)
    return one, two


def test_a_rebalance_waits_for_the_longest_timeout_and_keeps_a_static_member_that_misses_it(broker: InProcess) -> None:
    one, two = in_rebalance(broker, instance="worker-1", session_ms=300_000, rebalance_ms=20_000)
    broker.clock.advance(seconds=19)
    assert group_state(broker) is ClassicGroupState.PREPARING_REBALANCE
    broker.clock.advance(seconds=2)
    assert two.joined().error_code == 0
    assert set(broker._call(lambda engine: engine.groups.groups[TEAM].members)) == {one.member, two.member}


def test_a_new_member_waits_no_longer_than_five_minutes(broker: InProcess) -> None:
    _, two = in_rebalance(broker, session_ms=1_000_000, rebalance_ms=600_000)
    broker.clock.advance(seconds=301)
    assert two.joined().error_code == UNKNOWN_MEMBER


def test_in_a_full_group_the_last_to_join_again_has_no_place() -> None:
    broker = started(configs={"group.max.size": 2})
    one, two = stable_pair(broker)
    one.ask_to_join("range", session_ms=20_000)
    three = ClassicMember(broker)
    three.ask_to_join()
    assert three.joined().error_code == MEMBER_ID_REQUIRED
    three.ask_to_join()
    two.ask_to_join()
    assert two.joined().error_code == FULL


def test_further_members_prolong_the_first_wait_up_to_the_rebalance_timeout() -> None:
    broker = started(configs={"group.initial.rebalance.delay.ms": 3000})
    members = [ClassicMember(broker) for _ in range(3)]
    for member in members:
        for _ in range(2):
            member.ask_to_join(rebalance_ms=6000)
            if not member.member:
                member.joined()
        broker.clock.advance(seconds=2)
    assert {member.joined().error_code for member in members} == {0}


def test_wrong_generations_and_members(broker: InProcess) -> None:
    one, two = stable_pair(broker)
    assert one.heartbeat(99) == ILLEGAL_GENERATION
    assert one.sync(generation=99) == (ILLEGAL_GENERATION, b"")
    assert one.sync() == (0, b"half"), "in a stable group, a repeated SyncGroup gets the same assignment"
    two.member = "somebody"
    assert two.heartbeat() == UNKNOWN_MEMBER
    assert two.sync() == (UNKNOWN_MEMBER, b"")
    two.ask_to_join()
    assert two.joined().error_code == UNKNOWN_MEMBER


def test_a_static_member_comes_back_without_a_rebalance_and_its_double_is_fenced(broker: InProcess) -> None:
    one = ClassicMember(broker, "worker-1")
    one.join()
    one.sync({one.member: b"all"})
    again = ClassicMember(broker, "worker-1")
    again.ask_to_join(version=9)
    response = again.joined(9)
    assert (response.error_code, response.generation_id, response.skip_assignment) == (0, 1, True)
    assert again.member != one.member
    assert again.sync() == (0, b"all")
    assert one.heartbeat() == FENCED_INSTANCE


def test_offsets_of_members_and_of_clients_without_a_group(broker: InProcess) -> None:
    nobody = ClassicMember(broker)
    assert nobody.committed() == -1
    assert nobody.commit(5) == 0
    assert nobody.committed() == 5
    one, two = stable_pair(broker)
    assert nobody.commit(6) == UNKNOWN_MEMBER
    assert two.commit(7) == 0
    two.generation = 1
    assert two.commit(8) == ILLEGAL_GENERATION
    assert one.commit(9, topic="nothing") == 3
    assert one.commit(9, meta="x" * 5000) == 12
    assert nobody.committed() == 7


def test_a_commit_that_is_too_large_for_the_log_changes_nothing() -> None:
    """257 offsets with 4,000 bytes of metadata each fit into max.message.bytes. Kafka refuses a commit of 258 offsets."""
    asker = client(started(topics={"orders": 258}))

    def commit(count: int, offset: int) -> set[int]:
        partitions = [
            {"partition_index": i, "committed_offset": offset, "committed_metadata": "x" * 4000} for i in range(count)
        ]
        topics = [{"name": "orders", "partitions": partitions}]
        request = plain("OffsetCommit", group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)
        return {each.error_code for each in sole(asker.request(request, 8).topics).partitions}

    assert [commit(257, 5), commit(258, 6)] == [{0}, {-1}]
    (topic,) = asker.request(plain("OffsetFetch", group_id="g", topics=None), 7).topics
    assert {each.committed_offset for each in topic.partitions} == {5}


def test_offsets_and_members_survive_a_restart(broker: InProcess) -> None:
    one, two = stable_pair(broker)
    one.commit(42)
    for mode in ("clean", "kill"):
        broker.restart(mode)
        one.wire.close()
        two.wire.close()
        assert one.committed() == 42
        assert (one.heartbeat(), two.heartbeat()) == (0, 0)


def test_a_restart_brings_back_the_group_as_its_record_has_it(broker: InProcess) -> None:
    one, two = stable_pair(broker)

    def assignments() -> dict[str, bytes]:
        (group,) = client(broker).request(plain("DescribeGroups", groups=[TEAM]), 5).groups
        return {each.member_id: each.member_assignment for each in group.members}

    before = assignments()
    one.ask_to_join()
    two.ask_to_join()
    one.joined()
    two.joined()
    two.ask_to_sync()
    one.ask_to_join([("range", b"other metadata")])
    assert two.synced()[0] == REBALANCE
    assert set(assignments().values()) == {b""}
    broker.restart("kill")
    assert assignments() == before


def test_offsets_of_an_empty_group_expire(broker: InProcess) -> None:
    nobody = ClassicMember(broker)
    nobody.commit(5)
    broker.clock.advance(days=6)
    assert nobody.committed() == 5
    broker.clock.advance(days=2)
    assert nobody.committed() == -1


def test_a_group_without_a_coordinator_loses_no_member(broker: InProcess) -> None:
    member = stable_pair(broker)[1].member

    def expires() -> bool:
        return broker._call(lambda engine: engine.groups.expire_member(TEAM, member, broker.clock.now()))

    broker.kill_broker(1)
    assert not expires()
    assert group_state(broker) is ClassicGroupState.STABLE
    broker.start_broker(1)
    assert expires()


def test_fetching_all_offsets_of_several_groups(broker: InProcess) -> None:
    ClassicMember(broker).commit(5)
    asked = [
        {"group_id": TEAM, "topics": None},
        {"group_id": "nobody", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]},
    ]
    found = client(broker).request(plain("OffsetFetch", groups=asked), 8).groups
    assert [[(p.partition_index, p.committed_offset) for t in g.topics for p in t.partitions] for g in found] == [
        [(0, 5)], [(0, -1), (1, -1)],
    ]  # fmt: skip


def test_describe_and_list(broker: InProcess) -> None:
    one, two = stable_pair(broker)
    wire = client(broker)
    described, unknown = wire.request(plain("DescribeGroups", groups=[TEAM, "nobody"]), 6).groups
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert {(m.member_id, bytes(m.member_assignment)) for m in described.members} == {
        (one.member, b"half"), (two.member, b"other half"),
    }  # fmt: skip
    assert (unknown.error_code, unknown.group_state) == (69, "Dead")
    assert sole(wire.request(plain("DescribeGroups", groups=["nobody"]), 5).groups).error_code == 0
    listed = wire.request(plain("ListGroups", states_filter=["stable"]), 5).groups
    assert [(g.group_id, g.group_state, g.group_type) for g in listed] == [(TEAM, "Stable", "classic")]
    assert wire.request(plain("ListGroups", states_filter=["Empty"]), 5).groups == []


def test_deleting(broker: InProcess) -> None:
    one = ClassicMember(broker)
    one.join()
    one.sync({one.member: b"all"})
    wire = client(broker)

    def delete() -> list[int]:
        results = wire.request(plain("DeleteGroups", groups_names=[TEAM, "nobody"]), 2).results
        return [result.error_code for result in results]

    assert delete() == [68, 69]
    one.leave()
    one.member, one.generation = "", -1
    one.commit(5)
    assert delete() == [0, 69]
    assert one.committed() == -1


def test_deleting_offsets(broker: InProcess) -> None:
    one = ClassicMember(broker)
    one.commit(5)
    request = offset_delete(TEAM, partitions=(0, 9))
    response = client(broker).request(request, 0)
    codes = [(p.partition_index, p.error_code) for p in sole(response.topics).partitions]
    assert codes == [(9, 3), (0, 0)], "as in Kafka, partitions that do not exist come first"
    assert one.committed() == -1
    request.group_id = "nobody"
    assert client(broker).request(request, 0).error_code == 69


def test_another_broker_does_not_coordinate_the_group() -> None:
    broker = started(brokers=3)
    wires = [client(broker, node) for node in range(3)]
    coordinator = sole(wires[0].request(find_coordinator(TEAM), 4).coordinators).node_id
    request = heartbeat(TEAM, "x", 1)
    codes = [wire.request(request, 3).error_code for wire in wires]
    assert codes == [UNKNOWN_MEMBER if node == coordinator else 16 for node in (1, 2, 3)]


def test_a_group_with_many_members_becomes_stable(broker: InProcess) -> None:
    members = [ClassicMember(broker) for _ in range(60)]
    members[0].join(session_ms=300_000)
    for member in members[1:]:
        member.ask_to_join(session_ms=300_000)
        member.joined()
        member.ask_to_join(session_ms=300_000)
    members[0].ask_to_join(session_ms=300_000)
    responses = [member.joined() for member in members]
    assert {response.error_code for response in responses} == {0}
    generations = {response.generation_id for response in responses}
    assert len(generations) == 1
    assert max(len(response.members) for response in responses) == 60


def test_a_response_that_takes_too_many_bytes_is_unknown_server_error(broker: InProcess) -> None:
    member = ClassicMember(broker)
    member.ask_to_join("r" * 32_000)
    assert member.joined().error_code == MEMBER_ID_REQUIRED
    member.ask_to_join("r" * 32_000)
    member.joined()
    assert member.sync({})[0] == 0
    two = member.wire.request(plain("DescribeGroups", groups=[TEAM] * 2), 4).groups
    assert [len(group.members[0].member_metadata) for group in two] == [32_005] * 2
    many = client(broker).request(plain("DescribeGroups", groups=[TEAM] * 5_000), 4).groups
    assert {(group.error_code, len(group.members)) for group in many} == {(-1, 0)}


def test_groups_and_transactional_ids_are_gone_with_the_topic_of_their_coordinator(mock_kafka: MockKafka) -> None:
    """As on Kafka 4.3.1, requests get NOT_COORDINATOR until the internal topic exists again. After that the group is
    unknown.
    """
    mock_kafka.create_topic("orders")
    commit = offset_commit("billing", 7)
    asks = Dialogue(mock_kafka)
    for key_type, key in ((0, "billing"), (1, "pay-1")):
        asks >> (find_coordinator(key, kind=key_type), 4) << ANY_RESPONSE
    asks >> (commit, 8) << answered(error_code=0)
    asks >> (init_producer_id("pay-1", 1000), 4) << ANY_RESPONSE
    assert mock_kafka.committed_offsets("billing")
    assert mock_kafka.transactions()
    for name in ("__consumer_offsets", "__transaction_state"):
        mock_kafka.delete_topic(name)
    asks >> (commit, 8) << refused(16)
    assert mock_kafka.groups() == {}
    assert mock_kafka.transactions() == {}
