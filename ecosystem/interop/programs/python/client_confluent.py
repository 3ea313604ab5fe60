"""The checks with confluent-kafka, a wrapper of librdkafka, and with its AdminClient. Version 1.9 lacks most of the admin
calls."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from kit import LIMIT, OVER, REFUSED, SECURED, numbered, run, same, settings, until, waited_since

HAS_ADMIN = hasattr(confluent_kafka.admin, "OffsetSpec")
"""True if this version has the admin calls that the checks need."""
FENCED = (confluent_kafka.KafkaError._FENCED, confluent_kafka.KafkaError.PRODUCER_FENCED)


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(bootstrap: str, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> TopicPartition:
    """Creates a topic and waits for its leaders. Returns the first partition."""
    client = admin(bootstrap)
    client.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(LIMIT)

    def led() -> bool:
        found = client.list_topics(topic, timeout=LIMIT).topics[topic].partitions.values()
        return len(found) == partitions and all(each.leader >= 0 for each in found)

    until(led, "every partition has a leader")
    return TopicPartition(topic, 0)


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Returns the values of all records in the topic that are visible at this isolation level."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "isolation.level": isolation, "enable.partition.eof": True}
    )  # fmt: skip
    numbers = consumer.list_topics(topic, timeout=LIMIT).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    found: list[bytes] = []
    ended: set[int] = set()

    def finished() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message.value())
        elif message is not None and message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        elif message is not None:
            raise KafkaException(message.error())
        return len(ended) == len(numbers)

    until(finished, "every partition is read to its end")
    consumer.close()
    return sorted(found)


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(LIMIT)
    return producer


def send(producer: Producer, topic: str, values: list[bytes], **settings: Any) -> list[tuple[int, int]]:
    """Produce the values, wait for the acknowledgements, and return the acknowledged partitions and offsets."""
    told: list[tuple[int, int]] = []

    def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            raise KafkaException(error)
        told.append((message.partition(), message.offset()))

    for value in values:
        producer.produce(topic, value, on_delivery=delivered, **settings)
    same(producer.flush(LIMIT), 0, "unsent")
    same(len(told), len(values), "acknowledged")
    return sorted(told)


def produce(bootstrap: str, name: str) -> None:
    create(bootstrap, name, 2)
    values = numbered("value", 20)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    offsets = [each for value in values for each in send(producer, name, [value], key=value, headers=[("h", value)])]
    by_partition = [[offset for number, offset in offsets if number == partition] for partition in (0, 1)]
    same(by_partition, [list(range(len(each))) for each in by_partition], "acknowledged offsets")
    same(read(bootstrap, name), sorted(values))


def commit(bootstrap: str, name: str) -> None:
    create(bootstrap, name, 2)
    producer = transactional(bootstrap, name)
    for batch in ("one", "two"):
        producer.begin_transaction()
        send(producer, name, numbered(batch, 4))
        producer.commit_transaction(LIMIT)
    same(read(bootstrap, name), numbered("one", 4) + numbered("two", 4))


def abort(bootstrap: str, name: str) -> None:
    create(bootstrap, name)
    producer = transactional(bootstrap, name)
    for value, end in ((b"1", "commit"), (b"2-aborted", "abort"), (b"3", "commit")):
        producer.begin_transaction()
        send(producer, name, [value])
        getattr(producer, f"{end}_transaction")(LIMIT)
    same(read(bootstrap, name), [b"1", b"3"], "read_committed saw")
    same(read(bootstrap, name, "read_uncommitted"), [b"1", b"2-aborted", b"3"], "read_uncommitted saw")


def fence(bootstrap: str, name: str) -> str:
    create(bootstrap, name)
    zombie = transactional(bootstrap, name)
    zombie.begin_transaction()
    send(zombie, name, [b"zombie"])
    heir = transactional(bootstrap, name)
    heir.begin_transaction()
    send(heir, name, [b"heir"])
    try:
        zombie.commit_transaction(LIMIT)
    except KafkaException as error:
        same(error.args[0].code() in FENCED and error.args[0].fatal(), True, f"{error} is a fatal fencing error:")
        told = error.args[0].name()
    else:
        raise AssertionError("the zombie was not fenced: its commit succeeded")
    heir.commit_transaction(LIMIT)
    same(read(bootstrap, name), [b"heir"])
    return told


def offsets_in_transaction(bootstrap: str, name: str) -> None:
    source, target = create(bootstrap, f"{name}-source"), f"{name}-target"
    create(bootstrap, target)
    send(Producer({"bootstrap.servers": bootstrap}), source.topic, numbered("in", 6))
    producer = transactional(bootstrap, name)
    for end, committed in (("commit", 3), ("abort", 3), ("commit", 6)):
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest",
             "enable.auto.commit": False, "isolation.level": "read_committed"}
        )  # fmt: skip
        consumer.subscribe([source.topic])
        messages = consumer.consume(3, timeout=LIMIT)
        same(len(messages), 3, "consumed")
        producer.begin_transaction()
        send(producer, target, [message.value().replace(b"in", b"out") for message in messages])
        position = consumer.position([source])
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), LIMIT)
        getattr(producer, f"{end}_transaction")(LIMIT)
        same(consumer.committed([source], timeout=LIMIT)[0].offset, committed, f"committed offset after {end}")
        consumer.close()
    same(read(bootstrap, target), numbered("out", 6))


def share(bootstrap: str, name: str, settings: dict[str, Any]) -> None:
    """A group with four partitions has one member, then two members, then one member again."""
    create(bootstrap, name, 4)
    members = [Consumer({"bootstrap.servers": bootstrap, "group.id": name, **settings}) for _ in range(2)]
    one, two = members

    def shared(*members: Consumer) -> bool:
        for member in members:
            member.poll(0.05)
        owned = [{each.partition for each in member.assignment()} for member in members]
        return [len(each) for each in owned] == [4 // len(members)] * len(members) and set.union(*owned) == {0, 1, 2, 3}

    one.subscribe([name])
    until(lambda: shared(one), "one member has all partitions")
    two.subscribe([name])
    until(lambda: shared(one, two), "two members have two partitions each")
    one.close()
    until(lambda: shared(two), "the remaining member has all partitions")
    two.close()


def rebalance(bootstrap: str, name: str) -> None:
    share(bootstrap, name, {"heartbeat.interval.ms": 200})


def rebalance_848(bootstrap: str, name: str) -> None:
    share(bootstrap, name, {"group.protocol": "consumer"})


def topics(bootstrap: str, name: str) -> None:
    client = admin(bootstrap)
    create(bootstrap, name, 2, {"retention.ms": "86400000"})
    client.create_partitions([NewPartitions(name, 3)])[name].result(LIMIT)
    collection = confluent_kafka.TopicCollection([name])
    until(lambda: len(client.describe_topics(collection)[name].result(LIMIT).partitions) == 3, "three partitions")
    described = client.describe_topics(collection)[name].result(LIMIT)
    nodes = [node.id for node in client.describe_cluster().result(LIMIT).nodes]
    same([part.replicas[0].id in nodes for part in described.partitions], [True] * 3, "replicas are nodes:")
    client.delete_topics([name])[name].result(LIMIT)
    until(lambda: name not in client.list_topics(timeout=LIMIT).topics, "the topic is gone")


def configs(bootstrap: str, name: str) -> None:
    create(bootstrap, name)
    client = admin(bootstrap)
    entry = ConfigEntry("retention.ms", "86400000", incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    client.incremental_alter_configs([resource])[resource].result(LIMIT)

    def altered() -> bool:
        found = client.describe_configs([resource])[resource].result(LIMIT)
        return found["retention.ms"].value == "86400000" and found["cleanup.policy"].value == "delete"

    until(altered, "retention.ms is altered")


def filled(bootstrap: str, name: str) -> TopicPartition:
    """Creates a partition with three records, whose timestamps are 1000, 2000 and 3000."""
    partition = create(bootstrap, name, config={"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": bootstrap})
    for at in (1000, 2000, 3000):
        send(producer, name, [b"x"], timestamp=at)
    return partition


def list_offsets(bootstrap: str, name: str) -> None:
    partition, client, specs = filled(bootstrap, name), admin(bootstrap), confluent_kafka.admin.OffsetSpec
    for spec, offset in (
        (specs.earliest(), 0), (specs.latest(), 3), (specs.for_timestamp(1500), 1),
        (specs.max_timestamp(), 2),
    ):  # fmt: skip
        same(client.list_offsets({partition: spec})[partition].result(LIMIT).offset, offset, f"offset for {spec}")


def delete_records(bootstrap: str, name: str) -> None:
    partition, client = filled(bootstrap, name), admin(bootstrap)
    partition.offset = 2
    same(client.delete_records([partition])[partition].result(LIMIT).low_watermark, 2, "low watermark")
    earliest = client.list_offsets({partition: confluent_kafka.admin.OffsetSpec.earliest()})[partition].result(LIMIT)
    same(earliest.offset, 2, "earliest offset")
    same(len(read(bootstrap, name)), 1, "records left")


def groups(bootstrap: str, name: str) -> None:
    partition, client = filled(bootstrap, name), admin(bootstrap)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    same(len(consumer.consume(3, timeout=LIMIT)), 3, "consumed")
    consumer.commit(asynchronous=False)
    consumer.close()

    def listed() -> list[str]:
        found = client.list_consumer_groups().result(LIMIT).valid
        return [f"{group.group_id} {group.state.name}" for group in found if group.group_id == name]

    same(listed(), [f"{name} EMPTY"], "listed")
    same(client.describe_consumer_groups([name])[name].result(LIMIT).state.name, "EMPTY", "described")
    request = confluent_kafka.ConsumerGroupTopicPartitions(name, [partition])
    offsets = client.list_consumer_group_offsets([request])[name].result(LIMIT).topic_partitions
    same([each.offset for each in offsets], [3], "offset")
    client.delete_consumer_groups([name])[name].result(LIMIT)
    same(listed(), [], "listed")


def consumed(settings: dict[str, Any], topic: str) -> bytes:
    """Returns the first value of a topic."""
    consumer = Consumer(settings | {"group.id": "none", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    (message,) = consumer.consume(1, timeout=LIMIT)
    consumer.close()
    if message.error() is not None:
        raise KafkaException(message.error())
    return message.value()


def secured(bootstrap: str, name: str) -> None:
    """Produce and consume with the certificates or the user that this check names."""
    create(bootstrap, name)
    found = settings(name, "confluent")
    send(Producer(found), name, [b"x"])
    same(consumed(found, name), b"x", "record")


def acl(bootstrap: str, name: str) -> str:
    create(bootstrap, name)
    producer = Producer(settings(name, "confluent"))
    refused: list[str] = []
    producer.produce(REFUSED, b"x", on_delivery=lambda error, _: refused.append(error.name() if error else "nothing"))
    same(producer.flush(LIMIT), 0, "unsent")
    same(refused, ["TOPIC_AUTHORIZATION_FAILED"], "error")
    send(producer, name, [b"x"])
    return refused[0]


def quota(bootstrap: str, name: str) -> str:
    create(bootstrap, name)
    throttled: list[int] = []
    told = {"throttle_cb": lambda event: throttled.append(event.throttle_time)}
    producer = Producer(settings(name, "confluent") | {"client.id": name} | told)
    send(producer, name, [bytes(OVER)])
    began = time.monotonic()
    send(producer, name, [b"x"])
    until(lambda: producer.poll(0.05) == 0 and bool(throttled), "throttle_cb is called")
    return f"{waited_since(began)}, throttle_cb was called with {throttled[0]}"


OF_ADMIN = {
    "rebalance-848": rebalance_848, "topics": topics, "configs": configs, "list-offsets": list_offsets,
    "delete-records": delete_records, "groups": groups,
}  # fmt: skip

if __name__ == "__main__":
    librdkafka = confluent_kafka.libversion()[0].partition("-")[0]  # the version without the compiler options in it
    run("confluent-kafka", f"{confluent_kafka.__version__} (librdkafka {librdkafka})", {
        "produce": produce, "commit": commit, "abort": abort, "fence": fence,
        "offsets-in-transaction": offsets_in_transaction, "rebalance": rebalance, **(OF_ADMIN if HAS_ADMIN else {}),
        **dict.fromkeys(SECURED, secured), "acl": acl, "quota": quota,
    })  # fmt: skip
