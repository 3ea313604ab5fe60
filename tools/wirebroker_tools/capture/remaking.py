"""Changes recorded requests so that they can be sent to another cluster, which hands out other ids.

The module compares a cluster's responses with the recorded responses, and learns the values that differ: producer ids with
their epochs, members of groups and their generations, topic ids, fetch sessions, and the offsets at which records are stored.
CRCs are computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kafkawire.batches import HEADER_SIZE, CorruptBatch, first_header, iter_batches, seal
from kafkawire.declare import Message
from kafkawire.entities import first, holders, struct_lists
from kafkawire.primitives import ZERO_UUID, Buffer
from wirebroker.requests.received import Directory

GENERATIONS = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
MEMBERS = ("member_id", "leader")
"""The fields that name a member of a group."""
SESSIONS = ("session_id",)
OFFSETS = ("fetch_offset", "committed_offset", "offset", "base_offset")
LEADER_EPOCHS = ("current_leader_epoch", "last_fetched_epoch", "committed_leader_epoch", "leader_epoch")
"""The fields of leader epochs; −1 means that the client does not know the epoch."""


class _Around(NamedTuple):
    """Where a part of a message belongs: the connection, the group, the topic and so on."""

    connection: int = -1
    group: str = ""
    topic: str = ""
    partition: int = -1


class Remaker:
    """Changes recorded requests so that they can be sent to another cluster. `new_producer` asks this cluster for a producer
    id, whose epoch is 0."""

    def __init__(self, recorded: Directory, current: Directory, new_producer: Callable[[], int]) -> None:
        self._recorded, self._current = recorded, current
        self._new_producer = new_producer
        self._producers: dict[tuple[int, int], tuple[int, int]] = {}
        self._values: dict[tuple[str, str | int, Any], Any] = {}
        """Members by group, generations by group, and fetch sessions by connection."""
        self._moved: dict[tuple[str, int], int] = {}
        """For each partition, the offset of a record in this cluster minus its offset in the capture."""

    # Requests

    def remake(self, request: Message, connection: int) -> None:
        """Change a recorded request into the request that a client would send to this cluster."""
        self._remake(request, _Around(connection))

    def moved(self) -> dict[str, int]:
        """Returns the difference of offsets for each partition: a record's offset in this cluster minus its offset in the
        capture."""
        return {f"{topic}-{index}": by for (topic, index), by in self._moved.items()}

    def _remake(self, part: Any, around: _Around) -> None:
        around = self._names(part, around, self._recorded)
        for name in holders(type(part), "topicId"):
            topic_id = self._current.topic_id(around.topic)
            if isinstance(getattr(part, name), bytes) and topic_id != ZERO_UUID:
                setattr(part, name, topic_id)
        for pid_field, epoch_field in _producers(part):
            producer = self._producer(getattr(part, pid_field), getattr(part, epoch_field))
            setattr(part, pid_field, producer[0])
            setattr(part, epoch_field, producer[1])
        for name in _present(part, (*MEMBERS, *GENERATIONS)):
            kind = "member" if name in MEMBERS else "generation"
            value = getattr(part, name)
            setattr(part, name, self._values.get((kind, around.group, value), value))
        for name in _present(part, SESSIONS):
            value = getattr(part, name)
            setattr(part, name, self._values.get(("session", around.connection, value), value))
        for name in _present(part, OFFSETS):
            if getattr(part, name) >= 0:
                setattr(part, name, getattr(part, name) + self._moved.get((around.topic, around.partition), 0))
        for name in _present(part, LEADER_EPOCHS):
            setattr(part, name, -1)
        if getattr(part, "records", None):
            part.records = self._batches(part.records)
        for name, _ in struct_lists(type(part)):
            for each in getattr(part, name) or ():
                self._remake(each, around)

    def _names(self, part: Any, around: _Around, directory: Directory) -> _Around:
        topic_id, group = first(part, "topicId"), first(part, "groupId")
        topic = first(part, "topicName") or (directory.topic_name(topic_id) if isinstance(topic_id, bytes) else None)
        index = next((getattr(part, name) for name in holders(type(part), "partition")), around.partition)
        return _Around(
            around.connection, group if isinstance(group, str) else around.group,
            topic if isinstance(topic, str) else around.topic, index if isinstance(index, int) else -1,
        )  # fmt: skip

    def _producer(self, producer_id: int, epoch: int) -> tuple[int, int]:
        """Returns the id and epoch of a recorded producer. A producer whose InitProducerId was not recorded gets a new id."""
        if producer_id < 0:
            return producer_id, epoch
        if (producer_id, epoch) not in self._producers:
            known = [(found, each) for each, found in self._producers.items() if each[0] == producer_id]
            # Some epochs were never handed out, for example the epoch of a fenced producer. The difference between such an
            # epoch and the known epoch stays the same.
            self._producers[producer_id, epoch] = (
                (known[-1][0][0], max(known[-1][0][1] + epoch - known[-1][1][1], 0)) if known else (self._new_producer(), 0)
            )
        return self._producers[producer_id, epoch]

    def _batches(self, records: Buffer) -> Buffer:
        """Returns the batches with this cluster's producers and new CRCs. Damaged batches stay unchanged."""
        made = []
        try:
            for batch in iter_batches(records):
                header = first_header(batch)
                if header is None:
                    return records  # a message set has no producers
                producer_id, epoch = self._producer(header.producer_id, header.producer_epoch)
                again = header._replace(producer_id=producer_id, producer_epoch=epoch)
                made.append(seal(again, batch[HEADER_SIZE:]) if header.magic == 2 else bytes(batch))
        except CorruptBatch:
            return records
        whole = b"".join(made)
        return whole if len(whole) == len(records) else records

    # Answers

    def learn(self, request: Message, recorded: Message | None, answered: Message, connection: int) -> None:
        """Note the ids that this cluster handed out in place of the recorded ids."""
        if recorded is not None and type(recorded) is type(answered):
            group = first(request, "groupId")
            self._compare(recorded, answered, _Around(connection, group if isinstance(group, str) else ""))

    def _compare(self, one: Any, other: Any, around: _Around) -> None:
        around = self._names(one, around, self._recorded)
        for pid_field, epoch_field in _producers(one):
            pair = getattr(one, pid_field), getattr(one, epoch_field)
            if pair[0] >= 0 and getattr(other, pid_field) >= 0:
                self._producers[pair] = getattr(other, pid_field), getattr(other, epoch_field)
        for name in _present(one, (*MEMBERS, *GENERATIONS)):
            kind = "member" if name in MEMBERS else "generation"
            if getattr(one, name) and getattr(other, name):
                self._values[kind, around.group, getattr(one, name)] = getattr(other, name)
        for name in _present(one, SESSIONS):
            if getattr(one, name):
                self._values["session", around.connection, getattr(one, name)] = getattr(other, name)
        for name in _present(one, ("offset", "base_offset")):
            if getattr(one, name) >= 0 and getattr(other, name) >= 0:
                by = getattr(other, name) - getattr(one, name)
                if name == "base_offset" or (around.topic, around.partition) not in self._moved:
                    self._moved[around.topic, around.partition] = by
        for name, _ in struct_lists(type(one)):
            self._compare_lists(getattr(one, name) or [], getattr(other, name) or [], around)

    def _compare_lists(self, one: list[Any], other: list[Any], around: _Around) -> None:
        """If an element of one list and an element of the other list name the same topic or partition, compare the two
        elements. Other elements, such as a group's members, have no order that could be compared.
        """
        by_name = {self._names(each, around, self._current)[2:]: each for each in other}
        for each in one:
            name = self._names(each, around, self._recorded)[2:]
            if name != around[2:] and name in by_name:
                self._compare(each, by_name[name], around)


def _producers(part: Any) -> Iterator[tuple[str, str]]:
    """Yields the name of each field that has a producer id, with the name of the field that has the producer's epoch."""
    yield from zip(holders(type(part), "producerId"), holders(type(part), "producerEpoch"), strict=False)


def _present(part: Any, names: tuple[str, ...]) -> Iterator[str]:
    """Yields each name in `names` for which `part` has a field with a value."""
    declared = {field.name for field in type(part).__wire__}
    yield from (name for name in names if name in declared and getattr(part, name) is not None)
