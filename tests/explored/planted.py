"""Reads four orders, and writes an audit record and an invoice for each. Each function has one bug, which its name
describes."""

import os
import sys
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

WHERE = {"bootstrap.servers": os.environ["WIREBROKER_BOOTSTRAP"], "reconnect.backoff.ms": 10}
QUICK = {"retry.backoff.ms": 10, "linger.ms": 0, "socket.timeout.ms": 1000, "message.timeout.ms": 3500}
GROUP = {
    "group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": "read_committed",
    "session.timeout.ms": 6000, "fetch.wait.max.ms": 20, "socket.timeout.ms": 1000,
}  # fmt: skip
ORDERS = 4


def reader(client_id: str = "reader") -> Consumer:
    consumer = Consumer({**WHERE, **GROUP, "client.id": client_id})
    consumer.subscribe(["orders"])
    return consumer


def orders(consumer: Consumer) -> "list[Message]":
    found: list[Message] = []
    while len(found) < ORDERS:
        message = consumer.poll(10)
        if message is None or message.error():
            sys.exit(f"no order came: {message and message.error()}")
        found.append(message)
    return found


def producer(client_id: str, **settings: object) -> Producer:
    return Producer({**WHERE, **QUICK, "enable.idempotence": True, "client.id": client_id, **settings})


def send(sender: Producer, topic: str, order: Message, seen: Callable[[object], None] | None = None) -> bool:
    """Sends a record about an order and waits for its result. Calls `seen` with each error. Returns whether the record was
    stored."""
    errors: list[object] = []
    value = topic.encode() + b" of " + order.value()
    sender.produce(topic, key=order.key(), value=value, on_delivery=lambda error, _: error and errors.append(error))
    if sender.flush(8):
        errors.append("no result")
    for error in errors:
        (seen or sys.exit)(f"{topic} was not written: {error}")
    return not errors


def second_topic_unread() -> None:
    """The program ignores whether an invoice was stored."""
    consumer, sender = reader(), producer("writer")
    for order in orders(consumer):
        send(sender, "audit", order)
        send(sender, "invoices", order, seen=lambda error: None)
        consumer.commit(order, asynchronous=False)
    consumer.close()


def commit_before_processing() -> None:
    """The offset is committed before the invoice is stored, and a failure is only logged."""
    consumer, sender = reader(), producer("writer")
    for order in orders(consumer):
        send(sender, "audit", order)
        consumer.commit(order, asynchronous=False)
        send(sender, "invoices", order, seen=print)
    consumer.close()


def retries_without_idempotence() -> None:
    """Idempotence is off for the producer of invoices, so its retries may store an invoice twice."""
    consumer, sender = reader(), producer("writer")
    careless = producer("careless", **{"enable.idempotence": False})
    for order in orders(consumer):
        send(sender, "audit", order)
        send(careless, "invoices", order)
    consumer.commit(asynchronous=False)
    consumer.close()


def sent_again_after_a_timeout() -> None:
    """After a timeout the invoice is sent again, although it may be stored."""
    consumer, sender = reader(), producer("writer")
    for order in orders(consumer):
        send(sender, "audit", order)
        for _ in range(3):
            if send(sender, "invoices", order, seen=print):
                break
        else:
            sys.exit("gave up")
    consumer.close()


def stops_after_an_error_of_the_coordinator() -> None:
    """If a commit fails, the loop waits for an assignment that never comes."""
    consumer, sender = reader(), producer("writer")
    for order in orders(consumer):
        send(sender, "audit", order)
        send(sender, "invoices", order)
        try:
            consumer.commit(order, asynchronous=False)
        except KafkaException:
            consumer.unsubscribe()
            while consumer.poll(0.1) is None:
                pass
    consumer.close()


def in_transactions(after_error: Callable[[Producer, KafkaException], None]) -> None:
    consumer, sender = reader(), producer("writer", **{"transactional.id": "billing", "transaction.timeout.ms": 3500})
    sender.init_transactions(10)
    for order in orders(consumer):
        try:
            sender.begin_transaction()
            for topic in ("audit", "invoices"):
                sender.produce(topic, key=order.key(), value=topic.encode() + b" of " + order.value())
            position = [TopicPartition("orders", order.partition(), order.offset() + 1)]
            sender.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 10)
            sender.commit_transaction(10)
        except KafkaException as error:
            after_error(sender, error)
    consumer.close()


def fatal_error_ignored() -> None:
    """A fatal error (code 47 or 90) is logged like any other error, and all later orders are skipped."""

    def go_on(sender: Producer, error: KafkaException) -> None:
        print(error)
        if error.args[0].txn_requires_abort():
            sys.exit(str(error))

    in_transactions(go_on)


def abort_forgotten() -> None:
    """After an error that requires an abort, the transaction stays open."""

    def go_on(sender: Producer, error: KafkaException) -> None:
        if error.args[0].fatal():
            sys.exit(str(error))
        print(error)

    in_transactions(go_on)


def skipped_after_an_abort() -> None:
    """The transaction is aborted, and its order is not read again."""
    in_transactions(lambda sender, error: sender.abort_transaction(10) if error.args[0].txn_requires_abort() else sys.exit(1))


globals()[sys.argv[1].replace("-", "_")]()
