"""The checks with aiokafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
import aiokafka.errors
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from kit import LIMIT, OVER, REFUSED, SECURED, access, numbered, run, same, waited_since

from wirebroker.testing.client_settings import client_settings

FENCED = (aiokafka.errors.ProducerFenced, aiokafka.errors.InvalidProducerEpoch)


@asynccontextmanager
async def admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def transactional(bootstrap: str, name: str) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)


def assigned(bootstrap: str, isolation: str = "read_committed") -> AIOKafkaConsumer:
    return AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=isolation)


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(LIMIT):
            while not await condition():
                pass
    except TimeoutError:
        raise AssertionError(f"after {LIMIT:.0f} s this is still not so: {what}") from None


async def create(bootstrap: str, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> TopicPartition:
    """Creates a topic and waits for its leaders. Returns the first partition."""
    async with admin(bootstrap) as client:
        made = await client.create_topics([NewTopic(topic, partitions, 1, topic_configs=config or {})])
        same([each[1] for each in made.topic_errors], [0], "creation's errors")

        async def led() -> bool:
            (found,) = await client.describe_topics([topic])
            return len(found["partitions"]) == partitions and all(part["leader"] >= 0 for part in found["partitions"])

        await until(led, "every partition has a leader")
    return TopicPartition(topic, 0)


async def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Returns the values of all records in the topic that are visible at this isolation level."""
    async with assigned(bootstrap, isolation) as consumer:
        async with admin(bootstrap) as client:
            (found,) = await client.describe_topics([topic])
        partitions = [TopicPartition(topic, part["partition"]) for part in found["partitions"]]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        values: list[bytes] = []

        async def finished() -> bool:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                values.extend(record.value for record in records)
            return all([await consumer.position(partition) >= ends[partition] for partition in partitions])

        await until(finished, f"positions at {ends}")
    return sorted(values)


async def send(producer: AIOKafkaProducer, topic: str, values: list[bytes], **settings: Any) -> list[tuple[int, int]]:
    """Produce the values, wait for the acknowledgements, and return the acknowledged partitions and offsets."""
    told = await asyncio.gather(*[await producer.send(topic, value, **settings) for value in values])
    return sorted((each.partition, each.offset) for each in told)


