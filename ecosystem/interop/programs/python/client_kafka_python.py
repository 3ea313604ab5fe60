"""The checks with kafka-python."""

from __future__ import annotations

import time
from typing import Any

import kafka
import kafka.errors
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from kit import OVER, REFUSED, SECURED, access, numbered, run, same, until, waited_since

from wirebroker.testing.client_settings import client_settings

FENCED = (kafka.errors.ProducerFencedError, kafka.errors.InvalidProducerEpochError)


def admin(bootstrap: str) -> KafkaAdminClient:
    return KafkaAdminClient(bootstrap_servers=bootstrap)


def create(bootstrap: str, topic: str, partitions: int = 1) -> list[TopicPartition]:
    with admin(bootstrap) as client:
        client.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}}, wait_for_metadata=True)
    return [TopicPartition(topic, partition) for partition in range(partitions)]


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Returns the values of all records in the topic that are visible at this isolation level."""
    with KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False, isolation_level=isolation
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[bytes] = []

        def finished() -> bool:
            for records in consumer.poll(timeout_ms=100).values():
                found.extend(record.value for record in records)
            return all(consumer.position(partition) >= ends[partition] for partition in partitions)

        until(finished, f"positions at {ends}")
    return sorted(found)


def transactional(bootstrap: str, name: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    return producer


def send(producer: KafkaProducer, topic: str, values: list[bytes]) -> None:
    for future in [producer.send(topic, value) for value in values]:
        future.get(20)


def produce(bootstrap: str, name: str) -> None:
    create(bootstrap, name, 2)
    values = numbered("value", 20)
    with KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all") as producer:
        told = [producer.send(name, value, key=value, headers=[("h", value)]) for value in values]
        offsets = sorted((future.get(20).partition, future.get(20).offset) for future in told)
    by_partition = [[offset for number, offset in offsets if number == partition] for partition in (0, 1)]
    same(by_partition, [list(range(len(each))) for each in by_partition], "acknowledged offsets")
    same(read(bootstrap, name), sorted(values))


def commit(bootstrap: str, name: str) -> None:
    create(bootstrap, name, 2)
    with transactional(bootstrap, name) as producer:
        for batch in ("one", "two"):
            producer.begin_transaction()
            send(producer, name, numbered(batch, 4))
            producer.commit_transaction()
    same(read(bootstrap, name), numbered("one", 4) + numbered("two", 4))


def abort(bootstrap: str, name: str) -> None:
    create(bootstrap, name)
    with transactional(bootstrap, name) as producer:
        for value, end in ((b"1", "commit"), (b"2-aborted", "abort"), (b"3", "commit")):
            producer.begin_transaction()
            send(producer, name, [value])
            getattr(producer, f"{end}_transaction")()
    same(read(bootstrap, name), [b"1", b"3"], "read_committed saw")
    same(read(bootstrap, name, "read_uncommitted"), [b"1", b"2-aborted", b"3"], "read_uncommitted saw")


def fence(bootstrap: str, name: str) -> str:
    create(bootstrap, name)
    zombie = transactional(bootstrap, name)
    zombie.begin_transaction()
    send(zombie, name, [b"zombie"])
    with transactional(bootstrap, name) as heir:
        heir.begin_transaction()
        send(heir, name, [b"heir"])
        try:
            zombie.commit_transaction()
        except FENCED as error:
            told = type(error).__name__
        else:
            raise AssertionError("the zombie was not fenced: its commit succeeded")
        heir.commit_transaction()
    zombie.close(timeout=1)
    same(read(bootstrap, name), [b"heir"])
    return told


def offsets_in_transaction(bootstrap: str, name: str) -> None:
    source, target = create(bootstrap, f"{name}-source")[0], f"{name}-target"
    create(bootstrap, target)
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        send(producer, source.topic, numbered("in", 6))
    with transactional(bootstrap, name) as producer:
        for end, committed in (("commit", 3), ("abort", 3), ("commit", 6)):
            with KafkaConsumer(
                source.topic, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest",
                enable_auto_commit=False, isolation_level="read_committed", max_poll_records=3,
            ) as consumer:  # fmt: skip
                consumer.partitions_for_topic(
                    source.topic
                )  # a member that gets the topic's metadata later may hang, also on Kafka
                records: list[Any] = []

                def polled(consumer: KafkaConsumer = consumer, records: list[Any] = records) -> bool:
                    for found in consumer.poll(timeout_ms=200).values():
                        records.extend(found)
                    return bool(records)

                until(polled, "records of the source topic arrived")
                producer.begin_transaction()
                send(producer, target, [record.value.replace(b"in", b"out") for record in records])
                offset = OffsetAndMetadata(records[-1].offset + 1, "", -1)
                producer.send_offsets_to_transaction({source: offset}, consumer.group_metadata())
                getattr(producer, f"{end}_transaction")()
                same(consumer.committed(source), committed, f"committed offset after {end}")
    same(read(bootstrap, target), numbered("out", 6))


def rebalance(bootstrap: str, name: str) -> None:
    create(bootstrap, name, 4)
    settings = {"bootstrap_servers": bootstrap, "group_id": name, "heartbeat_interval_ms": 200}
    one, two = KafkaConsumer(**settings), KafkaConsumer(**settings)
    for member in (one, two):
        member.subscribe([name])
        member.partitions_for_topic(name)  # a member that gets the topic's metadata after its join rejoins, and may hang

    def shared(*members: KafkaConsumer) -> bool:
        for member in members:
            member.poll(timeout_ms=50)
        owned = [member.assignment() for member in members]
        return [len(each) for each in owned] == [4 // len(members)] * len(members) and len(set.union(*owned)) == 4

    until(lambda: shared(one), "one member has all partitions")
    until(lambda: shared(one, two), "two members have two partitions each")
    one.close()
    until(lambda: shared(two), "the remaining member has all partitions")
    two.close()


def topics(bootstrap: str, name: str) -> None:
    with admin(bootstrap) as client:
        client.create_topics({name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "5"}}})
        until(lambda: name in client.list_topics(), "the topic is listed")
        client.create_partitions({name: 3})
        until(lambda: len(client.describe_topics([name])[0]["partitions"]) == 3, "three partitions")
        same([part["replica_nodes"] for part in client.describe_topics([name])[0]["partitions"]],
             [[client.describe_cluster()["brokers"][0]["broker_id"]]] * 3, "replicas")  # fmt: skip
        client.delete_topics([name])
        until(lambda: name not in client.list_topics(), "the topic is gone")


def configs(bootstrap: str, name: str) -> None:
    create(bootstrap, name)
    with admin(bootstrap) as client:
        client.alter_configs([ConfigResource("TOPIC", name, {"retention.ms": "86400000"})])

        def altered() -> bool:
            found = client.describe_configs([ConfigResource("TOPIC", name)], config_filter="all")["topic"][name]
            return found["retention.ms"]["value"] == "86400000" and found["cleanup.policy"]["value"] == "delete"

        until(altered, "retention.ms is altered")


def filled(bootstrap: str, name: str) -> TopicPartition:
    """Creates a partition with three records, whose timestamps are 1000, 2000 and 3000."""
    (partition,) = create(bootstrap, name)
    with admin(bootstrap) as client:
        client.alter_configs([ConfigResource("TOPIC", name, {"retention.ms": "-1"})])
    with KafkaProducer(bootstrap_servers=bootstrap) as producer:
        for at in (1000, 2000, 3000):
            producer.send(name, b"x", timestamp_ms=at).get(20)
    return partition


def list_offsets(bootstrap: str, name: str) -> None:
    partition = filled(bootstrap, name)
    with admin(bootstrap) as client:
        for spec, offset in ((-2, 0), (-1, 3), (1500, 1), (-3, 2)):
            same(client.list_partition_offsets({partition: spec})[partition].offset, offset, f"offset for {spec}")


def delete_records(bootstrap: str, name: str) -> None:
    partition = filled(bootstrap, name)
    with admin(bootstrap) as client:
        same(client.delete_records({partition: 2})[partition]["low_watermark"], 2, "low watermark")
        same(client.list_partition_offsets({partition: -2})[partition].offset, 2, "earliest offset")
    same(len(read(bootstrap, name)), 1, "records left")


def groups(bootstrap: str, name: str) -> None:
    partition = filled(bootstrap, name)
    with KafkaConsumer(name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest") as consumer:
        consumer.partitions_for_topic(name)  # a member that gets the topic's metadata later may hang, also on Kafka
        until(lambda: bool(consumer.poll(200)), "records")
        consumer.commit()
    with admin(bootstrap) as client:
        same([group["group_id"] for group in client.list_groups() if group["group_id"] == name], [name], "listed")
        same(client.describe_groups([name])[name]["group_state"], "Empty", "state")
        same(client.list_group_offsets({name: None})[name][partition].offset, 3, "offset")
        same(str(client.delete_groups([name])), str({name: "OK"}), "deleted")
        same([group["group_id"] for group in client.list_groups() if group["group_id"] == name], [], "listed")


def transactions(bootstrap: str, name: str) -> None:
    (partition,) = create(bootstrap, name)
    with admin(bootstrap) as client, transactional(bootstrap, name) as producer:
        producer.begin_transaction()
        send(producer, name, [b"x"])
        listed = [each for found in client.list_transactions().values() for each in found]
        same([each.state.value for each in listed if each.transactional_id == name], ["Ongoing"], "listed")
        described = client.describe_transactions([name])[name]
        same((described.state.value, described.topic_partitions), ("Ongoing", {partition}), "described")
        (state,) = client.describe_producers([partition])[partition].active_producers
        same((state.producer_id, state.current_transaction_start_offset), (described.producer_id, 0), "producer")
        producer.commit_transaction()
        until(lambda: client.describe_transactions([name])[name].state.value == "CompleteCommit", "CompleteCommit")


def secured(bootstrap: str, name: str) -> None:
    """Produce and consume with the certificates or the user that this check names."""
    (partition,) = create(bootstrap, name)
    settings = client_settings("kafka-python", access(name))
    with KafkaProducer(**settings) as producer:
        send(producer, name, [b"x"])
    with KafkaConsumer(**settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        until(lambda: bool(consumer.poll(200)), "the record")


def acl(bootstrap: str, name: str) -> str:
    create(bootstrap, name)
    settings = client_settings("kafka-python", access(name))
    with KafkaProducer(**settings, enable_idempotence=False) as producer:  # after a refusal, an idempotent producer is unusable
        try:
            send(producer, REFUSED, [b"x"])
        except kafka.errors.TopicAuthorizationFailedError as error:
            told = type(error).__name__
        else:
            raise AssertionError("the client could write to the topic, but the ACL denies it")
        send(producer, name, [b"x"])
    return told


def quota(bootstrap: str, name: str) -> str:
    create(bootstrap, name)
    with KafkaProducer(**client_settings("kafka-python", access(name)), client_id=name) as producer:
        send(producer, name, [bytes(OVER)])
        began = time.monotonic()
        send(producer, name, [b"x"])
        return waited_since(began)


if __name__ == "__main__":
    run("kafka-python", kafka.__version__, {
        "produce": produce, "commit": commit, "abort": abort, "fence": fence,
        "offsets-in-transaction": offsets_in_transaction, "rebalance": rebalance, "topics": topics, "configs": configs,
        "list-offsets": list_offsets, "delete-records": delete_records, "groups": groups, "transactions": transactions,
        **dict.fromkeys(SECURED, secured), "acl": acl, "quota": quota,
    })  # fmt: skip
