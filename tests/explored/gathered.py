"""Sends six records concurrently with aiokafka. With the argument "unseen", it collects the exceptions and ignores them."""

import asyncio
import os
import sys

from aiokafka import AIOKafkaProducer


async def main(unseen: bool) -> None:
    """Send the records, and wait for all results."""
    producer = AIOKafkaProducer(
        bootstrap_servers=os.environ["WIREBROKER_BOOTSTRAP"],
        enable_idempotence=True,
        request_timeout_ms=2000,
        retry_backoff_ms=10,
    )
    await producer.start()
    try:
        sent = [producer.send_and_wait("orders", key=b"key-%d" % (each % 2), value=b"order-%d" % each) for each in range(6)]
        await asyncio.gather(*sent, return_exceptions=unseen)
    finally:
        await producer.stop()


asyncio.run(main("unseen" in sys.argv))