async def produce(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    values = numbered("value", 20)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        offsets = [each for value in values for each in await send(producer, name, [value], key=value, headers=[("h", value)])]
    by_partition = [[offset for number, offset in offsets if number == partition] for partition in (0, 1)]
    same(by_partition, [list(range(len(each))) for each in by_partition], "acknowledged offsets")
    same(await read(bootstrap, name), sorted(values))


async def commit(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2)
    async with transactional(bootstrap, name) as producer:
        for batch in ("one", "two"):
            async with producer.transaction():
                await send(producer, name, numbered(batch, 4))
    same(await read(bootstrap, name), numbered("one", 4) + numbered("two", 4))


async def abort(bootstrap: str, name: str) -> None:
    await create(bootstrap, name)
    async with transactional(bootstrap, name) as producer:
        for value, end in ((b"1", "commit"), (b"2-aborted", "abort"), (b"3", "commit")):
            await producer.begin_transaction()
            await send(producer, name, [value])
            await getattr(producer, f"{end}_transaction")()
    same(await read(bootstrap, name), [b"1", b"3"], "read_committed saw")
    same(await read(bootstrap, name, "read_uncommitted"), [b"1", b"2-aborted", b"3"], "read_uncommitted saw")


async def fence(bootstrap: str, name: str) -> str:
    await create(bootstrap, name)
    zombie = transactional(bootstrap, name)
    await zombie.start()
    await zombie.begin_transaction()
    await send(zombie, name, [b"zombie"])
    async with transactional(bootstrap, name) as heir:
        await heir.begin_transaction()
        await send(heir, name, [b"heir"])
        try:
            await zombie.commit_transaction()
        except FENCED as error:
            told = type(error).__name__
        else:
            raise AssertionError("the zombie was not fenced: its commit succeeded")
        await heir.commit_transaction()
    await zombie.stop()
    same(await read(bootstrap, name), [b"heir"])
    return told


async def offsets_in_transaction(bootstrap: str, name: str) -> None:
    source, target = await create(bootstrap, f"{name}-source"), f"{name}-target"
    await create(bootstrap, target)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await send(producer, source.topic, numbered("in", 6))
    async with transactional(bootstrap, name) as producer:
        for end, committed in (("commit", 3), ("abort", 3), ("commit", 6)):
            async with AIOKafkaConsumer(
                source.topic, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest",
                enable_auto_commit=False, isolation_level="read_committed",
            ) as consumer:  # fmt: skip
                records = [await consumer.getone() for _ in range(3)]
                await producer.begin_transaction()
                await send(producer, target, [record.value.replace(b"in", b"out") for record in records])
                await producer.send_offsets_to_transaction({source: records[-1].offset + 1}, name)
                await getattr(producer, f"{end}_transaction")()

                # aiokafka's OffsetFetch does not require stable offsets, so it may return before the transaction's markers are
                # written.
                async def stands(consumer: AIOKafkaConsumer = consumer, committed: int = committed) -> bool:
                    return await consumer.committed(source) == committed

                await until(stands, f"committed offset {committed} after {end}")
    same(await read(bootstrap, target), numbered("out", 6))


async def rebalance(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 4)
    one, two = [AIOKafkaConsumer(name, bootstrap_servers=bootstrap, group_id=name, heartbeat_interval_ms=200) for _ in range(2)]

    async def shared(*members: AIOKafkaConsumer) -> bool:
        await asyncio.gather(*[member.getmany(timeout_ms=50) for member in members])
        owned = [set(member.assignment()) for member in members]
        return [len(each) for each in owned] == [4 // len(members)] * len(members) and len(set.union(*owned)) == 4

    await one.start()
    await until(lambda: shared(one), "one member has all partitions")
    await two.start()
    await until(lambda: shared(one, two), "two members have two partitions each")
    await one.stop()
    await until(lambda: shared(two), "the remaining member has all partitions")
    await two.stop()


async def topics(bootstrap: str, name: str) -> None:
    await create(bootstrap, name, 2, {"retention.ms": "86400000"})
    async with admin(bootstrap) as client:
        await client.create_partitions({name: NewPartitions(3)})

        async def grown() -> bool:
            return len((await client.describe_topics([name]))[0]["partitions"]) == 3

        await until(grown, "three partitions")
        nodes = [broker["node_id"] for broker in (await client.describe_cluster())["brokers"]]
        described = (await client.describe_topics([name]))[0]["partitions"]
        same([part["replicas"][0] in nodes for part in described], [True] * 3, "replicas are nodes:")
        await client.delete_topics([name])

        async def gone() -> bool:
            return name not in await client.list_topics()

        await until(gone, "the topic is gone")


async def configs(bootstrap: str, name: str) -> None:
    await create(bootstrap, name)
    async with admin(bootstrap) as client:
        topic = ConfigResourceType.TOPIC
        (response,) = await client.alter_configs([ConfigResource(topic, name, {"retention.ms": "86400000"})])
        same([each[0] for each in response.resources], [0], "errors")

        async def altered() -> bool:
            (response,) = await client.describe_configs([ConfigResource(topic, name)])
            found = {entry[0]: entry[1] for entry in response.resources[0][4]}
            return (found["retention.ms"], found["cleanup.policy"]) == ("86400000", "delete")

        await until(altered, "retention.ms is altered")


async def filled(bootstrap: str, name: str) -> TopicPartition:
    """Creates a partition with three records, whose timestamps are 1000, 2000 and 3000."""
    partition = await create(bootstrap, name, config={"retention.ms": "-1"})
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for at in (1000, 2000, 3000):
            await send(producer, name, [b"x"], timestamp_ms=at)
    return partition


async def list_offsets(bootstrap: str, name: str) -> None:
    partition = await filled(bootstrap, name)
    async with assigned(bootstrap) as consumer:
        same(await consumer.beginning_offsets([partition]), {partition: 0}, "beginning")
        same(await consumer.end_offsets([partition]), {partition: 3}, "end")
        same((await consumer.offsets_for_times({partition: 1500}))[partition].offset, 1, "offset for 1500")


async def delete_records(bootstrap: str, name: str) -> None:
    partition = await filled(bootstrap, name)
    async with admin(bootstrap) as client:
        same(await client.delete_records({partition: RecordsToDelete(2)}), {partition: 2}, "low watermark")
    async with assigned(bootstrap) as consumer:
        same(await consumer.beginning_offsets([partition]), {partition: 2}, "beginning")
    same(len(await read(bootstrap, name)), 1, "records left")


async def groups(bootstrap: str, name: str) -> str:
    partition = await filled(bootstrap, name)
    async with AIOKafkaConsumer(
        name, bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        for _ in range(3):
            await consumer.getone()
        await consumer.commit()
    async with admin(bootstrap) as client:
        same([each[0] for each in await client.list_consumer_groups() if each[0] == name], [name], "listed")
        (response,) = await client.describe_consumer_groups([name])
        same(response.groups[0][:3], (0, name, "Empty"), "described")
        same((await client.list_consumer_group_offsets(name))[partition].offset, 3, "offset")
    return "no call to delete a group"


async def secured(bootstrap: str, name: str) -> None:
    """Produce and consume with the certificates or the user that this check names."""
    partition = await create(bootstrap, name)
    settings = client_settings("aiokafka", access(name))
    async with AIOKafkaProducer(**settings) as producer:
        await send(producer, name, [b"x"])
    async with AIOKafkaConsumer(**settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        same((await asyncio.wait_for(consumer.getone(), LIMIT)).value, b"x", "record")


async def acl(bootstrap: str, name: str) -> str:
    await create(bootstrap, name)
    async with AIOKafkaProducer(**client_settings("aiokafka", access(name))) as producer:
        try:
            await send(producer, REFUSED, [b"x"])
        except aiokafka.errors.TopicAuthorizationFailedError as error:
            told = type(error).__name__
        else:
            raise AssertionError("the client could write to the topic, but the ACL denies it")
        await send(producer, name, [b"x"])
    return told


async def quota(bootstrap: str, name: str) -> str:
    await create(bootstrap, name)
    async with AIOKafkaProducer(**client_settings("aiokafka", access(name)), client_id=name) as producer:
        await send(producer, name, [bytes(OVER)])
        began = time.monotonic()
        await send(producer, name, [b"x"])
        return waited_since(began)


ALL = {
    "produce": produce, "commit": commit, "abort": abort, "fence": fence,
    "offsets-in-transaction": offsets_in_transaction, "rebalance": rebalance, "topics": topics, "configs": configs,
    "list-offsets": list_offsets, "delete-records": delete_records, "groups": groups,
    **dict.fromkeys(SECURED, secured), "acl": acl, "quota": quota,
}  # fmt: skip


def in_a_loop(check: Callable[[str, str], Awaitable[str | None]]) -> Callable[[str, str], str | None]:
    async def work(bootstrap: str, name: str) -> str | None:
        return await check(bootstrap, name)

    return lambda bootstrap, name: asyncio.run(work(bootstrap, name))


if __name__ == "__main__":
    run("aiokafka", aiokafka.__version__, {name: in_a_loop(check) for name, check in ALL.items()})
