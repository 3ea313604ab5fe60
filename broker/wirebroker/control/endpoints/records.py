"""Stored records: reading records page by page, waiting for records, and storing seed data without a client."""

from __future__ import annotations

import asyncio
import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

from msgspec import UNSET, UnsetType

from kafkawire.batches import Record as WireRecord
from wirebroker.control.controlled import ControlledBroker
from wirebroker.control.forms import Form, Misfit, Natural, about
from wirebroker.control.problems import Problem
from wirebroker.core.patterns import compile_pattern
from wirebroker.deeds.declaring import partition_of, topic_named
from wirebroker.testing import expectations, operations
from wirebroker.testing.expectations import Difference
from wirebroker.testing.goals import RecordsExpected, RecordsStored
from wirebroker.testing.operations import StoredRecord

PAGE_BYTES = 4 * 1024 * 1024
"""A page ends when the keys and values on the page have this many bytes."""
MOST_PER_PAGE = 10_000
MOST_PER_REQUEST = 10_000
MOST_EXPECTED = 1000
LONGEST_WAIT_S = 300


class Data(Form):
    """Bytes: as base64 and, if they are UTF-8, also as text. A request gives only one of the fields."""

    text: Annotated[str | None, about("null if the bytes are not UTF-8")] = None
    base64: Annotated[str | None, about("always present in a response")] = None


class NewData(Data):
    """Bytes to store. Only one field may be given."""

    json: Annotated[Any, about("stored as JSON")] = UNSET


class Header(Form):
    """A record's header."""

    name: str
    value: Annotated[str | NewData | None, about("text, bytes or JSON")] = None


class NewRecord(Form):
    """A record to store. Keys and values are texts, bytes in base64, or JSON."""

    key: Annotated[str | NewData | None, about("null: a record without a key", examples=["customer-7"])] = None
    value: Annotated[str | NewData | None, about("null: a tombstone", examples=["a pound of tea"])] = None
    headers: Annotated[
        list[Header] | dict[str, str | NewData | None], about("the headers, in this order: a list, or their values by name")
    ] = []
    partition: Annotated[int, about("the partition that stores the record", ge=0)] = 0
    timestamp: Annotated[Natural | None, about("the timestamp in ms since the epoch; null: now")] = None


class NewRecords(Form):
    """Records to store, in this order. Each record is stored in its own batch, without a producer id."""

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
    """A page of records, sorted by partition and offset."""

    records: list[Record]
    next: Annotated[str | None, about("the path of the next page; null on the last page")]


COMMITTED = "only records that a read_committed consumer gets: without open and aborted transactions, and without end markers"


class Which(Form):
    """The records to read, and the size of a page."""

    partition: Annotated[int | None, about("only this partition")] = None
    from_partition: Annotated[int, about("the page begins with this partition")] = 0
    offset: Annotated[int, about("the page begins at this offset in the first partition")] = 0
    limit: Annotated[int, about("at most this many records; a page also ends at 4 MiB", ge=1, le=MOST_PER_PAGE)] = 1000
    committed: Annotated[bool, about(COMMITTED)] = False


class HowMany(Form):
    """The number of records to wait for."""

    count: Annotated[int, about("wait until this many records are stored", ge=1)] = 1
    timeout: Annotated[float, about("wait at most this many seconds", ge=0, le=LONGEST_WAIT_S)] = 5.0
    committed: Annotated[bool, about("count " + COMMITTED)] = False


class Wanted(Form):
    """An expected key, value or header. Exactly one field must be given."""

    text: Annotated[str | None, about("this text")] = None
    base64: Annotated[str | None, about("these bytes")] = None
    json: Annotated[Any, about("equal to this JSON")] = UNSET
    json_subset: Annotated[Any, about("JSON with at least these fields, at any depth")] = UNSET
    regex: Annotated[str | None, about("any text in which this regular expression (RE2) matches")] = None


class ExpectedRecord(Form):
    """An expected record. A field that is left out matches anything."""

    key: Annotated[str | Wanted | UnsetType | None, about("null: the record has no key")] = UNSET
    value: Annotated[str | Wanted | UnsetType | None, about("null: a tombstone", examples=["a pound of tea"])] = UNSET
    headers: Annotated[dict[str, str | Wanted | None] | None, about("all headers, by name; null: any")] = None
    partition: Annotated[int | None, about("null: any partition")] = None


class Expectation(Form):
    """The expected records, and the options of the comparison."""

    records: list[ExpectedRecord]
    partition: Annotated[int | None, about("look only at this partition")] = None
    in_order: Annotated[bool, about("compare in order of partition and offset; false: in any order")] = True
    committed: Annotated[bool, about(COMMITTED + ". false: also compare records of open and aborted transactions")] = True
    timeout: Annotated[float, about("wait at most this many seconds", ge=0, le=LONGEST_WAIT_S)] = 5.0


class Compared(Form):
    """The result if the records are as expected."""

    records: Annotated[int, about("the number of records")]


def page(controlled: ControlledBroker, topic: str, query: Which) -> Records:
    """Returns the stored records of a topic, page by page.

    The response has the whole log, including records of open and aborted transactions, and end markers. With `committed`, the
    response has only the records that a read_committed consumer gets.
    """
    if query.partition is not None and query.from_partition:
        raise Problem(422, "partition and from_partition exclude each other; give only one", "partition")
    found: list[Record] = []
    size = 0
    for record in _from(controlled, topic, query):
        if len(found) == query.limit or size >= PAGE_BYTES:
            return Records(found, _link(topic, query, record))
        found.append(shown(record))
        size += len(record.key or b"") + len(record.value or b"")
    return Records(found, None)


