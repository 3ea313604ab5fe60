"""Long requests are handled in slices. An event between two slices can affect the long request and other requests."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafkawire.declare import Message
from kafkawire.errors import ErrorCode
from kafkawire.frames import decode_response, encode_request
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.registry import KEYS
from requesting import (
    Plain,
    create_topic,
    end_txn,
    find_coordinator,
    init_producer_id,
    named,
    offset_commit,
    plain,
    produce_request,
)
from wirebroker import faults
from wirebroker.common.slices import SLICE
from wirebroker.core.cluster import GROUP_TOPIC
from wirebroker.core.groups.consumer_group import ConsumerGroup
from wirebroker.core.groups.share_group import ShareGroup
from wirebroker.core.transactions.states import TransactionState
from wirebroker.engine.engine import Engine
from wirebroker.faults.rules import Rule
from wirebroker.requests.connection import Connection
from wirebroker.requests.effects import Respond
from wirebroker.storage.store import FolderStore
from wirekit import NOW, batch

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPICS, PARTITIONS = 300, 2
ALL = [f"topic-{i}" for i in range(TOPICS)]
GROUPS = 40


class World:
    """An engine with topics, groups and transactions. Its state is the same in every run."""

    def __init__(self, **settings: str) -> None:
        numbers = count()
        self.engine = Engine(
            NOW, lambda size: hashlib.sha256(b"%d" % next(numbers)).digest()[:size], cold_start=False,
            settings={"log.retention.check.interval.ms": "1000000000", "offsets.retention.minutes": "1"} | settings,
        )  # fmt: skip
        for i in range(TOPICS):
            self.engine.cluster.create_topic(f"topic-{i}", NOW, partitions=PARTITIONS)
        self.connection = self.engine.connect(1, now=NOW)
        for kind in (0, 1):
            self.ask(find_coordinator("x", kind=kind), 4)
        for i in range(GROUPS):
            self.ask(offset_commit(f"group-{i}", i, topic=f"topic-{i}", metadata="m"), 8)
            self.ask(init_producer_id(f"tx-{i}", 1000), 3)

    def ask(self, request: Message, version: int) -> bytes:
        """Sends a request and runs all its slices. Returns the response's frame."""
        self.send(request, version)
        self.slices = 1
        return self.response()

    def send(self, request: Message, version: int, connection: Connection | None = None) -> None:
        """Begin the request."""
        frame = encode_request(7, "slices", request, version)[4:]
        self.engine.receive(connection or self.connection, memoryview(frame), NOW)

    def go_on(self) -> None:
        """Runs slices until no work is left."""
        while self.step():
            pass

    def step(self) -> bool:
        """Runs one slice of a request or of other work. Returns False if there is no work."""
        turns = self.engine.turns
        if self.engine.timers.busy:
            self.engine.tick(NOW, lambda: True)
            self.slices += 1
        elif turns.offloads:
            unfinished, offload = turns.offloads.popleft()
            unfinished.do(offload)
            turns.resume(unfinished)
        elif turns.waiting:
            turns.proceed()
            self.slices += 1
        else:
            return False
        return True

    def response(self) -> bytes:
        """Runs the remaining slices of the request. Returns the only response. Fails if there are several responses."""
        self.go_on()
        (response,) = self.engine.take_effects()
        assert isinstance(response, Respond)
        return b"".join(response.parts)

    def driven(self) -> World:
        """Makes the engine handle long requests in slices. The test itself runs the slices."""
        self.engine.turns.wake = lambda: None
        self.engine.timers.in_slices = True
        return self


