"""The client aiokafka, in an event loop of its own. aiokafka has at most one request per partition in flight. No option can
change this number.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from wirebroker.net.thread import LoopThread
from wirebroker_tools.drivers import ProducerSettings, Refused, Report, sentence

T = TypeVar("T")
QUICK = {"retry_backoff_ms": 20}


class _Looped:
    """A client that runs in the event loop of its own thread."""

    def __init__(self) -> None:
        self._thread = LoopThread()
        self._thread.loop.set_exception_handler(lambda *_: None)

    def _await(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        return self._thread.await_(asyncio.wait_for(coroutine, timeout))

    def _end(self) -> None:
        async def cancel() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=1) if others else None

        with contextlib.suppress(Exception):
            self._thread.await_(cancel())
        self._thread.stop()


class Producer(_Looped):
    """An AIOKafkaProducer."""

    def __init__(self, address: str, settings: ProducerSettings, report: Report) -> None:
        if settings.in_flight > 5 or not settings.retries:
            raise Refused("aiokafka has no option for requests in flight or retries")
        super().__init__()
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()
        options = settings.options() | ({"max_batch_size": 1} | QUICK if settings.quick else {})

        async def make() -> AIOKafkaProducer:
            return AIOKafkaProducer(bootstrap_servers=address, **options)

        try:
            self._producer = self._await(make())
        except ValueError as refused:
            self._end()
            raise Refused(sentence(refused)) from None

    def start(self) -> None:
        self._await(self._producer.start())

    def send(self, topic: str, value: str, partition: int) -> None:
        async def hand_over() -> None:
            try:
                future = await self._producer.send(topic, value.encode(), partition=partition)
            except Exception as failed:
                self._report(value, -1, sentence(failed))
                return
            task = asyncio.ensure_future(self._outcome(future, value))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._await(hand_over())

    async def _outcome(self, future: Any, value: str) -> None:
        try:
            metadata = await future
        except Exception as failed:
            self._report(value, -1, sentence(failed))
        else:
            self._report(value, metadata.offset if metadata else -1, "")  # with acks=0 there is no record metadata

    def push(self) -> None:
        pass

    def flush(self, timeout: float) -> None:
        self._await(self._producer.flush(), timeout)

        async def report() -> None:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=timeout)

        self._await(report())

    def begin(self) -> None:
        self._await(self._producer.begin_transaction())

    def commit(self) -> None:
        self._await(self._producer.commit_transaction())

    def abort(self) -> None:
        self._await(self._producer.abort_transaction())

    def send_offset(self, reader: Reader, offset: int) -> None:
        self._await(self._producer.send_offsets_to_transaction({reader.partition: offset}, reader.group))

    def close(self, timeout: float) -> None:
        try:
            self._await(self._producer.stop(), timeout)
        finally:
            self._end()

    def crash(self) -> None:
        async def cut() -> None:
            self._producer._closed = True
            await self._producer.client.close()

        with contextlib.suppress(Exception):
            self._await(cut(), 1)
        self._end()


class Reader(_Looped):
    """An AIOKafkaConsumer."""

    def __init__(self, address: str, topic: str, group: str, isolation: str, *, member: bool = False) -> None:
        super().__init__()
        self.topic, self.group = topic, group
        self.partition = TopicPartition(topic, 0)

        async def make() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=address, group_id=group, isolation_level=isolation, enable_auto_commit=member,
                auto_offset_reset="earliest", fetch_max_wait_ms=100, **QUICK,
            )  # fmt: skip
            await consumer.start()
            consumer.subscribe([topic]) if member else consumer.assign([self.partition])
            return consumer

        self._consumer = self._await(make())

    def committed(self) -> int:
        return self._await(self._consumer.committed(self.partition)) or 0

    def read(self, offset: int | None, count: int, timeout: float) -> list[tuple[int, str]]:
        async def work() -> list[tuple[int, str]]:
            if offset is not None:
                self._consumer.seek(self.partition, offset)
            found: list[tuple[int, str]] = []
            end = time.monotonic() + timeout
            while len(found) < count and time.monotonic() < end:
                for messages in (await self._consumer.getmany(timeout_ms=100, max_records=count - len(found))).values():
                    found += [(message.offset, message.value.decode()) for message in messages]
            return found

        return self._await(work())

    def position(self) -> int:
        async def work() -> int:
            await self._consumer.getmany(timeout_ms=100)
            return int(await self._consumer.position(self.partition))

        return self._await(work())

    def commit(self, offset: int) -> None:
        self._await(self._consumer.commit({self.partition: offset}))

    def close(self) -> None:
        try:
            self._await(self._consumer.stop(), 3)
        finally:
            self._end()