def _from(controlled: ControlledBroker, name: str, query: Which) -> Iterator[StoredRecord]:
    topic = topic_named(controlled.engine.cluster, name)
    first = query.from_partition if query.partition is None else query.partition
    partition_of(topic, first)
    last = len(topic.partitions) if query.partition is None else first + 1
    read = operations.committed_records if query.committed else operations.stored_records
    for partition in topic.partitions[first:last]:
        yield from read(partition, query.offset if partition.index == first else 0)


def _link(topic: str, query: Which, record: StoredRecord) -> str:
    place = "from_partition" if query.partition is None else "partition"
    words: dict[str, int | str] = {place: record.partition, "offset": record.offset, "limit": query.limit}
    words |= {"committed": "true"} if query.committed else {}
    return f"/topics/{topic}/records?{urlencode(words)}"


async def wait(controlled: ControlledBroker, topic: str, query: HowMany) -> Records:
    """Wait until a topic stores `count` records. Returns the first page of the topic's records. The topic may be created later.

    If too few records are stored within the timeout, 409 gives their number in `detail`.
    """
    await controlled.reach(RecordsStored(topic, query.count, committed=query.committed), query.timeout)
    return page(controlled, topic, Which(committed=query.committed))


async def compare(controlled: ControlledBroker, topic: str, body: Expectation) -> Compared:
    """Wait until a topic has as many records as expected, and compare the records. If they differ, 409 gives the differences,
    line by line."""
    if len(body.records) > MOST_EXPECTED:
        raise Problem(422, f"at most {MOST_EXPECTED} records are compared at once, not {len(body.records)}", "records")
    expected = [_expected(each, f"records[{i}]") for i, each in enumerate(body.records)]
    goal = RecordsExpected(topic, expected, body.partition, in_order=body.in_order, committed=body.committed)
    stored = await controlled.reach(goal, body.timeout)
    try:
        await asyncio.to_thread(goal.verdict, stored)  # in a thread, so the broker continues to serve its clients
    except Difference as different:
        raise Problem(409, str(different)) from None
    except RecursionError:
        raise Problem(422, "the expected JSON is nested too deeply to be compared", "records") from None
    return Compared(len(stored))


class _Regex:
    """The regular expression in a request, compiled with RE2. It has the method `search`, which `expectations` calls."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._compiled = compile_pattern(pattern)

    def search(self, text: str) -> bool:
        return self._compiled.found_in(text)


def _expected(record: ExpectedRecord, where: str) -> expectations.record:
    headers = record.headers and {name: _wanted(each, f"{where}.headers.{name}") for name, each in record.headers.items()}
    return expectations.record(
        key=_wanted(record.key, f"{where}.key"),
        value=_wanted(record.value, f"{where}.value"),
        headers=... if headers is None else headers,
        partition=... if record.partition is None else record.partition,
    )


def _wanted(given: str | Wanted | UnsetType | None, where: str) -> Any:
    """Returns the expected value in the form of `expectations`. Raises Misfit."""
    if given is UNSET:
        return ...
    if not isinstance(given, Wanted):
        return given
    absent = Wanted()
    forms = {name: value for name in given.__struct_fields__ if (value := getattr(given, name)) is not getattr(absent, name)}
    if len(forms) != 1:
        raise Misfit(where, f"{where}: give exactly one of {', '.join(given.__struct_fields__)}")
    ((form, value),) = forms.items()
    try:
        if form == "base64":
            return b64decode(value, validate=True)
        if form == "regex":
            return _Regex(value)
    except (binascii.Error, ValueError) as wrong:
        raise Misfit(f"{where}.{form}", f"{where}.{form}: {wrong}") from None
    makers: dict[str, Callable[[Any], Any]] = {"json": expectations.json_value, "json_subset": expectations.subset}
    return makers[form](value) if form in makers else value


def store(controlled: ControlledBroker, topic: str, body: NewRecords) -> Places:
    """Store records without a client. If the topic does not exist, the broker creates it.

    If the broker refuses a record, the response names this record. The earlier records of the request are stored.
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
        before = f"; the earlier records ({len(places)}) are stored" if places else ""
        raise Problem(status, f"{refused}{before}", f"records[{len(places)}]") from None
    finally:
        controlled.changed()
    return Places(places)


def _wire(record: NewRecord, where: str) -> WireRecord:
    headers = []
    if isinstance(record.headers, dict):
        headers = [(name, _bytes(value, f"{where}.headers.{name}")) for name, value in record.headers.items()]
    else:
        headers = [(each.name, _bytes(each.value, f"{where}.headers[{i}].value")) for i, each in enumerate(record.headers)]
    return WireRecord(0, 0, _bytes(record.key, f"{where}.key"), _bytes(record.value, f"{where}.value"), tuple(headers))


def _bytes(given: str | NewData | None, where: str) -> bytes | None:
    """Converts a text or a NewData to bytes. Raises Misfit."""
    if given is None or isinstance(given, str):
        return None if given is None else given.encode()
    if given.json is not UNSET:
        if given.text is not None or given.base64 is not None:
            raise Misfit(where, f"{where}: json excludes text and base64; give one of them")
        return json.dumps(given.json).encode()
    if given.base64 is None:
        if given.text is None:
            raise Misfit(where, f"{where}: give one of text, base64 and json")
        return given.text.encode()
    try:
        raw = b64decode(given.base64, validate=True)
    except (binascii.Error, ValueError) as wrong:
        raise Misfit(f"{where}.base64", f"{where}.base64 is not base64: {wrong}") from None
    if given.text is not None and given.text.encode() != raw:
        raise Misfit(where, f"{where}: text and base64 are different bytes; give one of them")
    return raw


def shown(record: StoredRecord) -> Record:
    """Returns a stored record as the control shows it."""
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
