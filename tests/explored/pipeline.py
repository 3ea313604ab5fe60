"""Reads four orders and writes an invoice for each. The argument is "process-first", "commit-first" or "transactional"."""

import os
import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

way, where = sys.argv[1], {"bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "reconnect.backoff.ms": 10}
quick = {"retry.backoff.ms": 10, "linger.ms": 0, "socket.timeout.ms": 1000}
group = {
    "group.id": "billing",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
}
consumer = Consumer({**where, **group, "session.timeout.ms": 6000, "fetch.wait.max.ms": 20})
consumer.subscribe(["orders"])


def process_first() -> None:
    """Send, then commit. If the commit fails, the batch is read again."""
    producer = Producer({**where, **quick, "enable.idempotence": True})
    done, first = 0, None
    while done < 4:
        message = consumer.poll(10)
        if message is None or message.error():
            sys.exit("nothing came")
        first = message.offset() if first is None else first
        producer.produce("invoices", key=message.key(), value=b"invoice of " + message.value())
        if producer.flush(5):
            sys.exit("not sent")
        try:
            consumer.commit(message, asynchronous=False)
            done = message.offset() + 1 - first
        except KafkaException:
            consumer.seek(TopicPartition("orders", 0, message.offset()))


def commit_first() -> None:
    """Commit the offset, then send the invoices, and ignore the results."""
    producer = Producer({**where, **quick, "retries": 0})
    for _ in range(4):
        message = consumer.poll(10)
        if message is None or message.error():
            sys.exit("nothing came")
        consumer.commit(message, asynchronous=False)
        producer.produce("invoices", key=message.key(), value=b"invoice of " + message.value())
        producer.flush(5)


def transactional() -> None:
    """Send the invoices and commit the offset in one transaction. After an error, abort and repeat the whole transaction."""
    producer = Producer({**where, **quick, "transactional.id": "billing"})
    producer.init_transactions(10)
    done, first = 0, None
    while done < 4:
        message = consumer.poll(10)
        if message is None or message.error():
            sys.exit("nothing came")
        first = message.offset() if first is None else first
        try:
            producer.begin_transaction()
            producer.produce("invoices", key=message.key(), value=b"invoice of " + message.value())
            position = [TopicPartition("orders", 0, message.offset() + 1)]
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 10)
            commit(producer)
            done = message.offset() + 1 - first
        except KafkaException as wrong:
            if not wrong.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(10)
            consumer.seek(TopicPartition("orders", 0, message.offset()))


def commit(producer: Producer) -> None:
    """Commits the transaction, and repeats the commit after each retriable error."""
    while True:
        try:
            producer.commit_transaction(10)
        except KafkaException as wrong:
            if not wrong.args[0].retriable():
                raise
        else:
            return


{"process-first": process_first, "commit-first": commit_first, "transactional": transactional}[way]()
consumer.close()
