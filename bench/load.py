"""The load generator for a machine without Go: a producer in Python with one connection.

The generator accepts a part of the Go generator's options, and prints the same line of JSON. Most of the time the server waits
for this generator. So the requests per second show how fast the generator is, and only the CPU time per request shows how fast
the server is.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "broker"), str(ROOT / "protocol"), str(ROOT)]

from crc32c import crc32c

from bench.process import cpu_ns
from kafkawire.batches import HEADER_SIZE, Record, build_batch
from kafkawire.declare import Message
from kafkawire.frames import decode_response, encode_request
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.init_producer_id import InitProducerIdRequest
from kafkawire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "bench"
CLIENT = "bench"
CRC_AT, CRC_START, TIMES_AT, SEQUENCE_AT = 17, 21, 27, 53
ERROR_AND_OFFSET = struct.Struct(">hq")
IN_FLIGHT = 5
CREATE_TOPICS, INIT_PRODUCER_ID = 19, 22


class Producer:
    """An idempotent producer that sends the same batch again and again, each time with the next sequence and a new CRC."""

    def __init__(self, options: argparse.Namespace) -> None:
        host, _, port = options.address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self.records = options.records
        self.sent = self.answered = 0
        self.sent_at = [0] * IN_FLIGHT
        self.latencies: list[int] = []
        self._create_topic()
        init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = self._ask(INIT_PRODUCER_ID, init, 1)
        size = options.record_bytes or max((options.bytes - HEADER_SIZE) // options.records - 10, 1)
        batch = build_batch(
            (Record(i, 0, None, b"v" * size) for i in range(options.records)),
            producer_id=response.producer_id, producer_epoch=response.producer_epoch, base_sequence=0,
        )  # fmt: skip
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[data])
        self.frame = bytearray(encode_request(0, CLIENT, request, options.version))
        self.batch_at = self.frame.index(batch)
        self.batch_size = len(batch)
        # Before the error code in a response: correlation id, (tag), one topic, its name, one partition, its index.
        self.code_at = 8 + (1 + 1 + 1 + len(TOPIC) + 1 if options.version >= 9 else 4 + 2 + len(TOPIC) + 4) + 4

    def _ask(self, key: int, request: Message, version: int) -> Any:
        self.socket.sendall(encode_request(0, CLIENT, request, version))
        return decode_response(self._frame()[4:], key, version)[1]

    def _create_topic(self) -> None:
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        self._ask(CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)

    def _frame(self) -> bytes:
        """Returns the next whole response with its size."""
        while len(self.received) < 4 or len(self.received) < 4 + int.from_bytes(self.received[:4], "big"):
            got = self.socket.recv(65536)
            if not got:
                raise ConnectionError(f"the server closed the connection after {self.answered} responses")
            self.received += got
        end = 4 + int.from_bytes(self.received[:4], "big")
        frame = bytes(self.received[:end])
        del self.received[:end]
        return frame

    def _send(self) -> None:
        frame, at = self.frame, self.batch_at
        struct.pack_into(">i", frame, 8, self.sent)
        now = time.time_ns() // 1_000_000
        struct.pack_into(">qq", frame, at + TIMES_AT, now, now)
        struct.pack_into(">i", frame, at + SEQUENCE_AT, self.sent * self.records & 0x7FFFFFFF)
        crc = crc32c(memoryview(frame)[at + CRC_START : at + self.batch_size])
        struct.pack_into(">I", frame, at + CRC_AT, crc)
        self.sent_at[self.sent % IN_FLIGHT] = time.perf_counter_ns()
        self.socket.sendall(frame)
        self.sent += 1

    def produce(self, count: int, until: float) -> None:
        """Send `count` requests, or fewer if the time is up, and read all responses."""
        last = self.sent + count
        while self.answered < last:
            if time.monotonic() > until:
                last = self.sent
            while self.sent < last and self.sent - self.answered < IN_FLIGHT:
                self._send()
            if self.answered < self.sent:
                code, offset = ERROR_AND_OFFSET.unpack_from(self._frame(), self.code_at)
                self.latencies.append(time.perf_counter_ns() - self.sent_at[self.answered % IN_FLIGHT])
                if code or offset != self.answered * self.records:
                    raise ValueError(f"request {self.answered} returned error {code}, base offset {offset}")
                self.answered += 1


def main() -> None:
    """Parse the command line, and send the load."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("bytes", 1024), ("records", 16), ("record-bytes", 0), ("requests", 0), ("warmup", 200),
                          ("version", 9), ("pid", 0)):  # fmt: skip
        parser.add_argument(f"-{name}", type=int, default=default)
    parser.add_argument("-address", required=True)
    parser.add_argument("-seconds", type=float, default=1.0)
    options, _ = parser.parse_known_args()
    producer = Producer(options)
    producer.produce(options.warmup, time.monotonic() + 60)
    producer.latencies.clear()
    before, own, start = cpu_ns(options.pid), time.process_time(), time.perf_counter()
    producer.produce(options.requests or 1 << 40, time.monotonic() + options.seconds)
    seconds, own, used = time.perf_counter() - start, time.process_time() - own, cpu_ns(options.pid) - before
    latencies = sorted(producer.latencies)
    requests = len(latencies)
    megabytes = requests * producer.batch_size / 1e6
    report = {
        "mode": "produce", "version": options.version, "connections": 1, "varied": False,
        "batch_bytes": producer.batch_size, "requests": requests, "seconds": seconds,
        "requests_per_second": requests / seconds, "megabytes_per_second": megabytes / seconds,
        "p50_us": latencies[requests // 2] / 1e3, "p99_us": latencies[requests * 99 // 100] / 1e3,
        "server_cpu_us_per_request": used / 1e3 / requests, "server_cpu_us_per_megabyte": used / 1e3 / megabytes,
        "generator_cpu_us_per_request": own * 1e6 / requests,
    }  # fmt: skip
    print(json.dumps(report))


if __name__ == "__main__":
    main()
