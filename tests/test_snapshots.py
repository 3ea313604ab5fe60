"""Snapshots: a broker goes back to its state at an earlier moment. To clients, this looks like a restart with the logs of that
moment.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from actors import Reader
from controlkit import ControlClient
from dialogue import tagged
from random_dialogues.replay import load, replay
from requesting import delete_records, plain
from responses import sole
from test_share_groups import ACCEPT, shared_by
from test_storage_coordinators import DATA, state_of
from test_transactions import started
from wirebroker import MockKafka, faults
from wirebroker.control.controlled import MOST_SNAPSHOTS
from wirebroker.core.cluster import Broker, Cluster, Topic
from wirebroker.core.config_resources import ResourceType
from wirebroker.core.configs import BrokerConfigs, TopicConfigs
from wirebroker.core.leader_epochs import LeaderEpochs
from wirebroker.core.logs.memory import MemoryLog, Segment
from wirebroker.core.open_transactions import OpenTransactions
from wirebroker.core.partition import Partition
from wirebroker.core.replication import Replication
from wirebroker.engine.engine import Engine
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import BASE_SETTINGS
from wirekit import RawProducer, client

OUT_OF_ORDER, UNSTABLE = 45, 88
Start = Callable[..., MockKafka]


@pytest.fixture
def kafka(mock_kafka_factory: Start) -> MockKafka:
    return mock_kafka_factory(topics={"orders": 2, "results": 1})


def everything(engine: Engine) -> dict[str, Any]:
    """Returns a broker's state. The state includes the full windows of producers. It does not include leader epochs, because
    they never decrease.
    """
    found = state_of(engine)
    found["producers"] = {(p.topic, p.index): dict(p.producers) for p in engine.cluster.partitions()}
    found["logs"] = {where: offsets[:3] for where, offsets in found["logs"].items()}
    found["bytes"] = {(p.topic, p.index): b"".join(p.log.batches()) for p in engine.cluster.partitions()}
    found["shares"] = dict(engine.groups.share_state.states)
    return found


@pytest.mark.parametrize("subject", ["groups", "transactions"])
def test_after_hundreds_of_random_dialogues_all_is_as_it_was(subject: str) -> None:
    dialogues = list(load(DATA / f"dialogues-{subject}.jsonl.gz"))[::4]
    half = len(dialogues) // 2
    with OwnBroker(BASE_SETTINGS) as broker:
        kafka = broker.kafka
        for dialogue in dialogues[:half]:
            assert replay(dialogue, broker.address).difference is None
        snapshot = kafka.snapshot()
        before = kafka._call(everything)
        for dialogue in dialogues[half:]:
            replay(dialogue, broker.address)
        kafka.restore(snapshot)
        after = kafka._call(everything)
    for what, known in before.items():
        assert after[what] == known, what
    assert len(before["transactions" if subject == "transactions" else "classic"]) > 5


def test_a_retry_is_recognised_by_the_whole_window(kafka: MockKafka) -> None:
    producer = RawProducer(kafka)
    for sequence in range(4):
        assert producer.send(sequence).base_offset == sequence
    snapshot = kafka.snapshot()
    for round in range(2):
        assert producer.send(4).base_offset == 4
        kafka.restore(snapshot)
        producer.wire = client(kafka)
        assert [producer.send(sequence).base_offset for sequence in range(4)] == [0, 1, 2, 3], (
            "not only the last batch but all batches of the window are recognised"
        )
        assert producer.send(6).error_code == OUT_OF_ORDER
        assert [record.value for record in kafka.records("orders")] == [b"v0", b"v1", b"v2", b"v3"], round


def test_an_open_transaction_is_open_again(kafka: MockKafka) -> None:
    producer = started(kafka)
    assert producer.send("a").error_code == 0
    assert Reader(kafka).committed_offset("g") == (0, -1)
    assert producer.send_offsets("g", 7) == 0
    snapshot = kafka.snapshot()
    state, sequences = (producer.pid, producer.epoch), dict(producer.sequences)
    for commit, values in ((False, []), (True, ["a0"])):
        assert producer.end(commit=commit) == 0
        assert Reader(kafka).values() == values
        kafka.restore(snapshot)
        producer.wire = client(kafka)
        (producer.pid, producer.epoch), producer.sequences = state, dict(sequences)
        assert kafka.partition("orders").last_stable_offset == 0
        assert Reader(kafka).committed_offset("g") == (UNSTABLE, -1)
    assert producer.send("b").error_code == 0
    assert producer.end(commit=True) == 0
    assert Reader(kafka).values() == ["a0", "b1"]
    assert Reader(kafka).committed_offset("g") == (0, 7)


def test_the_metadata_goes_back_and_ids_do_not_come_twice(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(
        brokers=3, topics={"orders": {"partitions": 2, "replication_factor": 3}}, random_seed=1, clock="frozen",
        acls=["allow User:alice READ TOPIC orders"], users={"alice": "secret"},
    )  # fmt: skip
    kafka.clock.advance(days=1)
    kafka.move_leader("orders", 0, to=kafka.partition("orders").replicas[1])
    kafka.quotas.set(client_id="app", producer_byte_rate=1000)
    kafka._call(lambda engine: engine.configs.alter({"log.retention.ms": "4000"}))
    pid = kafka._call(lambda engine: engine.cluster.new_producer_id(1, engine.now))

    def seen(engine: Engine) -> Any:
        cluster, configs = engine.cluster, engine.configs
        return (
            {name: (topic.topic_id, topic.configs.overrides) for name, topic in cluster.topics.items()},
            dict(cluster.acls.ids), dict(cluster.quotas.limits), dict(cluster.scram), dict(engine.authenticator.passwords),
            {node: dict(layer) for node, layer in configs.dynamic.items()}, dict(configs.features),
            [(each.leader, each.replicas, each.in_sync) for each in cluster.partitions()],
        )  # fmt: skip

    snapshot, before, now = kafka.snapshot(), kafka._call(seen), kafka.clock.now()
    kafka.delete_topic("orders")
    kafka.create_topic("more")
    kafka.quotas.set(client_id="other", producer_byte_rate=1000)
    kafka._call(lambda engine: engine.configs.alter({"log.retention.ms": "5000"}))
    kafka._call(lambda engine: engine.cluster.alter_acls((), list(engine.cluster.acls)))
    kafka.clock.advance(days=1)
    kafka.faults.add(faults.lose_ack(api="Produce"))
    kafka.restore(snapshot)
    assert (kafka._call(seen), kafka.clock.now(), kafka.faults.rules) == (before, now, [])
    assert kafka._call(lambda engine: engine.cluster.new_producer_id(1, engine.now)) > pid
    for name in ("a", "b", "c"):
        kafka.create_topic(name)
    assert len(kafka._call(lambda engine: {topic.topic_id for topic in engine.cluster.topics.values()})) == 4


@pytest.mark.parametrize("profile", ["kafka-4.0", "kafka-4.4"])
def test_settings_can_be_read_and_changed_after_a_restore(mock_kafka_factory: Start, profile: str) -> None:
    kafka = mock_kafka_factory(profile=profile, topics=["orders"])
    snapshot = kafka.snapshot()
    kafka.restore(snapshot)
    asked = plain("DescribeConfigs", resources=[{"resource_type": 2, "resource_name": "orders", "configuration_keys": None}])
    assert sole(client(kafka).request(asked, 4).results).error_code == 0
    kafka.restore(kafka.snapshot())


def test_a_consumer_that_lives_on_notices_that_records_are_gone(kafka: MockKafka) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("orders", 0, 0)])

    def read(count: int) -> list[bytes | None]:
        return [message.value() for message in consumer.consume(count, timeout=20)]

    client(kafka).request(tagged("old", 2), 9)
    assert read(2) == [b"old0", b"old1"]
    snapshot = kafka.snapshot()
    epoch = kafka.partition("orders").leader_epoch
    for later in (1, 2):
        client(kafka).request(tagged("gone", 2), 9)
        assert read(2) == [b"gone0", b"gone1"]
        kafka.restore(snapshot)
        state = kafka.partition("orders")
        assert (state.leader_epoch, state.log_end_offset) == (epoch + later, 2)
    client(kafka).request(tagged("new", 3), 9)
    assert read(3) == [b"new0", b"new1", b"new2"], "the consumer continues at the end offset of the restored log"
    consumer.close()


def test_a_restored_log_is_compacted_as_soon_as_before(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(clock="frozen")
    kafka.create_topic("kept", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "1000"})
    for _ in range(3):
        kafka.produce("kept", key=b"k", value=b"v")
    kafka.clock.advance(seconds=5)
    kafka.produce("kept", key=b"q", value=b"v")
    snapshot = kafka.snapshot()
    kafka.restore(snapshot)
    assert [record.offset for record in kafka.records("kept")] == [0, 1, 2, 3]
    kafka.clock.advance(seconds=20)  # log.cleaner.backoff.ms has passed, but not log.retention.check.interval.ms
    assert [record.offset for record in kafka.records("kept")] == [2, 3]


@pytest.mark.parametrize("goes", ["a topic is deleted", "a snapshot lacks the topic", "a snapshot lacks a partition"])
def test_a_partition_that_comes_back_has_a_later_leader_epoch(kafka: MockKafka, goes: str) -> None:
    early = kafka.snapshot()
    grows = goes == "a snapshot lacks a partition"
    topic, index = ("orders", 2) if grows else ("new", 0)
    if grows:
        client(kafka).request(
            plain("CreatePartitions", topics=[{"name": "orders", "count": 3, "assignments": None}], timeout_ms=1000), 3
        )
    else:
        kafka.create_topic("new")
    snapshot = kafka.snapshot()
    for _ in range(3):
        kafka.restore(snapshot)
    epoch = kafka.partition(topic, index).leader_epoch
    assert epoch == 3
    if goes == "a topic is deleted":
        kafka.delete_topic("new")
    else:
        kafka.restore(early)
        kafka.restore(early)
    kafka.restore(snapshot)
    assert kafka.partition(topic, index).leader_epoch > epoch


def test_thousands_of_records_and_a_client_that_goes_on(kafka: MockKafka) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    producer = Producer(settings | {"enable.idempotence": True})
    values = [f"{number}".encode() * 50 for number in range(6000)]
    for number, value in enumerate(values):
        producer.produce("orders", value, partition=number % 2)
    assert producer.flush(20) == 0

    def read(count: int) -> list[bytes | None]:
        """Returns the values of the records that a new member of the group consumes."""
        reader = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False})
        reader.subscribe(["orders"])
        found = [message.value() for message in reader.consume(count, timeout=20)]
        reader.commit(asynchronous=False)
        reader.close()
        return found

    assert len(read(4000)) == 4000
    snapshot = kafka.snapshot()
    committed = kafka.groups()["g"].offsets
    rest = sorted(filter(None, read(2000)))
    for _ in range(2):
        kafka.restore(snapshot)
        assert kafka.groups()["g"].offsets == committed
        stored = [[record.value for record in kafka.records("orders", partition=each)] for each in (0, 1)]
        assert stored == [values[each::2] for each in (0, 1)]
        assert sorted(filter(None, read(2000))) == rest
    producer.produce("orders", b"after", partition=0)  # this producer sent nothing between the snapshot and the restore
    assert producer.flush(20) == 0
    assert read(1) == [b"after"]


def test_a_snapshot_is_refused_that_would_lack_something(mock_kafka_factory: Start, tmp_path: Path) -> None:
    kafka = mock_kafka_factory(brokers=2, topics={"orders": {"replication_factor": 2}})
    follower = kafka.partition("orders").replicas[1]
    kafka.freeze_replica("orders", 0, follower)
    with pytest.raises(RuntimeError, match="a replica of orders-0 lags"):
        kafka.snapshot()
    kafka.thaw_replica("orders", 0, follower)
    kafka.kill_broker(follower)
    with pytest.raises(RuntimeError, match=f"broker {follower} is down"):
        kafka.snapshot()
    kafka.start_broker(follower)
    snapshot = kafka.snapshot()
    with pytest.raises(RuntimeError, match="keeps its data in"):
        mock_kafka_factory(data=tmp_path).snapshot()
    with pytest.raises(ValueError, match="of another MockKafka"):
        mock_kafka_factory().restore(snapshot)


def test_snapshots_over_http(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(topics=["orders"], control=True)
    control = ControlClient(kafka.control_url)
    kafka.produce("orders", value="kept")
    made = control.ask("POST", "/snapshots")["id"]
    kafka.produce("orders", value="gone")
    assert control.ask("POST", f"/snapshots/{made}/restore")["status"] == "ok"
    assert [record.value for record in kafka.records("orders")] == [b"kept"]
    for _ in range(MOST_SNAPSHOTS - 1):
        control.ask("POST", "/snapshots")
    assert "at most 16 snapshots" in control.refused("POST", "/snapshots")["detail"]
    control.ask("DELETE", f"/snapshots/{made}")
    assert "there is no snapshot 1" in control.refused("POST", f"/snapshots/{made}/restore")["detail"]
    assert control.ask("POST", "/snapshots")["id"] > made


def test_a_share_group_continues_with_what_is_not_acknowledged(mock_kafka_factory: Start) -> None:
    kafka = mock_kafka_factory(topics={"t": 1}, clock="frozen")
    for value in range(4):
        kafka.produce("t", value=str(value))
    group, first = shared_by(kafka, "a")
    assert first == [(0, 3, 1)]
    assert group.fetch("a", [(1, 2, ACCEPT)], max_records=0) is not None
    snapshot = kafka.snapshot()
    for _ in range(2):
        assert group.fetch("a", [(0, 0, ACCEPT), (3, 3, ACCEPT)], max_records=0) is not None
        kafka.restore(snapshot)
        group.close()
        group.begin_again()
        group.fetch("a")
        assert [(first, last) for first, last, _ in group.acquired(group.fetch("a"))] == [(0, 0), (3, 3)]
    group.close()


WHOLE = "a snapshot is refused unless all replicas have the whole log at their places, and all brokers run"
OPTIONS = "the options of the broker, or its release, determine it"
DERIVED = "it is derived from what is kept"
LATER = "after a restore, as after a restart, it starts from its beginning"
IMAGE = "test_the_metadata_goes_back_and_ids_do_not_come_twice compares it"
NEVER_BACK = "it never goes back, because clients have seen it"
LACKS: dict[type, dict[str, str]] = {
    Cluster: {
        OPTIONS: "rules full_checks cluster_id _open_log log_dirs metadata_log cold_start",
        "the options determine these times": "loading_ms auto_creation_ms deletion_ms",
        IMAGE: "random_bytes producer_ids scram acls quotas tokens",
        LATER: "timers _unloaded deleting growing _due version topics_created decisions watch rolled",
        NEVER_BACK: "last_epoch",
        DERIVED: "topics_by_id",
        "what ZooKeeper remembers of topics that no broker has; a data directory lacks it, too": "stillborn refused_settings",
    },
    BrokerConfigs: {OPTIONS: "release definitions static apart topic_static", DERIVED: "version _cache _shown _props"},
    Broker: {OPTIONS: "node_id addresses rack versions", WHOLE: "running registered in_quorum stopped", LATER: "loggers"},
    Topic: {},
    TopicConfigs: {OPTIONS: "broker", DERIVED: "_values"},
    Partition: {
        WHOLE: "adding removing in_sync eligible last_known_leader offline_at lost_records",
        OPTIONS: "_settings configs rules full_checks",
        DERIVED: "held_at fast_path",
        LATER: "deleted waiting rolled write_fails",
        NEVER_BACK: "leader_epoch epochs",
    },
    Replication: {WHOLE: "frozen lagging", OPTIONS: "uncapped", DERIVED: "_partition"},
    OpenTransactions: {WHOLE: "_unreplicated", LATER: "verifications"},
    MemoryLog: {DERIVED: "active", LATER: "last_epoch"},
    Segment: {LATER: "_at _capacity _chunk _apart _next_chunk", DERIVED: "_starts _views"},
}
"""What a snapshot does not have, by class and reason. A snapshot has all other fields of these classes."""


def kept(thing: Any, shown: dict[tuple[str, str], set[str]]) -> Any:
    """Returns what a snapshot has of a broker's state, in a form that can be compared. Adds all values of each field to
    `shown`."""
    if isinstance(thing, Mapping):
        return {key: kept(value, shown) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [kept(each, shown) for each in thing]
    if isinstance(thing, LeaderEpochs):
        return thing.starts
    if isinstance(thing, array):
        return list(thing)
    known = next((kind for kind in type(thing).__mro__ if kind in LACKS), None)
    if known is None:
        return thing
    names = [name for name in dir(thing) if not isinstance(getattr(type(thing), name, None), FunctionType | property)]
    names = [name for name in names if not name.startswith("__") and hasattr(thing, name)]
    lacks = {name for texts in LACKS[known].values() for name in texts.split()}
    assert lacks <= {*names}, f"{known.__name__} has no {lacks - {*names}}"
    found = {name: kept(getattr(thing, name), shown) for name in names if name not in lacks}
    for name, value in found.items():
        shown.setdefault((known.__name__, name), set()).add(repr(value))
    return found


def change_what_a_snapshot_has(kafka: MockKafka) -> None:
    """Changes all state that snapshots of Kafka 4.3 have."""
    kafka.upgrade("kafka-4.4", node_id=2, finalize=False)
    kafka.telemetry.subscribe()
    of_group = {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "46000"}
    altered = {"resource_type": ResourceType.GROUP, "resource_name": "team", "configs": [of_group]}
    client(kafka).request(plain("IncrementalAlterConfigs", resources=[altered], validate_only=False), 1)
    kafka.produce("c", value="deleted by the soft reset")
    kafka.reset(soft=True)
    kafka.move_leader("a.b", 0, to=2)
    kafka.move_leader("a.b", 1, to=1)
    kafka.produce("kept", key="same", value="same")
    for _ in range(3):
        kafka.produce("kept", key="same", value="same")
        kafka.produce("kept", key="same", value="same", partition=1)
        kafka.clock.advance(seconds=20)
    assert len(kafka.records("kept")) < 7, "the log is compacted"
    producer = started(kafka, txid="one")  # node 1 is its coordinator
    for sends in range(2):
        assert producer.send("a", "a.b", 1).error_code == 0
        if not sends:
            assert producer.end(commit=False) == 0
    kafka.kill_broker(1)
    kafka.start_broker(1)
    moved = {"path": "/b", "topics": [{"name": "a.b", "partitions": [1]}]}
    assert sole(sole(client(kafka).request(plain("AlterReplicaLogDirs", dirs=[moved]), 1).results).partitions).error_code == 0


def test_a_snapshot_has_every_field_of_these_classes(mock_kafka_factory: Start) -> None:
    """A new field fails this test until a snapshot has it and the test changes it, or `LACKS` says why a snapshot lacks it."""
    compacted = {"cleanup.policy": "compact", "segment.ms": 1000, "min.cleanable.dirty.ratio": 0.1}
    topics = {"a.b": {"partitions": 2, "replication_factor": 2}, "c": 1, "kept": {"partitions": 2, "configs": compacted}}
    options = {"brokers": 2, "clock": "frozen", "telemetry": True, "topics": topics}
    kafka = mock_kafka_factory(
        **options, configs={"log.dirs": "/a,/b"}, profile="kafka-4.3", features={"transaction.version": 1}
    )
    change_what_a_snapshot_has(kafka)
    old = mock_kafka_factory(**options, profile="kafka-2.3")
    assert RawProducer(old, "c").send(0, version=7).error_code == 0
    old.clock.advance(minutes=2)
    client(old).request(delete_records(1, topic="c"), 1)
    shown: dict[tuple[str, str], set[str]] = {}
    for each in (kafka, old):
        snapshot = each.snapshot()
        before = each._call(lambda engine: kept(engine.cluster, shown))
        each.restore(snapshot)
        assert each._call(lambda engine: kept(engine.cluster, {})) == before
    alike = sorted(f"{kind}.{name}" for (kind, name), values in shown.items() if len(values) == 1)
    assert not alike, f"this test does not see whether a snapshot has {', '.join(alike)}"
