"""Consumer groups of KIP-848 over the raw wire, as dialogues of requests and responses."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from actors import TEAM, ClassicConsumer, Member
from inprocess import InProcess
from kafkawire.codec import encode
from kafkawire.coordinator_log import read_record
from kafkawire.coordinator_records import GROUP_RECORDS
from kafkawire.errors import ErrorCode
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from requesting import find_coordinator, join_group, offset_delete, plain
from responses import only, sole
from wirebroker.common.slices import at_once
from wirebroker.core.groups.assignors import ASSIGNORS, Group, Partitions, Subscriber
from wirebroker.core.java_order import (
    buckets_for,
    buckets_of_copy,
    hash_order,
    java_hash,
    set_of_names,
    set_of_numbers,
    uuid_hash,
)
from wirebroker.mock import MockKafka
from wirekit import client, kafka_jars

UNKNOWN_MEMBER, REBALANCE, INVALID_REQUEST, UNSUPPORTED_VERSION = 25, 27, 42, 35
GROUP_ID_NOT_FOUND, NON_EMPTY, MAX_SIZE, FENCED_INSTANCE, SUBSCRIBED = 69, 68, 81, 82, 86
FENCED_EPOCH, UNRELEASED, UNSUPPORTED_ASSIGNOR, STALE_EPOCH, INVALID_REGEX = 110, 111, 112, 113, 128


def start(configs: dict[str, Any] | None = None, topics: dict[str, int] | None = None, **options: Any) -> InProcess:
    settings = {"group.consumer.assignment.interval.ms": 0, "group.initial.rebalance.delay.ms": 0, **(configs or {})}
    broker = InProcess(topics=topics or {"orders": 4}, configs=settings, clock="frozen", **options)
    for _ in range(2):
        client(broker).request(find_coordinator(TEAM), 4)
    return broker


@pytest.fixture
def broker() -> InProcess:
    return start()


@pytest.mark.parametrize("static", [False, True], ids=["member ids", "instance ids"])
def test_the_range_assignor_sorts_ids_by_units_of_utf_16(broker: InProcess, static: bool) -> None:
    """Kafka 4.3.1 gives the first partitions to the member whose id is an emoji, because the emoji's units of UTF-16 are
    smaller than U+FF21.
    """
    names = ("\uff21", "\U0001f600")
    wide, emoji = (Member(broker, f"m{each}" if static else each, instance=each if static else None) for each in names)
    for member in (wide, emoji):
        member.join("orders", server_assignor="range")
    for _ in range(3):
        for member in (wide, emoji):
            member.beat()
    assert (emoji.owned, wide.owned) == ({"orders": [0, 1]}, {"orders": [2, 3]})


def describe(broker: InProcess, group: str = TEAM, version: int = 1) -> Any:
    request = plain("ConsumerGroupDescribe", group_ids=[group], include_authorized_operations=False)
    return sole(client(broker).request(request, version).groups)


def state(broker: InProcess) -> tuple[str, int, int]:
    told = describe(broker)
    return told.group_state, told.group_epoch, told.assignment_epoch


# Joining, reconciling, leaving


def test_the_first_member_gets_all_partitions(broker: InProcess) -> None:
    one = Member(broker, "one")
    response = one.send(0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("one", 2, 5000)
    assert one.told(response) == {"orders": [0, 1, 2, 3]}
    assert state(broker) == ("Stable", 2, 2)
    assert one.told(one.send(2, {"orders": [0, 1, 2, 3]})) is None, "the member already has its assignment"
    again = one.send(2, {"orders": [0]}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
    assert one.told(again) == {"orders": [0, 1, 2, 3]}, "the response to a full heartbeat has the assignment"


def test_partitions_move_once_they_are_given_up(broker: InProcess) -> None:
    one, two = Member(broker, "one"), Member(broker, "two")
    one.join()
    assert two.join() == {}
    assert state(broker) == ("Reconciling", 3, 3)
    assert (two.epoch, two.beat()) == (3, None), "another member still owns these partitions"
    before = dict(one.owned)
    kept = one.beat()
    assert kept is not None
    assert one.epoch == 2, "the member keeps its epoch until it has revoked the other partitions"
    assert len(kept["orders"]) == 2
    assert one.told(one.send(2, before)) is None, "the member has not revoked its partitions yet"
    assert one.beat() is None
    assert one.epoch == 3
    taken = two.beat()
    assert taken == {"orders": [index for index in range(4) if index not in kept["orders"]]}
    assert state(broker) == ("Stable", 3, 3)


def test_a_member_that_leaves_frees_its_partitions(broker: InProcess) -> None:
    one, two = Member(broker, "one"), Member(broker, "two")
    one.join()
    two.join()
    response = one.send(-1)
    assert (response.error_code, response.member_id, response.member_epoch, response.assignment) == (0, "one", -1, None)
    assert state(broker) == ("Assigning", 4, 3)
    assert two.beat() == {"orders": [0, 1, 2, 3]}
    assert two.leave() == 0
    assert state(broker)[:2] == ("Empty", 5)  # the assignment epoch depends on the release, and is tested with recordings
    assert two.leave() == UNKNOWN_MEMBER


def test_a_target_is_computed_at_most_once_in_the_interval() -> None:
    broker = start({"group.consumer.assignment.interval.ms": 1000})
    one, two = Member(broker, "one"), Member(broker, "two")
    one.join()
    assert (two.join(), two.epoch) == ({}, 2)
    assert state(broker) == ("Assigning", 3, 2)
    broker.clock.advance(milliseconds=999)
    two.beat()
    assert two.epoch == 2
    broker.clock.advance(milliseconds=1)
    two.beat()
    assert two.epoch == 3


def test_a_group_of_a_thousand_members_becomes_stable() -> None:
    broker = start({"group.consumer.assignment.interval.ms": 1000}, topics={"orders": 1500})
    members = [Member(broker, f"member-{number:03}") for number in range(1000)]
    for member in members:
        member.wire = members[0].wire
        member.join()
    for _ in range(3):
        broker.clock.advance(seconds=5)
        for member in members:
            member.beat()
    assert state(broker)[0] == "Stable"
    held = sorted(index for member in members for index in member.owned["orders"])
    assert held == list(range(1500))
    assert {len(member.owned["orders"]) for member in members} == {1, 2}


# Records


def written(broker: InProcess, group: str = TEAM) -> list[tuple[str, str | None, Any]]:
    """For each of the group's records in __consumer_offsets, returns the kind, the member and the value."""
    found = []
    for partition in range(4):
        for record in broker.records("__consumer_offsets", partition):
            assert record.key is not None
            told = read_record(GROUP_RECORDS, record.key, record.value)
            if told is not None and getattr(told.key, "group_id", getattr(told.key, "group", None)) == group:
                name = type(told.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
                member = getattr(told.key, "member_id", getattr(told.key, "regular_expression", None))
                found.append((name, member, told.value))
    return found


def kinds(rows: list[tuple[str, str | None, Any]]) -> list[tuple[str, str | None, bool]]:
    return [(name, member, value is not None) for name, member, value in rows]


def test_members_and_epochs_are_recorded_as_in_kafka(broker: InProcess) -> None:
    one, two = Member(broker, "one"), Member(broker, "two", instance="i")
    one.join("orders", "absent", rack_id="r")
    rows = written(broker)
    assert kinds(rows) == [
        ("MemberMetadata", "one", True), ("Metadata", None, True), ("TargetAssignmentMember", "one", True),
        ("TargetAssignmentMetadata", None, True), ("CurrentMemberAssignment", "one", True),
    ]  # fmt: skip
    orders = one.ids()["orders"]
    values = [value for _, _, value in rows]
    assert (values[0].rack_id, values[0].subscribed_topic_names) == ("r", ["absent", "orders"])
    assert (values[0].subscribed_topic_regex, values[0].classic_member_metadata) == ("", None)
    assert (values[1].epoch, values[3].assignment_epoch) == (2, 2)
    assert [(each.topic_id, each.partitions) for each in values[2].topic_partitions] == [(orders, [0, 1, 2, 3])]
    (held,) = values[4].assigned_partitions
    assert (values[4].member_epoch, values[4].previous_member_epoch, values[4].state) == (2, 0, 0)
    assert (held.topic_id, held.partitions, held.assignment_epochs) == (orders, [0, 1, 2, 3], [2, 2, 2, 2])
    two.join()
    one.beat()
    given_up = written(broker)[-1]
    assert (given_up[:2], given_up[2].state) == (("CurrentMemberAssignment", "one"), 1), "it must still revoke partitions"
    assert [each.partitions for each in given_up[2].partitions_pending_revocation] == [[2, 3]]
    before = len(written(broker))
    one.beat()
    two.beat()
    one.beat()
    two.beat()
    assert kinds(written(broker)[before:]) == [("CurrentMemberAssignment", name, True) for name in ("one", "two")]
    before = len(written(broker))
    two.leave(-2)
    one.leave()
    assert kinds(written(broker)[before:]) == [
        ("CurrentMemberAssignment", "two", True), ("CurrentMemberAssignment", "one", False),
        ("TargetAssignmentMember", "one", False), ("MemberMetadata", "one", False), ("Metadata", None, True),
    ]  # fmt: skip


def test_expressions_and_tombstones_of_a_group_are_recorded(broker: InProcess) -> None:
    one = Member(broker, "one")
    one.join(subscribed_topic_regex="ord.*")
    row = next(row for row in written(broker) if row[0] == "RegularExpression")
    assert (row[1], row[2].topics) == ("ord.*", ["orders"])
    one.leave()
    before = len(written(broker))
    assert sole(one.wire.request(plain("DeleteGroups", groups_names=[TEAM]), 2).results).error_code == 0
    assert ("RegularExpression", "ord.*", False) in kinds(written(broker)[:before])
    ends = [("TargetAssignmentMetadata", None, False), ("PartitionMetadata", None, False), ("Metadata", None, False)]
    assert kinds(written(broker)[before:]) == ends


def test_kafkas_own_classes_read_the_records(broker: InProcess) -> None:
    jars = kafka_jars()
    one, two = Member(broker, "one"), Member(broker, "two", instance="i")
    one.join("orders", server_assignor="range", rack_id="r")
    two.join(subscribed_topic_regex="ord.*")
    for member in (one, two, one, two):
        member.beat()
    assert one.commit(3) == 0
    ClassicConsumer(broker).join()
    two.leave(-2)
    one.leave()
    lines = []
    for partition in range(4):
        for record in broker.records("__consumer_offsets", partition):
            assert record.key is not None
            lines.append(f"{record.key.hex()} {'-' if record.value is None else record.value.hex()}")
    source = Path(__file__).parent / "GroupRecords.java"
    options = ["-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    run = subprocess.run(
        ["java", *options, "-cp", jars, source], input="\n".join(lines), capture_output=True, text=True, timeout=50
    )
    assert run.returncode == 0, run.stderr
    kinds_read = run.stdout.splitlines()
    assert len(kinds_read) == len(lines)
    assert set(kinds_read) == {"1", "3", "5", "6", "7", "8", "16"}, run.stdout


# Fencing


def test_a_wrong_member_epoch_is_fenced(broker: InProcess) -> None:
    one = Member(broker, "one")
    one.join()
    assert one.fault(3) == FENCED_EPOCH
    assert one.fault(1) == FENCED_EPOCH
    assert Member(broker, "stranger").fault(2) == UNKNOWN_MEMBER
    assert Member(broker, "one", group="none").fault(2) == GROUP_ID_NOT_FOUND
    assert one.join() == {"orders": [0, 1, 2, 3]}, "the member rejoins with the same id"


def test_a_response_may_be_lost_once(broker: InProcess) -> None:
    one, two = Member(broker, "one"), Member(broker, "two")
    one.join()
    two.join()
    one.beat()
    one.beat()
    assert one.epoch == 3
    assert one.fault(2, one.owned) == 0, "the member does not know epoch 3 yet"
    assert one.fault(2, {"orders": [0, 1, 2, 3]}) == FENCED_EPOCH, "the member claims partitions that it has revoked"
    assert one.fault(2) == FENCED_EPOCH


def test_a_member_without_heartbeats_is_removed_from_a_consumer_group(broker: InProcess) -> None:
    one, two = Member(broker, "one"), Member(broker, "two")
    one.join()
    broker.clock.advance(seconds=30)
    two.join()
    broker.clock.advance(seconds=15)
    assert one.fault(2) == UNKNOWN_MEMBER
    assert two.beat() == {"orders": [0, 1, 2, 3]}


def test_a_member_that_does_not_give_up_partitions_is_removed(broker: InProcess) -> None:
    one, two = Member(broker, "one"), Member(broker, "two")
    one.join()
    all_four = dict(one.owned)
    two.join()
    for _ in range(2):
        assert one.fault(2, all_four) == 0
        two.beat()
        broker.clock.advance(seconds=29)
    assert one.fault(2, all_four) == 0
    two.beat()
    broker.clock.advance(seconds=2)
    assert one.fault(2, all_four) == UNKNOWN_MEMBER, "the member was removed after its rebalance timeout of 60 s"
    assert two.beat() == {"orders": [0, 1, 2, 3]}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": ""}, INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, INVALID_REQUEST),
        ({"owned": None}, INVALID_REQUEST),
        ({"owned": {"orders": [0]}}, INVALID_REQUEST),
        ({"subscribed_topic_names": None}, INVALID_REQUEST),
        ({"instance_id": " "}, INVALID_REQUEST),
        ({"rack_id": ""}, INVALID_REQUEST),
        ({"epoch": -3}, INVALID_REQUEST),
        ({"epoch": -2}, INVALID_REQUEST),
        ({"server_assignor": "sticky"}, UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "order(s"}, INVALID_REGEX),
    ],
)
def test_requests_that_are_refused(broker: InProcess, fields: dict[str, Any], code: int) -> None:
    asked = {"epoch": 0, "owned": {}, "rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"], **fields}
    response = Member(broker, "one").send(**asked)
    assert (response.error_code, bool(response.error_message)) == (code, True)
    assert describe(broker).error_code == GROUP_ID_NOT_FOUND, "a request that is refused leaves no trace"