def fetch(topics: list[str], **fields: Any) -> Message:
    parts = [{"partition": i, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for i in range(PARTITIONS)]
    asked = named(topics, "topic", partitions=parts)
    return plain("Fetch", **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": asked} | fields)


def added(topics: list[str]) -> Plain:
    fields = PRODUCER | {"topics": named(topics, partitions=[0, 1])}
    return {f"v3_and_below_{name}": value for name, value in fields.items()}


def committed(topics: list[str]) -> Plain:
    part = {"partition_index": 1, "committed_offset": 7, "committed_metadata": "m"}
    who = {"group_id": "group-1", "generation_id_or_member_epoch": -1, "member_id": ""}
    return who | {"topics": named(topics, partitions=[part])}


PRODUCER = {"transactional_id": "tx-1", "producer_id": 1, "producer_epoch": 0}


class Wide(World):
    """An engine with one topic that has many partitions."""

    def __init__(self, partitions: int, rule: Rule) -> None:
        self.engine = Engine(NOW, Random(1).randbytes, cold_start=False)
        self.engine.cluster.create_topic("wide", NOW, partitions=partitions)
        self.engine.plan.add(rule)
        self.connection = self.engine.connect(1, now=NOW)
        self.slices = 0

    def after(self, request: Message, version: int) -> tuple[object, ...]:
        """Sends a request and runs all its slices. Returns the state after the request."""
        self.send(request, version)
        self.go_on()
        self.engine.tick(NOW + 10)
        self.go_on()
        ends = [partition.log_end_offset for partition in self.engine.cluster.partitions()]
        effects = [(type(each), each[1:]) for each in self.engine.take_effects() if any(each[1:])]
        return ends, effects, self.connection.state, [rule.fired for rule in self.engine.plan.rules]


RULES: dict[str, tuple[Callable[[], Rule], bool]] = {
    "an error in the response": (lambda: faults.error(3, after=True, partition=3), True),
    "a part that is refused": (lambda: faults.error(3, partition=3), True),
    "a late answer": (lambda: faults.delay(5, after=True), True),
    "a lost answer": (lambda: faults.lose_ack(), True),
    "a lost answer, and silence": (lambda: faults.lose_ack(then="silence"), True),
    "a lost request, and silence": (lambda: faults.lose_request(then="silence"), False),
    "changed bytes": (lambda: faults.cut(20), True),
    "a failing write": (lambda: faults.fail_write(partition=3), False),
    "a slow write": (lambda: faults.slow_write(5, partition=3), False),
    "another topic": (lambda: faults.lose_ack(topic="other"), True),
}


@pytest.mark.parametrize(("partitions", "acks"), [(1100, -1), (2100, 0)])
@pytest.mark.parametrize("name", RULES)
def test_faults_match_a_long_request_in_slices_as_at_once(name: str, partitions: int, acks: int) -> None:
    rule, divides = RULES[name]
    data = batch(timestamp=NOW)
    parts = [{"index": i, "records": data} for i in range(partitions)]
    request = plain("Produce", acks=acks, timeout_ms=1000, topic_data=named(["wide"], partition_data=parts))
    quick, slow = Wide(partitions, rule()), Wide(partitions, rule()).driven()
    assert slow.after(request, 9) == quick.after(request, 9)
    assert (slow.slices > 3) == divides
    assert not slow.connection.parked


def growth(name: str, partitions: int) -> Message:
    return plain("CreatePartitions", timeout_ms=1000, topics=named([name], count=partitions, assignments=None))


def deletion(*names: str) -> Message:
    return plain("DeleteTopics", timeout_ms=1000, topics=named(names))


def sizes(world: World) -> dict[str, int]:
    return {name: len(topic.partitions) for name, topic in world.engine.cluster.topics.items()}


def test_a_large_topic_is_created_in_slices_and_appears_as_a_whole() -> None:
    world = Wide(3, faults.throttle(5)).driven()
    first, second = world.engine.connect(1), world.engine.connect(1)
    world.send(create_topic("large", 500), 7, first)
    world.send(create_topic("large", 7), 7, second)
    world.send(growth("wide", 200), 3)
    while world.engine.turns.waiting:
        assert sizes(world)["wide"] in (3, 200)
        assert sizes(world).get("large", 500) == 500
        world.engine.turns.proceed()
        world.slices += 1
    assert world.slices > 50
    assert sizes(world) == {"wide": 200, "large": 500}
    world.go_on()
    said = [b"".join(effect.parts) for effect in world.engine.take_effects() if isinstance(effect, Respond)]
    assert [b"already exists" in each for each in said] == [False, False, True]


def test_what_is_half_made_when_the_broker_stops_is_not_there_afterwards() -> None:
    world = Wide(3, faults.throttle(5)).driven()
    world.send(create_topic("large", 500), 7, world.engine.connect(1))
    world.send(growth("wide", 200), 3)
    world.engine.turns.proceed()
    assert world.engine.cluster.growing == {"large", "wide"}
    world.engine.restart("clean", NOW)
    world.go_on()
    assert sizes(world) == {"wide": 3}
    assert not world.engine.cluster.growing
    world.connection = world.engine.connect(1)
    world.engine.take_effects()
    world.ask(create_topic("large", 2), 7)
    assert sizes(world) == {"wide": 3, "large": 2}


def test_a_topic_that_is_deleted_while_it_grows_is_gone() -> None:
    world = Wide(3, faults.throttle(5)).driven()
    world.send(growth("wide", 200), 3)
    world.send(deletion("wide"), 6, world.engine.connect(1))
    world.go_on()
    assert sizes(world) == {}


def test_partitions_made_while_a_broker_is_killed_are_led_by_others() -> None:
    world = cluster_of_three().driven()
    world.connection = world.engine.connect(1)
    world.send(create_topic("large", 300), 7)
    for _ in range(10):
        world.engine.turns.proceed()
    world.engine.kill_broker(2, NOW)
    world.go_on()
    assert {partition.leader for partition in world.engine.cluster.topics["large"].partitions} == {1, 3}


def cluster_of_three(store: FolderStore | None = None) -> World:
    world = Wide(3, faults.throttle(5))
    world.engine = Engine(NOW, Random(1).randbytes, brokers=3, cold_start=False, store=store)
    world.engine.cluster.create_topic("replicated", NOW, partitions=300, replication_factor=3)
    world.engine.cluster.create_internal_topic(GROUP_TOPIC, NOW)
    world.engine.cluster.decisions.write_down(NOW)
    return world


def leaders(world: World) -> list[tuple[int, int, list[int]]]:
    return [(each.leader, each.leader_epoch, each.in_sync) for each in world.engine.cluster.partitions()]


def test_a_killed_broker_is_replaced_in_slices() -> None:
    quick, slow = cluster_of_three(), cluster_of_three().driven()
    for world in (quick, slow):
        world.slices = 0
        world.engine.kill_broker(2, NOW)
    coordinators = slow.engine.cluster.topics[GROUP_TOPIC].partitions
    assert 2 not in {each.leader for each in coordinators}
    assert 2 in {leader for leader, _, _ in leaders(slow)}
    slow.go_on()
    assert slow.slices > 3
    assert leaders(slow) == leaders(quick)
    assert not slow.engine.controller.busy


def test_each_slice_of_a_change_is_written_down_by_itself(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, Random(1).randbytes, brokers=3)
    world = cluster_of_three(store).driven()
    written = [store.metadata.end_offset]
    world.engine.kill_broker(2, NOW)
    while world.engine.controller.busy:
        written.append(store.metadata.end_offset)
        assert not world.engine.cluster.decisions.pending
        world.engine.tick(NOW, lambda: True)
    written.append(store.metadata.end_offset)
    slices = [later - earlier for earlier, later in pairwise(written)]
    assert len(slices) > 3
    assert max(slices) <= 64
    store.abandon()
    again = FolderStore(tmp_path, Random(1).randbytes, brokers=3)
    found = [each for topic in again.metadata.image.topics.values() for each in topic.partitions.values()]
    assert [(each.leader, each.leader_epoch, list(each.in_sync)) for each in found] == leaders(world)
    again.abandon()


def test_a_change_waits_for_the_end_of_the_one_before() -> None:
    quick, slow = cluster_of_three(), cluster_of_three().driven()
    for world in (quick, slow):
        world.engine.kill_broker(2, NOW)
        world.engine.kill_broker(3, NOW)
        world.engine.start_broker(2, NOW)
    slow.engine.restart("kill", NOW)
    quick.engine.restart("kill", NOW)
    assert leaders(slow) == leaders(quick)


def test_the_next_request_is_handled_once_faults_have_let_a_long_one_go() -> None:
    world = Wide(3, faults.throttle(5)).driven()
    request = plain("DescribeProducers", topics=named(["wide"], partition_indexes=list(range(3000))))
    assert world.ask(request, 0)
    assert world.ask(request, 0)


def test_a_transaction_of_many_partitions_ends_in_slices() -> None:
    world = World().driven()
    world.ask(plain("AddPartitionsToTxn", **added(ALL)), 3)
    end = end_txn("tx-1", (1, 0), True)
    world.send(end, 3)
    transaction = world.engine.transactions.transactions["tx-1"]
    assert transaction.state is TransactionState.PREPARE_COMMIT
    assert len(world.engine.take_effects()) == 1, "as in Kafka, the response is sent as soon as the decision is stored"
    slices = 0
    while world.engine.timers.busy:
        world.engine.tick(NOW, lambda: True)
        slices += 1
    assert slices > 2
    assert transaction.state is TransactionState.COMPLETE_COMMIT
    ends = [partition.log_end_offset for partition in world.engine.cluster.partitions() if partition.topic[0] == "t"]
    assert ends == [1] * (TOPICS * PARTITIONS)


def test_the_expiration_of_many_offsets_is_done_in_slices() -> None:
    world = World().driven()
    world.ask(plain("OffsetCommit", **committed(ALL)), 8)
    held = world.engine.groups.offsets.of("group-1")
    left = {len(held)}
    while held:
        world.engine.tick(NOW + 600_000, lambda: True)
        left.add(len(held))
    assert len(left) > 2, "the offsets expire in more than one slice"
    world.engine.tick(NOW + 600_000)
    assert world.engine.groups.groups == {}


def test_offsets_of_deleted_topics_are_forgotten_in_slices() -> None:
    world = World().driven()
    world.ask(plain("OffsetCommit", **committed(ALL)), 8)
    groups = world.engine.groups
    for topic in ALL[5:]:
        groups.topic_deleted(topic)
    groups.forget_topics(NOW)
    assert len(groups.offsets.of("group-1")) > SLICE
    world.engine.tick(NOW)
    assert {topic for topic, _ in groups.offsets.of("group-1")} == set(ALL[:5])


def test_an_offset_of_a_topic_that_was_made_again_stays() -> None:
    world = World().driven()
    world.ask(plain("OffsetCommit", **committed(ALL)), 8)
    world.send(plain("DeleteTopics", topics=[{"name": ALL[-1]}], timeout_ms=1000), 6)
    while ALL[-1] in world.engine.cluster.topics:
        assert world.step()
    world.engine.cluster.create_topic(ALL[-1], NOW, partitions=PARTITIONS)
    offsets = world.engine.groups.offsets.of("group-1")
    other = world.engine.connect(1, now=NOW)
    assert (ALL[-1], 1) in offsets, "the old offset is still there"
    world.send(plain("OffsetCommit", **committed([ALL[-1]])), 8, other)
    world.go_on()
    assert (ALL[-1], 1) in offsets


@pytest.mark.parametrize(("api", "version"), [("OffsetCommit", 8), ("TxnOffsetCommit", 5)])
@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_is_deleted_during_a_commit_of_offsets_is_unknown_to_the_commit(
    api: str, version: int, again: bool
) -> None:
    """The groups forget the deleted topic before the commit writes the offsets."""
    world = World().driven()
    commit = {name: value for name, value in committed(ALL).items() if name in ("group_id", "topics")}
    world.send(plain(api, **commit | (PRODUCER if api == "TxnOffsetCommit" else {})), version)
    other = world.engine.connect(1, now=NOW)
    world.send(deletion(ALL[0]), 6, other)
    assert ALL[0] not in world.engine.cluster.topics
    world.engine.tick(NOW)
    if again:
        world.engine.cluster.create_topic(ALL[0], NOW, partitions=1)
    world.go_on()
    (frame,) = [b"".join(each.parts) for each in world.engine.take_effects() if each.connection is world.connection]
    response = decode_response(frame[4:], KEYS[api], version)[1]
    codes = Counter(part.error_code for topic in response.topics for part in topic.partitions)
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1, ErrorCode.NONE: len(ALL) - 1}
    assert {topic for topic, _ in world.engine.groups.offsets.all_of("group-1")} == set(ALL[1:])


def fetched(world: World, request: Message) -> dict[tuple[str, int], bytes]:
    """Sends a Fetch. Returns the partitions in the response, and their records."""
    world.send(request, 11)
    return said(world.response())


def said(frame: bytes) -> dict[tuple[str, int], bytes]:
    _, response = decode_response(frame[4:], FetchRequest.__schema__.key, 11)
    assert isinstance(response, FetchResponse)
    return {(t.topic, p.partition_index): bytes(p.records or b"") for t in response.responses for p in t.partitions}


def produce(world: World, topic: str, tag: str) -> bytes:
    """Append a record to the topic's first partition. Returns the stored batch."""
    partition = world.engine.cluster.partition(topic, 0)
    assert partition is not None
    other = world.engine.connect(1, now=NOW)
    world.send(produce_request(topic, batch(timestamp=NOW, tag=tag)), 9, other)
    return bytes(partition.log.read(partition.log_end_offset - 1, partition.log_end_offset, 1 << 20, True).data)


def test_a_waiting_fetch_of_many_partitions_is_answered_in_slices() -> None:
    world = World().driven()
    world.send(fetch(ALL, max_wait_ms=500), 11)
    world.go_on()
    assert world.engine.take_effects() == []
    data = produce(world, "topic-250", "v")
    world.go_on()
    produced, fetched = world.engine.take_effects()
    assert produced.connection is not world.connection
    assert isinstance(fetched, Respond)
    assert said(b"".join(fetched.parts))["topic-250", 0] == data
    partition = world.engine.cluster.partition("topic-1", 0)
    assert partition is not None
    assert not partition.waiting


@pytest.mark.parametrize("slices", range(0, 24, 3))
def test_appends_during_a_fetch_of_many_partitions_are_not_missed(slices: int) -> None:
    world = World().driven()
    world.send(fetch(ALL, max_wait_ms=500), 11)
    for _ in range(slices):
        if world.engine.turns.waiting:
            world.engine.turns.proceed()
    data = produce(world, "topic-0", "v")
    world.go_on()
    fetched = [effect for effect in world.engine.take_effects() if effect.connection is world.connection]
    assert isinstance(fetched[0], Respond)
    assert said(b"".join(fetched[0].parts))["topic-0", 0] == data


def test_a_session_of_many_partitions_continues_in_slices() -> None:
    world = World().driven()
    world.send(fetch(ALL, session_epoch=0), 11)
    frame = world.response()
    _, opened = decode_response(frame[4:], FetchRequest.__schema__.key, 11)
    data = produce(world, "topic-7", "v")
    world.engine.take_effects()
    more = fetch([], session_id=opened.session_id, session_epoch=1)
    assert fetched(world, more) == {("topic-7", 0): data}


def test_a_broker_that_stops_during_a_long_fetch_leaves_no_client_waiting() -> None:
    world = World().driven()
    world.send(fetch(ALL, max_wait_ms=500), 11)
    partition = world.engine.cluster.partition("topic-0", 0)
    assert partition is not None
    while not partition.waiting:
        world.engine.turns.proceed()
    world.engine.turns.drop()
    assert not partition.waiting


def test_a_broker_that_is_killed_at_the_end_of_a_long_fetch_leaves_nothing_behind() -> None:
    """The fetch has got records, and some of its partitions do not have its callback any more."""
    world = World().driven()
    world.send(fetch(ALL, max_wait_ms=500), 11)
    world.go_on()
    partitions = list(world.engine.cluster.partitions())
    watched = sum(bool(each.waiting) for each in partitions)
    produce(world, "topic-250", "v")
    while sum(bool(each.waiting) for each in partitions) == watched:
        assert world.step()
    assert any(each.waiting for each in partitions)
    world.engine.kill_broker(1, NOW)
    world.go_on()
    assert not any(each.waiting for each in partitions)


def test_a_long_fetch_whose_client_leaves_before_it_waits_does_not_wait() -> None:
    world = World().driven()
    world.send(fetch(ALL, max_wait_ms=500), 11)
    assert world.engine.turns.waiting
    world.engine.disconnected(world.connection)
    world.go_on()
    assert not any(each.waiting for each in world.engine.cluster.partitions())


def test_a_long_produce_whose_client_leaves_before_it_waits_does_not_wait() -> None:
    world = cluster_of_three().driven()
    world.engine.cluster.create_topic("large", NOW, partitions=4 * SLICE, replication_factor=3)
    partitions = world.engine.cluster.topics["large"].partitions
    led = [index for index, each in enumerate(partitions) if each.leader == 1]
    held = partitions[led[0]]
    world.engine.controller.freeze_replica("large", led[0], 2, NOW)
    connection = world.engine.connect(1, now=NOW)
    data = [{"index": index, "records": batch(timestamp=NOW)} for index in led]
    topics = named(["large"], partition_data=data)
    world.send(plain("Produce", acks=-1, timeout_ms=5000, transactional_id=None, topic_data=topics), 9, connection)
    assert world.engine.turns.waiting
    world.engine.disconnected(connection)
    world.go_on()
    assert held.high_watermark < held.log_end_offset
    assert not held.waiting


# Groups that subscribe to many topics


MANY = 3000
"""The number of topics to which a group subscribes. With so many topics, a heartbeat takes several slices."""


class Groups(World):
    """A world with many topics. Each member sends its heartbeats on its own connection."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        self.topics = [f"many-{i}" for i in range(MANY)]
        for name in self.topics:
            self.engine.cluster.create_topic(name, NOW, partitions=1)
        self.now = NOW
        self.slices = 0
        self._connections: dict[str, Connection] = {}

    def begin(self, member: str, request: Message) -> None:
        """Begin the member's request."""
        if member not in self._connections:
            self._connections[member] = self.engine.connect(1, now=self.now)
        frame = encode_request(7, "slices", request, self._connections[member].versions[request.__schema__.key][1])[4:]
        self.engine.receive(self._connections[member], memoryview(frame), self.now)

    def responses(self) -> list[tuple[str, Any]]:
        """Returns the responses that the engine has sent since the last call. Each response comes with the member that gets
        it.
        """
        responses = [each for each in self.engine.take_effects() if isinstance(each, Respond) and each.parts]
        of = {connection: member for member, connection in self._connections.items()}
        return [(of[each.connection], b"".join(each.parts)) for each in responses]

    def left(self, member: str) -> None:
        """Close the member's connection."""
        self.engine.disconnected(self._connections.pop(member))

    def beat(self, member: str, **fields: Any) -> bytes:
        """Sends a member's heartbeat, and returns the response."""
        self.now += 2000
        self.slices = 1
        self.begin(member, consumer_beat(member, **fields))
        self.go_on()
        ((_, response),) = self.responses()
        self.engine.tick(self.now + 1000)  # matches regular expressions
        return response


def consumer_beat(member: str, epoch: int = 0, **fields: Any) -> Message:
    joins = epoch == 0
    fields = {"subscribed_topic_names": [] if joins else None, "topic_partitions": [] if joins else None} | fields
    who = {"group_id": "large", "member_id": member, "member_epoch": epoch}
    return plain("ConsumerGroupHeartbeat", rebalance_timeout_ms=60_000 if joins else -1, **who, **fields)


def share_beat(member: str, epoch: int = 0, **fields: Any) -> Message:
    return plain("ShareGroupHeartbeat", group_id="large", member_id=member * 22, member_epoch=epoch, **fields)


def streams_join(member: str, topics: list[str]) -> Message:
    topology = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": topics}]}
    tasks: Plain = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    who = {"group_id": "streams", "member_id": member, "process_id": member, "rebalance_timeout_ms": 60_000}
    return plain("StreamsGroupHeartbeat", topology=topology, **who, **tasks)


def played(world: Groups, assignor: str) -> list[bytes]:
    """Members join, get partitions that other members give up, and leave. One member subscribes to only half of the topics."""
    names, wants = world.topics, {"server_assignor": assignor}
    return [
        world.beat("a", subscribed_topic_names=names, **wants),
        world.beat("b", subscribed_topic_names=names, **wants),
        world.beat("a", epoch=2),
        world.beat("a", epoch=2, topic_partitions=[]),
        world.beat("b", epoch=3),
        world.beat("c", subscribed_topic_names=names[::2], **wants),
        world.beat("a", epoch=3),
        world.beat("b", epoch=-1),
        world.beat("d", subscribed_topic_regex="many-.*"),
        world.beat("a", epoch=4),
    ]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_consumer_group_with_many_topics_works_in_slices_with_the_same_responses(assignor: str) -> None:
    at_once, in_slices = Groups(), Groups().driven()
    assert played(in_slices, assignor) == played(at_once, assignor)
    in_slices.beat("e", subscribed_topic_names=in_slices.topics)
    assert in_slices.slices > 20


def test_share_and_streams_groups_with_many_topics_work_in_slices() -> None:
    world = Groups().driven()
    joins = streams_join("a", world.topics)
    for request, least in ((share_beat("a", subscribed_topic_names=world.topics), 50), (joins, 5)):
        world.slices = 1
        world.begin("a", request)
        assert world.engine.take_effects() == []
        world.go_on()
        assert len(world.responses()) == 1
        assert world.slices > least


@pytest.mark.parametrize("settings", [{}, {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}])
def test_a_request_for_a_group_that_is_being_changed_waits_until_that_is_done(settings: dict[str, str]) -> None:
    world = Groups(**settings).driven()
    for member in "ab":
        world.begin(member, consumer_beat(member, subscribed_topic_names=world.topics))
    world.begin("c", plain("ConsumerGroupDescribe", group_ids=["large"]))
    world.go_on()
    members = [member for member, _ in world.responses()]
    group = world.engine.groups.groups["large"]
    assert isinstance(group, ConsumerGroup)
    assert sorted(members) == ["a", "b", "c"]
    assert [(each.member_id, each.epoch) for each in group.members.values()] == [("a", 2), ("b", 2)]


def test_a_change_of_a_group_waits_for_a_change_that_began_while_its_topology_was_read() -> None:
    world = Groups().driven()
    for member in "ab":
        world.begin(member, streams_join(member, world.topics))
    world.go_on()
    assert sorted(member for member, _ in world.responses()) == ["a", "b"]
    assert list(world.engine.groups.groups["streams"].members) == ["a", "b"]


def test_a_session_that_ends_during_a_change_of_its_group_ends_after_it() -> None:
    world = Groups().driven()
    world.beat("a", subscribed_topic_names=world.topics)
    world.now += 44_000
    world.begin("b", consumer_beat("b", subscribed_topic_names=world.topics))
    for _ in range(5):
        world.step()
    group = world.engine.groups.groups["large"]
    assert list(group.members) == ["a"], "the change is not visible before its last slice"
    world.engine.tick(world.now + 2_000)
    assert list(group.members) == ["b"]
    world.go_on()
    assert [member for member, _ in world.responses()] == ["b"]


def test_a_change_of_a_group_is_dropped_when_its_broker_stops() -> None:
    world = Groups().driven()
    world.beat("a", subscribed_topic_names=world.topics)
    log = world.engine.cluster.coordinator_log("group", "large")
    assert log is not None
    end, dropped = log.log_end_offset, 0
    while True:
        world.now += 2000
        world.begin("b", consumer_beat("b", subscribed_topic_names=world.topics))
        for _ in range(dropped):
            world.step()
        if log.log_end_offset > end:
            break
        world.engine.turns.drop()
        world.engine.turns.offloads.clear()
        world.left("b")
        group = world.engine.groups.groups["large"]
        assert isinstance(group, ConsumerGroup)
        assert (list(group.members), group.epoch, len(group.subscriptions.names)) == (["a"], 2, MANY)
        dropped += 1
    assert dropped > 10


def test_a_heartbeat_brings_no_group_back_whose_log_is_deleted_meanwhile() -> None:
    world = Groups().driven()
    world.begin("a", share_beat("a", subscribed_topic_names=world.topics))
    while "large" not in world.engine.groups.groups:
        world.step()
    world.send(deletion(GROUP_TOPIC), 6)
    world.go_on()
    assert world.engine.groups.groups == {}


def test_topics_that_are_deleted_together_are_forgotten_by_a_share_group_in_one_record() -> None:
    world = Groups()
    for epoch in (0, 2):
        world.now += 2000
        world.begin("a", share_beat("a", epoch, subscribed_topic_names=world.topics))
    log = world.engine.cluster.coordinator_log("group", "large")
    group = world.engine.groups.groups["large"]
    assert log is not None
    assert isinstance(group, ShareGroup)
    assert group.preparation is not None
    assert len(group.preparation.initialized) == MANY
    end, states = log.log_end_offset, len(world.engine.groups.share_state.states)
    world.begin("a", deletion(*world.topics[:100]))
    assert len(group.preparation.initialized) == MANY - 100
    assert len(world.engine.groups.share_state.states) == states - 100
    assert log.log_end_offset == end + 1
