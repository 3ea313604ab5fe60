"""**Storage**, for the batches of a Produce request:"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from kafkawire.declare import Message
from wirebroker.faults.acts import Injection
from wirebroker.faults.rules import Rule

__all__ = ["crash_after_write", "disk_full", "fail_write", "slow_write"]

PRODUCE = ("Produce",)


class fail_write(Rule):
    """The write of the batch fails. The response has the error KAFKA_STORAGE_ERROR, and neither the log nor the producer's
    state changes. The write of a duplicate cannot fail, because a duplicate is not written."""

    example = 'faults.fail_write(topic="orders", nth=2)'
    only_apis: ClassVar[tuple[str, ...]] = PRODUCE
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool | None:
        for batch in injection.batches:
            if batch is not None:
                injection.fail_write(batch)
        return None


class slow_write(Rule):
    """The write of the batch takes `ms` milliseconds, by the broker's clock. Later writes to the same partition wait for this
    write."""

    ms: Annotated[int, Meta(ge=1, extra={"unit": "ms"})]

    example = "faults.slow_write(3000, partition=0, every=5)"
    only_apis: ClassVar[tuple[str, ...]] = PRODUCE

    def before(self, injection: Injection) -> Message:
        for batch in injection.batches:
            if batch is not None:
                injection.slow_write(batch, self.ms)
        return injection.request


class disk_full(Rule):
    """When the rule matches a batch, the log directory of the broker goes offline. Then reads and writes get the error
    KAFKA_STORAGE_ERROR. The error affects all partitions that the broker leads, or only the given `topic` and `partition`.
    Internal topics are affected only if `topic` names them. The fault ends when the rule is unloaded, or when another broker
    becomes the leader; the rule can fire at the new leader, too."""

    example = 'faults.disk_full(topic="orders", nth=10)'
    only_apis: ClassVar[tuple[str, ...]] = PRODUCE
    needs_broker: ClassVar[bool] = True

    def change(self, injection: Injection) -> bool:
        restore = injection.broker.fill_disk(injection.exchange.node_id, self.match.topic, self.match.partition)
        return injection.at_unload(restore)


class crash_after_write(Rule):
    """The broker is killed after it has written the batch and before it acknowledges the batch. Then the broker starts again.
    If there are other brokers, they become the leaders of the killed broker's partitions. The log and the producer's state
    contain the batch."""

    example = 'faults.crash_after_write(topic="orders", nth=2)'
    only_apis: ClassVar[tuple[str, ...]] = PRODUCE
    needs_broker: ClassVar[bool] = True

    def before(self, injection: Injection) -> Message:
        injection.crash()
        return injection.request