def test_a_group_has_a_size() -> None:
    broker = start({"group.consumer.max.size": 1})
    one, two = Member(broker, "one"), Member(broker, "two")
    one.join()
    one.beat()
    assert two.fault(0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"]) == MAX_SIZE


def test_version_0_gives_out_ids(broker: InProcess) -> None:
    nobody = Member(broker, "")
    fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
    response = nobody.send(0, {}, version=0, **fields)
    assert (response.error_code, len(response.member_id)) == (0, 22)
    assert Member(broker, response.member_id).fault(response.member_epoch) == 0


def test_the_protocol_can_be_switched_off() -> None:
    broker = start({"group.coordinator.rebalance.protocols": "classic"})
    assert Member(broker, "one").fault(2) == UNSUPPORTED_VERSION
    assert describe(broker).error_code == UNSUPPORTED_VERSION


def test_the_feature_is_announced(broker: InProcess) -> None:
    request = plain("ApiVersions", client_software_name="test", client_software_version="1")
    response = client(broker).request(request, 4)
    assert ("group.version", 1) in [(each.name, each.max_version_level) for each in response.finalized_features]
    versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    assert (versions[68], versions[69]) == ((0, 1), (0, 1))


# Static members


def test_a_static_member_comes_back_to_its_partitions(broker: InProcess) -> None:
    one, two = Member(broker, "one", "first"), Member(broker, "two")
    one.join()
    two.join()
    kept = one.beat()
    one.beat()
    two.beat()
    response = one.send(-2)
    assert (response.error_code, response.member_epoch) == (0, -2)
    two.beat()
    assert state(broker)[1] == 3, "a static member that leaves for a while causes no rebalance"
    again = Member(broker, "one again", "first")
    assert again.join() == kept
    assert again.epoch == 3
    assert one.fault(3) == FENCED_INSTANCE
    assert sorted(member.member_id for member in describe(broker).members) == ["one again", "two"]


def test_an_instance_has_one_member(broker: InProcess) -> None:
    one = Member(broker, "one", "first")
    one.join()
    other = Member(broker, "other", "first")
    assert other.fault(0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"]) == UNRELEASED
    assert other.fault(2) == FENCED_INSTANCE
    assert one.fault(2, instance_id="second") == UNKNOWN_MEMBER
    assert other.leave() == FENCED_INSTANCE
    assert one.leave() == 0


def test_a_member_that_joins_again_with_another_instance_frees_the_old_one(broker: InProcess) -> None:
    one = Member(broker, "one", "first")
    one.join()
    one.join(instance_id="second")
    Member(broker, "two", "first").join()
    assert sorted((each.member_id, each.instance_id) for each in describe(broker).members) == [
        ("one", "second"), ("two", "first"),
    ]  # fmt: skip
    assert (
        Member(broker, "three", "second").fault(0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
        == UNRELEASED
    )


def test_before_4_4_an_instance_that_its_member_left_has_no_owner() -> None:
    broker = start(profile="kafka-4.3")
    one = Member(broker, "one", "first")
    one.join()
    one.join(instance_id="second")
    one.instance = "second"
    assert (
        Member(broker, "two", "first").fault(0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
        == UNRELEASED
    )
    assert one.leave() == 0
    response = Member(broker, "two", "first").send(0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
    assert (response.error_code, response.error_message) == (UNKNOWN_MEMBER, "Member one is not a member of group team.")


def test_a_static_member_that_stays_away_is_removed(broker: InProcess) -> None:
    one = Member(broker, "one", "first")
    one.join()
    one.leave(-2)
    broker.clock.advance(seconds=44)
    assert len(describe(broker).members) == 1
    broker.clock.advance(seconds=1)
    assert describe(broker).members == []


# Subscriptions


def test_a_changed_subscription_takes_partitions_at_once() -> None:
    broker = start(topics={"orders": 1, "parts": 1})
    one = Member(broker, "one")
    assert one.join("orders", "parts") == {"orders": [0], "parts": [0]}
    assert one.beat(subscribed_topic_names=["parts"]) == {"parts": [0]}
    assert one.beat() is None
    assert (one.epoch, state(broker)) == (3, ("Stable", 3, 3))


def test_new_partitions_and_topics_are_noticed(broker: InProcess) -> None:
    one = Member(broker, "one")
    assert one.join("orders", "later") == {"orders": [0, 1, 2, 3]}
    broker.create_topic("unrelated")
    assert (one.beat(), one.epoch) == (None, 2)
    broker.create_topic("later", 2)
    assert one.beat() == {"orders": [0, 1, 2, 3], "later": [0, 1]} | {}
    cluster = broker.engine.cluster
    broker._perform(lambda: at_once(cluster.adding_partitions(cluster.topics["later"], 3, 0, 1)), settles=False)
    assert one.beat() == {"later": [0, 1, 2], "orders": [0, 1, 2, 3]}
    broker.delete_topic("later")
    assert one.told(one.send(one.epoch, {})) == {"orders": [0, 1, 2, 3]}
    assert one.epoch == 5


def test_topics_by_regular_expression(broker: InProcess) -> None:
    one = Member(broker, "one")
    assert one.join(subscribed_topic_regex="order.*") == {}
    assert one.beat() == {"orders": [0, 1, 2, 3]}, "the regex was resolved after the first heartbeat"
    broker.create_topic("orders.eu")
    assert one.beat() is None, "the regex is not resolved again within 10 s"
    broker.clock.advance(seconds=11)
    one.beat()
    assert one.beat() == {"orders": [0, 1, 2, 3], "orders.eu": [0]}
    told = describe(broker).members[0]
    assert (told.subscribed_topic_regex, told.subscribed_topic_names) == ("order.*", [])
    two = Member(broker, "two")
    assert two.join(subscribed_topic_regex="order.*") == {}, "the regex is resolved, but one owns all partitions"
    one.beat()
    assert one.beat(subscribed_topic_regex="") == {}


def test_a_slow_regular_expression_is_matched_in_slices(broker: InProcess) -> None:
    for i in range(30):
        broker.create_topic("ab" * 120 + f".{i:02}")
    one = Member(broker, "one")
    assert one.join(subscribed_topic_regex=".*a.{199}[0-4]") == {}
    assert one.beat() is None, "some are left"
    broker.clock.advance(seconds=1)
    assert len(one.beat() or {}) == 15


# Assignors


def assign(name: str, members: dict[str, Subscriber], sizes: dict[bytes, int]) -> dict[str, dict[bytes, list[int]]]:
    topics = {tuple(sorted(member.topics)) for member in members.values()}
    taken = {t: {i for member in members.values() for i in member.given.get(t, ())} for t in sizes}
    made = at_once(ASSIGNORS[name](Group(members, sizes, len(topics) == 1, taken)))
    return {member: {t: sorted(held) for t, held in given.items()} for member, given in made.items()}


A, B = b"A" * 16, b"B" * 16
NONE: Partitions = {}


def test_range_gives_neighbours_and_static_members_come_first() -> None:
    members = {"x": Subscriber(None, [A, B], NONE), "y": Subscriber(None, [A], NONE), "z": Subscriber("i", [A, B], NONE)}
    assert assign("range", members, {A: 4, B: 2}) == {"z": {A: [0, 1], B: [0]}, "x": {A: [2], B: [1]}, "y": {A: [3]}}


def test_uniform_moves_as_little_as_it_can() -> None:
    members = {"x": Subscriber(None, [A], {A: (0, 1, 2, 3)}), "y": Subscriber(None, [A], NONE)}
    assert assign("uniform", members, {A: 5}) == {"x": {A: [0, 1, 2]}, "y": {A: [3, 4]}}
    members = {"x": Subscriber(None, [A], {A: (0,)}), "y": Subscriber(None, [A], NONE)}
    assert assign("uniform", members, {A: 5}) == {"x": {A: [0, 1]}, "y": {A: [2, 3, 4]}}, "the last gets the fifth partition"


def test_uniform_balances_different_subscriptions() -> None:
    members = {
        "x": Subscriber(None, [A, B], {A: (0, 1, 2, 3)}), "y": Subscriber(None, [A], NONE), "z": Subscriber(None, [B], NONE),
    }  # fmt: skip
    made = assign("uniform", members, {A: 4, B: 2})
    assert made == {"x": {A: [0, 1]}, "y": {A: [2, 3]}, "z": {B: [0, 1]}}


def test_the_order_of_javas_tables() -> None:
    assert set_of_names(["uniform", "range"]) == ["uniform", "range"]
    assert set_of_names(["zz-member-5", "m4"]) == ["zz-member-5", "m4"]
    assert set_of_numbers([17, 1, 16, 0]) == (16, 0, 17, 1)
    assert set_of_numbers([65_536, 65_537]) == (65_537, 65_536), "Java also uses the upper half of the hash"
    assert (buckets_of_copy(11), buckets_of_copy(12), buckets_for(12), buckets_for(13)) == (16, 32, 16, 32)
    assert hash_order([A, B], uuid_hash, 16) == [A, B]
    assert java_hash("uniform") == 4008040884


def test_the_assignor_that_most_members_want() -> None:
    broker = start(topics={"orders": 2, "parts": 2})
    one, two = Member(broker, "one"), Member(broker, "two")
    one.join("orders", "parts", server_assignor="range")
    two.join("orders", "parts")
    assert describe(broker).assignor_name == "range"
    assert one.beat() == {"orders": [0], "parts": [0]}
    three = Member(broker, "three")
    three.join("orders", "parts", server_assignor="uniform")
    one.beat(server_assignor="uniform")
    assert describe(broker).assignor_name == "uniform"


# Offsets and administration


def test_offsets_are_committed_with_the_members_epoch(broker: InProcess) -> None:
    one, two = Member(broker, "one"), Member(broker, "two")
    assert one.commit(5, epoch=3) == GROUP_ID_NOT_FOUND
    one.join()
    assert one.commit(5) == 0
    assert one.commit(5, epoch=3) == STALE_EPOCH
    assert one.commit(5, version=8) == UNSUPPORTED_VERSION
    assert two.commit(5, epoch=2) == UNKNOWN_MEMBER
    two.join()
    kept = one.beat() or {}
    lost = next(index for index in range(4) if index not in kept["orders"])
    one.beat()
    assert one.epoch == 3
    assert one.commit(6, partition=kept["orders"][0], epoch=2) == 0, (
        "the member owned the partition at epoch 2, and still owns it"
    )
    assert one.commit(6, partition=lost, epoch=2) == STALE_EPOCH
    assert one.commit(6, partition=kept["orders"][0], epoch=1) == STALE_EPOCH


def test_offsets_are_shown_to_members_at_their_epoch(broker: InProcess) -> None:
    one = Member(broker, "one")
    one.join()
    one.commit(7)
    assert one.fetch() == (0, 7)
    assert one.fetch(member_id="one", member_epoch=2) == (0, 7)
    assert one.fetch(member_id="one", member_epoch=1) == (STALE_EPOCH, None)
    assert one.fetch(member_id="two", member_epoch=2) == (UNKNOWN_MEMBER, None)


def test_administration_of_both_kinds(broker: InProcess) -> None:
    one = Member(broker, "one")
    one.join()
    one.commit(7)
    admin = client(broker)
    listed = admin.request(plain("ListGroups", states_filter=["stable"], types_filter=["Consumer"]), 5).groups
    assert [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed] == [
        (TEAM, "consumer", "Stable", "consumer")
    ]
    assert admin.request(plain("ListGroups", states_filter=[], types_filter=["classic"]), 5).groups == []
    classic = sole(admin.request(plain("DescribeGroups", groups=[TEAM]), 6).groups)
    assert (classic.error_code, classic.group_state) == (GROUP_ID_NOT_FOUND, "Dead")
    assert sole(admin.request(plain("DeleteGroups", groups_names=[TEAM]), 2).results).error_code == NON_EMPTY
    delete = offset_delete(TEAM)
    assert only(admin.request(delete, 0)).error_code == SUBSCRIBED
    one.leave()
    assert only(admin.request(delete, 0)).error_code == 0
    assert sole(admin.request(plain("DeleteGroups", groups_names=[TEAM]), 2).results).error_code == 0
    assert describe(broker).error_code == GROUP_ID_NOT_FOUND


def test_describe_shows_assignments_and_targets(broker: InProcess) -> None:
    one, two = Member(broker, "one", "first"), Member(broker, "two")
    one.join(rack_id="r1")
    two.join()
    one.beat()
    told = describe(broker)
    assert (told.group_state, told.group_epoch, told.assignment_epoch, told.assignor_name) == ("Reconciling", 3, 3, "uniform")
    first = next(member for member in told.members if member.member_id == "one")
    assert (first.instance_id, first.rack_id, first.member_epoch, first.member_type) == ("first", "r1", 2, 1)
    assert [each.partitions for each in first.assignment.topic_partitions] == [[0, 1, 2, 3]], (
        "the assignment includes partitions that the member has not revoked yet"
    )
    assert [len(each.partitions) for each in first.target_assignment.topic_partitions] == [2]
    assert describe(broker, "", 0).error_code == 24


def test_consumer_groups_survive_a_restart(broker: InProcess) -> None:
    one, two = Member(broker, "one"), Member(broker, "two")
    one.join()
    two.join()
    one.commit(3)
    broker.restart("kill")
    one.wire, two.wire = client(broker), client(broker)
    assert state(broker) == ("Reconciling", 3, 3)
    assert one.fetch() == (0, 3)
    kept = one.beat()
    assert kept is not None
    one.beat()
    assert two.beat() is not None
    broker.clock.advance(seconds=46)
    assert one.fault(3) == UNKNOWN_MEMBER, "the member's session began when the broker started"


def test_offsets_of_a_consumer_group_expire(broker: InProcess) -> None:
    one = Member(broker, "one")
    one.join()
    one.commit(3)
    one.leave()
    broker.clock.advance(days=6)
    assert one.fetch() == (0, 3)
    broker.clock.advance(days=2)
    assert describe(broker).error_code == GROUP_ID_NOT_FOUND, "the empty group was deleted with its last offset"


# Between the protocols


def test_an_empty_group_changes_its_protocol(broker: InProcess) -> None:
    old, new = ClassicConsumer(broker), Member(broker, "new")
    assert old.join().error_code == 0
    assert old.assign({"orders": [0, 1, 2, 3]}) == 0
    old.leave()
    new.join()
    assert (new.epoch, state(broker)) == (2, ("Stable", 2, 2)), "the new group starts again at epoch 2"
    assert old.heartbeat() == UNKNOWN_MEMBER
    new.leave()
    again = ClassicConsumer(broker)
    assert (again.join().error_code, again.generation) == (0, 1)
    assert describe(broker).error_code == GROUP_ID_NOT_FOUND


def test_a_group_changes_its_protocol_while_it_is_used(broker: InProcess) -> None:
    old, new = ClassicConsumer(broker), Member(broker, "new")
    old.join()
    old.assign({"orders": [0, 1, 2, 3]})
    assert new.join() == {}
    assert [member.member_type for member in sorted(describe(broker).members, key=lambda m: m.member_type)] == [0, 1]
    assert old.heartbeat() == REBALANCE
    old.join()
    assert old.assign() == 0
    assert len(old.owned["orders"]) == 2
    assert old.heartbeat() == REBALANCE, "the member must join again to confirm the revocation"
    old.join()
    assert old.assign() == 0
    assert old.heartbeat() == 0
    assert new.beat() == {"orders": [index for index in range(4) if index not in old.owned["orders"]]}
    assert new.leave() == 0
    listed = client(broker).request(plain("ListGroups", states_filter=[], types_filter=[]), 5).groups
    assert [(group.group_type, group.group_state) for group in listed] == [("classic", "PreparingRebalance")]
    assert old.heartbeat() == REBALANCE
    old.join()
    assert old.assign({"orders": [0, 1, 2, 3]}) == 0


def test_a_member_that_is_refused_leaves_a_classic_group_as_it_is(broker: InProcess) -> None:
    old, new = ClassicConsumer(broker), Member(broker, "new")
    old.join()
    old.assign({"orders": [0, 1, 2, 3]})
    assert new.fault(0, {}, rebalance_timeout_ms=60_000, subscribed_topic_regex="(") == 128
    for _ in range(2):
        broker.clock.advance(seconds=30)
        assert old.heartbeat() == 0, "the failed conversion has set no session timeout"


def test_a_group_whose_protocol_cannot_be_read_does_not_become_classic(broker: InProcess) -> None:
    new, old, odd = Member(broker, "new"), ClassicConsumer(broker), ClassicConsumer(broker)
    new.join()
    assert old.join().error_code == 0
    sticky = b"\0\1" + encode(ConsumerProtocolSubscription(topics=["orders"]), 1)
    assert odd.join(("sticky", sticky), ("range", b"")).error_code == 0
    assert new.leave() == GROUP_ID_NOT_FOUND
    assert new.fault(new.epoch) == 0, "the member is still in the group after the refused request"
    broker.clock.advance(minutes=2)
    assert new.fault(new.epoch) == UNKNOWN_MEMBER
    assert describe(broker).group_state == "Empty", "the classic members have expired"


def test_a_static_member_brings_the_group_back_to_the_classic_protocol(broker: InProcess) -> None:
    new, old = Member(broker, "new", "first"), ClassicConsumer(broker, "first")
    new.join()
    response = old.join()
    assert (response.error_code, response.protocol_name) == (0, "range")
    assert describe(broker).error_code == GROUP_ID_NOT_FOUND
    assert new.fault(2) == GROUP_ID_NOT_FOUND
    assert old.assign() == 0
    assert old.owned == {"orders": [0, 1, 2, 3]}


def test_a_classic_member_that_does_not_join_again_is_removed(broker: InProcess) -> None:
    old, new = ClassicConsumer(broker), Member(broker, "new")
    old.join()
    old.assign({"orders": [0, 1, 2, 3]})
    new.join()
    for _ in range(2):
        assert old.heartbeat() == REBALANCE
        new.beat()
        broker.clock.advance(seconds=29)
    new.beat()
    assert old.heartbeat() == REBALANCE
    broker.clock.advance(seconds=3)
    assert old.heartbeat() == UNKNOWN_MEMBER
    assert new.beat() == {"orders": [0, 1, 2, 3]}


def test_the_policy_may_forbid_a_change_of_the_protocol() -> None:
    broker = start({"group.consumer.migration.policy": "disabled"})
    old, new = ClassicConsumer(broker), Member(broker, "new")
    old.join()
    old.assign({"orders": [0, 1, 2, 3]})
    assert new.fault(0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"]) == GROUP_ID_NOT_FOUND
    assert old.heartbeat() == 0
    old.leave()
    new.join()
    assert ClassicConsumer(broker).join().error_code == 23


# A real client


def test_librdkafka_consumes_with_two_members(mock_kafka_factory: Callable[..., MockKafka]) -> None:
    settings = {"group.consumer.min.heartbeat.interval.ms": 100, "group.consumer.heartbeat.interval.ms": 100,
                "group.consumer.assignment.interval.ms": 0}  # fmt: skip
    broker = mock_kafka_factory(topics={"orders": 4}, configs=settings)
    config = {
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "real", "group.protocol": "consumer",
        "auto.offset.reset": "earliest", "enable.auto.commit": False,
    }  # fmt: skip
    found: set[bytes] = set()
    done = threading.Event()
    consumers = [confluent_kafka.Consumer(config) for _ in range(2)]

    def read(consumer: confluent_kafka.Consumer) -> None:
        consumer.subscribe(["orders"])
        while not done.is_set():
            message = consumer.poll(0.05)
            if message is not None and not message.error():
                found.add(message.value())
                consumer.commit(message, asynchronous=False)

    def shares() -> list[int]:
        return sorted(
            sum(len(each.partitions) for each in member.assignment.topic_partitions)
            for member in describe(broker, "real").members
        )

    threads = [threading.Thread(target=read, args=(consumer,)) for consumer in consumers]
    try:
        threads[0].start()
        broker.wait_until(lambda: shares() == [4], 20)
        threads[1].start()
        broker.wait_until(lambda: shares() == [2, 2] and describe(broker, "real").group_state == "Stable", 20)
        for i in range(40):
            broker.produce("orders", value=b"%d" % i, partition=i % 4)
        ends = threading.Event()
        for _ in range(200):
            if len(found) == 40 or ends.wait(0.05):
                break
    finally:
        done.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for consumer in consumers:
            consumer.close()
    assert found == {b"%d" % i for i in range(40)}
    assert describe(broker, "real").group_state == "Empty"


def test_a_classic_member_that_is_refused_leaves_an_empty_consumer_group_as_it_is(mock_kafka: MockKafka) -> None:
    wire = client(mock_kafka)
    wire.request(plain("FindCoordinator", key="g", key_type=0), 3)
    who = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 1000, "subscribed_topic_names": ["orders"]}
    heartbeat = plain("ConsumerGroupHeartbeat", **who, member_epoch=0, topic_partitions=[])
    assert wire.request(heartbeat, 1).error_code == 0
    assert wire.request(plain("ConsumerGroupHeartbeat", group_id="g", member_id="m", member_epoch=-1), 1).error_code == 0
    joins = join_group("g", "unknown", [("range", b"")], session_ms=30000, rebalance_ms=1000)
    assert wire.request(joins, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    (listed,) = wire.request(plain("ListGroups"), 5).groups
    assert (listed.group_id, listed.group_state, listed.group_type) == ("g", "Empty", "consumer")
