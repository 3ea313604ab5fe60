"""The events of a history: the effects that requests ask for, and the results in their responses. A code is None if there is no
response."""

from __future__ import annotations

from typing import NamedTuple

SEQUENCES = 2**31
Where = tuple[str, int]
"""A partition: the topic's name and the number."""
Id = int | str
"""A producer's id: a number, or its symbol in a recorded dialogue."""
NO_ID = -1


class Batch(NamedTuple):
    producer_id: Id
    epoch: int
    sequence: int
    count: int
    transactional: bool = False
    sound: bool = True
    """False if the history shows that the records themselves are a reason to refuse the batch."""
    values: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        return (self.sequence + self.count - 1) % SEQUENCES if self.sequence >= 0 else -1

    @property
    def checked(self) -> bool:
        """Tells whether the producer has an id. Only then do its sequences count."""
        return self.producer_id not in (NO_ID, -2)

    @property
    def verified(self) -> bool:
        """Tells whether the batch belongs to a transaction. A batch without a producer id belongs to no transaction, even if
        the batch is marked as transactional."""
        return self.transactional and self.checked


class Part(NamedTuple):
    """The batches that a Produce sends to one partition, and the response for this partition."""

    where: Where
    batches: tuple[Batch, ...]
    code: int | None
    offset: int = -1


class Produce(NamedTuple):
    transactional_id: str | None
    version: int
    acks: int
    parts: tuple[Part, ...]


class Init(NamedTuple):
    transactional_id: str | None
    current: tuple[Id, int] | None
    version: int
    timeout_ms: int
    code: int | None
    producer_id: Id = NO_ID
    epoch: int = -1


class Add(NamedTuple):
    """AddPartitionsToTxn for one transactional id, or AddOffsetsToTxn."""

    transactional_id: str
    producer_id: Id
    epoch: int
    version: int
    codes: dict[Where, int | None]
    verifies: bool = False


class CommitOffsets(NamedTuple):
    """TxnOffsetCommit."""

    transactional_id: str
    producer_id: Id
    epoch: int
    version: int
    group: Where
    code: int | None


class End(NamedTuple):
    transactional_id: str
    producer_id: Id
    epoch: int
    version: int
    commit: bool
    code: int | None
    given: tuple[Id, int] | None = None


class Mark(NamedTuple):
    """A marker of WriteTxnMarkers."""

    producer_id: Id
    epoch: int
    strict: bool
    codes: dict[Where, int | None]


class Describe(NamedTuple):
    """The result of DescribeTransactions or ListTransactions for one transactional id."""

    transactional_id: str
    state: str | None
    producer_id: Id = NO_ID
    epoch: int | None = None


class DescribeProducer(NamedTuple):
    """The result of DescribeProducers for one producer of a partition."""

    where: Where
    producer_id: Id
    epoch: int
    last_sequence: int
    open_since: int


class Forget(NamedTuple):
    """A topic was deleted, or (`only_records`) only records of the topic were deleted."""

    topic: str
    only_records: bool = False


Event = Produce | Init | Add | CommitOffsets | End | Mark | Describe | DescribeProducer | Forget
