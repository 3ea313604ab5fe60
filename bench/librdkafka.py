"""Makes a real load with librdkafka; see realLoad in go/franzgen. Arguments: mode, address, topic, file, codec, count."""

from __future__ import annotations

import sys
from itertools import cycle, islice
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition


def main() -> None:
    """Print "ready", wait for a line, produce or consume, and print "done"."""
    mode, address, topic, file, codec, count = sys.argv[1:]
    lines = [line.split("\t", 2) for line in Path(file).read_text().splitlines()]
    print("ready", flush=True)
    sys.stdin.readline()
    if mode == "produce":
        produce(address, topic, lines, codec, int(count))
    else:
        consume(address, topic, int(count))
    print("done", flush=True)


def produce(address: str, topic: str, lines: list[list[str]], codec: str, count: int) -> None:
    """Produce this number of records with an idempotent producer. Raises RuntimeError if a record is not acknowledged."""
    failures: list[KafkaError] = []
    settings = {"bootstrap.servers": address, "enable.idempotence": True, "compression.type": codec,
                "on_delivery": lambda error, _: failures.append(error) if error else None}  # fmt: skip
    producer = Producer(settings)
    for number, (key, header, value) in enumerate(islice(cycle(lines), count)):
        headers = [("trace", header)] if header else None
        while True:
            try:
                producer.produce(topic, value, key, headers=headers)
            except BufferError:
                producer.poll(0.01)
            else:
                break
        if not number % 1000:
            producer.poll(0)
    if producer.flush(50) or failures:
        raise RuntimeError(f"{len(failures)} records failed: {failures[:1]}")


def consume(address: str, topic: str, count: int) -> None:
    """Read this number of records from the beginning. Raises RuntimeError if fewer records arrive."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while count > 0:
        batch = consumer.consume(10_000, 10)
        if not batch:
            raise RuntimeError(f"fewer than {count} records arrived")
        count -= sum(1 for message in batch if not message.error())
    consumer.close()


if __name__ == "__main__":
    main()
