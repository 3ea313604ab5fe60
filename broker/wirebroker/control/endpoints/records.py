"""Stored records: reading them page by page, waiting for them, and seed data without a client."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlencode

from kafkawire.batches import Record as WireRecord
from wirebroker import operations
from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.forms import Form, Misfit, Natural, about
from wirebroker.control.problems import Problem
from wirebroker.operations import StoredRecord

PAGE_BYTES = 4 * 1024 * 1024
"""A page ends with the record whose key and value bring it to this."""
MOST_PER_PAGE = 10_000
MOST_PER_REQUEST = 10_000
LONGEST_WAIT_S = 300


class Data(Form):
    """Bytes, as text if they are UTF-8, and as base64. A request needs only one of them."""

    text: Annotated[str | None, about("null if they are not UTF-8")] = None
    base64: Annotated[str | None, about("always present in an answer")] = None


class Header(Form):
    """A record's header."""

    name: str
    value: Annotated[str | Data | None, about("text, or bytes")] = None


class NewRecord(Form):
    """A record to store. Keys and values are given as text, or as bytes in base64."""

    key: Annotated[str | Data | None, about("null for none", examples=["customer-7"])] = None
    value: Annotated[str | Data | None, about("null for a tombstone", examples=["a pound of tea"])] = None
    headers: Annotated[list[Header], about("in this order")] = []
    partition: Annotated[int, about("the partition that stores it", ge=0)] = 0
    timestamp: Annotated[Natural | None, about("ms since the epoch; null: now")] = None


class NewRecords(Form):
    """Records to store, in this order, each in a batch of its own and without a producer."""

    records: list[NewRecord]


class Place(Form):
    """The partition and offset of a stored record."""

    partition: int
    offset: int


class Places(Form):
    """The places of the stored records, in the order of the request."""

    records: list[Place]


class StoredHeader(Form):
    """A stored record's header."""

    name: str
    value: Data | None


class Record(Form):
    """A stored record; −1 stands for "none"."""

    topic: str
    partition: int
    offset: int
    timestamp: Annotated[int, about("ms since the epoch")]
    key: Data | None
    value: Data | None
    headers: list[StoredHeader]
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional: bool
    control: Annotated[bool, about("true for the end marker of a transaction")]


class Records(Form):
    """A page of records, by partition and offset."""

    records: list[Record]
    next: Annotated[str | None, about("the path of the next page; null: this is the last")]


class Which(Form):
    """The records to read, and the size of a page."""

    partition: Annotated[int | None, about("only this partition")] = None
    from_partition: Annotated[int, about("begin with this partition")] = 0
    offset: Annotated[int, about("begin with this offset of the first partition")] = 0
    limit: Annotated[int, about("the most records on a page; a page also ends at 4 MiB", ge=1, le=MOST_PER_PAGE)] = 1000


class HowMany(Form):
    """The number of records to wait for."""

    count: Annotated[int, about("wait until this many are stored", ge=1)] = 1
    timeout: Annotated[float, about("wait at most this many seconds", ge=0, le=LONGEST_WAIT_S)] = 5.0


def page(controlled: ControlledBroker, topic: str, query: Which) -> Records:
    """The stored records of a topic, page by page.

    The whole log, also the parts that consumers do not see: records of open and aborted transactions, and end markers.
    """
    if query.partition is not None and query.from_partition:
        raise Problem(422, "partition and from_partition exclude each other; give one of them", "partition")
    found: list[Record] = []
    size = 0
    for record in _from(controlled, topic, query):
        if len(found) == query.limit or size >= PAGE_BYTES:
            return Records(found, _link(topic, query, record))
        found.append(_shown(record))
        size += len(record.key or b"") + len(record.value or b"")
    return Records(found, None)


def _from(controlled: ControlledBroker, name: str, query: Which) -> Iterator[StoredRecord]:
    topic = operations.topic_named(controlled.engine, name)
    first = query.from_partition if query.partition is None else query.partition
    operations.partition_of(topic, first)
    last = len(topic.partitions) if query.partition is None else first + 1
    for partition in topic.partitions[first:last]:
        yield from operations.stored_records(partition, query.offset if partition.index == first else 0)


def _link(topic: str, query: Which, record: StoredRecord) -> str:
    place = "from_partition" if query.partition is None else "partition"
    words = {place: record.partition, "offset": record.offset, "limit": query.limit}
    return f"/topics/{topic}/records?{urlencode(words)}"


async def wait(controlled: ControlledBroker, topic: str, query: HowMany) -> Records:
    """Wait until a topic stores `count` records; the answer is their first page. The topic may not exist yet.

    409: fewer were stored within the timeout; `detail` says how many.
    """

    def stored() -> int:
        return operations.record_count(controlled.engine, topic)

    try:
        await controlled.until(lambda: stored() >= query.count, query.timeout)
    except TimeoutError:
        came = f"{stored()} of {query.count} records were stored in {topic!r} within {query.timeout:g} s"
        raise Problem(409, came) from None
    return page(controlled, topic, Which())


def store(controlled: ControlledBroker, topic: str, body: NewRecords) -> Places:
    """Store records without a client. A topic that does not exist is created.

    If the broker refuses a record, the answer names it, and the records before it are stored.
    """
    if len(body.records) > MOST_PER_REQUEST:
        raise Problem(422, f"a request stores at most {MOST_PER_REQUEST} records, not {len(body.records)}", "records")
    now, places = controlled.now, []
    given = [(_wire(each, f"records[{i}]"), each) for i, each in enumerate(body.records)]
    try:
        for wire, each in given:
            offset = operations.store(controlled.engine, topic, each.partition, wire, each.timestamp, now)
            places.append(Place(each.partition, offset))
    except (ValueError, LookupError) as refused:
        status = 404 if isinstance(refused, LookupError) else 422
        before = f"; the {len(places)} before it are stored" if places else ""
        raise Problem(status, f"{refused}{before}", f"records[{len(places)}]") from None
    finally:
        controlled.changed()
    return Places(places)


def _wire(record: NewRecord, where: str) -> WireRecord:
    headers = tuple(
        (header.name, _bytes(header.value, f"{where}.headers[{i}].value")) for i, header in enumerate(record.headers)
    )
    return WireRecord(0, 0, _bytes(record.key, f"{where}.key"), _bytes(record.value, f"{where}.value"), headers)


def _bytes(given: str | Data | None, where: str) -> bytes | None:
    """The bytes of a text, or of Data. Raises Misfit."""
    if given is None or isinstance(given, str):
        return None if given is None else given.encode()
    if given.base64 is None:
        if given.text is None:
            raise Misfit(where, f"{where} has neither text nor base64")
        return given.text.encode()
    try:
        raw = b64decode(given.base64, validate=True)
    except (binascii.Error, ValueError) as wrong:
        raise Misfit(f"{where}.base64", f"{where}.base64 is not base64: {wrong}") from None
    if given.text is not None and given.text.encode() != raw:
        raise Misfit(where, f"{where}: text and base64 are different bytes; give one of them")
    return raw


def _shown(record: StoredRecord) -> Record:
    headers = [StoredHeader(name, _data(value)) for name, value in record.headers]
    return Record(
        record.topic, record.partition, record.offset, record.timestamp, _data(record.key), _data(record.value), headers,
        record.producer_id, record.producer_epoch, record.sequence, record.transactional, record.control,
    )  # fmt: skip


def _data(raw: bytes | None) -> Data | None:
    if raw is None:
        return None
    try:
        text: str | None = bytes(raw).decode()
    except UnicodeDecodeError:
        text = None
    return Data(text, b64encode(raw).decode())
