"""The state that the broker keeps about clients: producers and transactions."""

from __future__ import annotations

from typing import Annotated

from kafkawire.errors import ErrorCode
from wirebroker.common.changes import ProducerRow
from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.transactions.coordinator import InitRequest
from wirebroker.core.transactions.transaction import Transaction
from wirebroker.deeds.declaring import NO_ID, NO_TOPIC, Deeds, about, deed
from wirebroker.deeds.errors import NoSuch, NothingToChange

__tracebackhide__ = True  # pytest shows the caller's line
ATTEMPTS = 3
"""`fence` sends InitProducerId up to this many times, because the coordinator may first have to load or to abort a
transaction."""


class StateDeeds(Deeds):
    """The deeds that change producers, transactions and logs. In Kafka, these changes are caused by time, by a second client,
    or by a failed election."""

    @deed(
        "POST", "/producers/{producer_id:number}/expire", result="partitions",
        problems={404: "there is no such topic or partition, or the producer id is not a whole number from 0 on"},
    )  # fmt: skip
    def expire_producer(
        self,
        producer_id: int,
        topic: Annotated[str | None, about("only partitions of this topic")] = None,
        partition: Annotated[int | None, about("only partitions with this index")] = None,
    ) -> Annotated[int, about("the number of partitions that have forgotten the producer")]:
        """Make partitions forget a producer, as they do after producer.id.expiration.ms. A partition on which the producer has
        an open transaction does not forget the producer. Returns the number of partitions that have forgotten the producer.

        Raises KeyError or IndexError if the partition does not exist.
        """
        cluster, count = self._engine.cluster, 0
        if topic is not None and self._topic(topic) and partition is not None:
            self._partition(topic, partition)
        for each in cluster.partitions():
            if topic in (None, each.topic) and partition in (None, each.index):
                epoch = each.expire_producer(producer_id)
                if epoch is not None:
                    count += 1
                    cluster.report(ProducerRow("expired", each.topic, each.index, producer_id, epoch))
        return count

    @deed("POST", "/transactions/{transactional_id:id}/expire", problems=NO_ID,
          impossible="in its present state, Kafka does not forget the transactional id")  # fmt: skip
    def expire_transactional_id(self, transactional_id: str) -> None:
        """Make the coordinator forget a transactional id, as it does after transactional.id.expiration.ms.

        Raises ValueError if the id is unknown, or is in a state in which Kafka does not forget it.
        """
        known = self._transaction(transactional_id)
        if not known.state.may_expire:
            state = known.state.value
            raise NothingToChange(
                f"the transactional id {transactional_id!r} is in state {state}, and Kafka forgets no id in that state"
            )
        self._engine.transactions.forget(known, self._now)

    @deed("POST", "/transactions/{transactional_id:id}/fence", shows="transaction", problems=NO_ID,
          impossible="the producer cannot be fenced now")  # fmt: skip
    def fence(self, transactional_id: str) -> int:
        """Fence a transactional producer: its epoch rises, and its open transaction is aborted. The start of another producer
        with this id has the same effect. Returns the new epoch.

        Raises ValueError if the id is unknown, or if the producer cannot be fenced.
        """
        known, cluster = self._transaction(transactional_id), self._engine.cluster
        node = cluster.coordinator("transaction", transactional_id) or cluster.controller_id
        request = InitRequest(transactional_id, known.timeout_ms, None, node)
        code = ErrorCode.NONE
        for _ in range(ATTEMPTS):
            code, _, epoch = self._engine.transactions.init_producer_id(request, self._now)
            if not code:
                return epoch
        raise NothingToChange(f"the transactional id {transactional_id!r} cannot be fenced now: {code.name}")

    def _transaction(self, transactional_id: str) -> Transaction:
        known = self._engine.transactions.transactions
        if transactional_id not in known:
            advice = did_you_mean(transactional_id, known)
            raise NoSuch("transactional_id", f"there is no transactional id {transactional_id!r}{advice}")
        return known[transactional_id]

    @deed("POST", "/topics/{topic}/partitions/{partition:number}/truncate", shows="partition", problems=NO_TOPIC)
    def truncate(
        self, topic: str, partition: int,
        offset: Annotated[int, about("the batch with this offset and all later batches are lost", ge=0)],
    ) -> int:  # fmt: skip
        """Delete the end of a partition's log: the batch that contains `offset` and all later batches. Returns the new log end
        offset. Raises ValueError if the partition does not exist, or does not have the offset."""
        cluster = self._engine.cluster
        if (found := cluster.partition(topic, partition)) is None:
            raise NothingToChange(cluster.no_partition(topic, partition))
        try:
            self._engine.controller.truncate(found, offset, self._now)
        except ValueError as wrong:
            raise NothingToChange(str(wrong)) from None
        return found.log_end_offset
