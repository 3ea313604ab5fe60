"""Encoding and decoding do not change a message. The codec also reads every encoding that Kafka reads."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import codec, declare
from kafkawire.compiling import Counted, is_fixed, least_size
from kafkawire.coordinator_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kafkawire.declare import Field, Message, Struct, message, wire
from kafkawire.errors import EncodeError, ProtocolError
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.messages.offset_commit import OffsetCommitRequest
from kafkawire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkawire.primitives import format_uuid, parse_uuid, read_uvarint, write_uvarint
from wire.random_messages import INTEGERS, MESSAGES, versions_of

CLASSES: list[type[Message]] = [*MESSAGES, ConsumerProtocolSubscription, ConsumerProtocolAssignment]
NUMBERS = {
    **{spec: st.integers(low, high) for spec, (low, high) in INTEGERS.items()},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": st.text(max_size=12) | st.just("é" * 100),
    "bytes": st.binary(max_size=12) | st.just(b"\xff" * 200),
    "records": st.binary(max_size=12) | st.just(b"\xff" * 200),
}


@cache
def structs(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Makes structs. Every field that the version has gets a random value; the other fields have their defaults."""
    return st.builds(cls, **{f.name: fields(f, version) for f in cls.__wire__ if f.present(version)})


def fields(field: Field, version: int) -> st.SearchStrategy[Any]:
    made = values(field.spec, version)
    if field.nullable(version):
        made = st.none() | made
    if field.tag is not None:
        made |= st.builds(field.default) if callable(field.default) else st.just(field.default)
    return made


def values(spec: Any, version: int) -> st.SearchStrategy[Any]:
    if isinstance(spec, list):
        made = st.lists(values(spec[0], version), max_size=3)
        return made | st.just([1] * 200) if spec[0] in ("int8", "int32") else made
    return structs(spec, version) if isinstance(spec, type) else NUMBERS[spec]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_message_survives_the_way_through_its_bytes_in_every_version(cls: type[Message]) -> None:
    for version in versions_of(cls):
        check_round_trips(cls, version)


def check_round_trips(cls: type[Message], version: int) -> None:
    @settings(max_examples=5, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(structs(cls, version))
    def survives(sent: Message) -> None:
        raw = codec.encode(sent, version)
        assert codec.decode(cls, raw, version) == (sent, len(raw))

    survives()


def test_a_message_may_stand_anywhere_in_a_buffer_and_says_where_it_ends() -> None:
    sent = OffsetCommitRequest(group_id="g", member_id="", topics=[])
    raw = codec.encode(sent, 8)
    for buffer in (b"head" + raw + b"tail", bytearray(b"head" + raw + b"tail"), memoryview(b"head" + raw + b"tail")):
        assert codec.decode(OffsetCommitRequest, buffer, 8, 4) == (sent, 4 + len(raw))


def test_a_field_outside_its_versions_is_left_out_and_read_as_its_default() -> None:
    topics = [TopicProduceData(name="orders", topic_id=b"i" * 16, partition_data=[])]
    sent = ProduceRequest(acks=1, timeout_ms=2, topic_data=topics)
    by_name, _ = codec.decode(ProduceRequest, codec.encode(sent, 12), 12)
    by_id, _ = codec.decode(ProduceRequest, codec.encode(sent, 13), 13)
    assert (by_name.topic_data[0].name, by_name.topic_data[0].topic_id) == ("orders", bytes(16))
    assert (by_id.topic_data[0].name, by_id.topic_data[0].topic_id) == ("", b"i" * 16)


def test_default_lists_and_structs_are_not_shared() -> None:
    one, _ = codec.decode(ProduceResponse, codec.encode(ProduceResponse(responses=[]), 9), 9)
    two, _ = codec.decode(ProduceResponse, codec.encode(ProduceResponse(responses=[]), 9), 9)
    assert one.node_endpoints is not two.node_endpoints
    first, second = (PartitionProduceResponse(index=0, error_code=0, base_offset=0) for _ in range(2))
    assert first.current_leader is not second.current_leader


def test_records_are_a_view_of_the_buffer_they_were_read_from() -> None:
    partition = PartitionProduceData(index=0, records=b"r" * 100)
    sent = ProduceRequest(acks=1, timeout_ms=0, topic_data=[TopicProduceData(name="t", partition_data=[partition])])
    buffer = bytearray(codec.encode(sent, 9))
    read, _ = codec.decode(ProduceRequest, buffer, 9)
    records = read.topic_data[0].partition_data[0].records
    buffer[buffer.index(b"rrrr")] = ord("X")
    assert isinstance(records, memoryview)
    assert bytes(records) == b"X" + b"r" * 99


def fetched(records: bytes | memoryview) -> FetchResponse:
    def partition(index: int, data: bytes | memoryview) -> PartitionData:
        return PartitionData(partition_index=index, error_code=0, high_watermark=5, aborted_transactions=None, records=data)

    topic = FetchableTopicResponse(topic="t", partitions=[partition(0, records), partition(1, b"small")])
    return FetchResponse(responses=[topic])


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_large_records_are_spliced_where_they_belong(version: int) -> None:
    records = memoryview(bytes(range(256)) * 64)
    out, splices = bytearray(), []
    codec.encode_into(fetched(records), version, out, splices)
    assert [held is records for _, held in splices] == [True]
    ((at, _),) = splices
    assert bytes(out[:at]) + bytes(records) + bytes(out[at:]) == codec.encode(fetched(records), version)


@pytest.mark.parametrize("records", ["r" * 5000, [1] * 5000, 7])
def test_what_is_no_bytes_is_not_spliced_either(records: Any) -> None:
    with pytest.raises(EncodeError, match=r"partitions\[0\].records: .* is not a valid records"):
        codec.encode_into(fetched(records), 4, bytearray(), [])


def test_large_records_in_a_tagged_field_are_copied_because_their_size_comes_first() -> None:
    @message(versions=(0, 0), flexible=0)
    class Odd(Message):
        records: Any = wire("records", tag=0)

    out, splices = bytearray(), []
    codec.encode_into(Odd(records=b"r" * 5000), 0, out, splices)
    assert splices == []
    assert codec.decode(Odd, out, 0) == (Odd(records=b"r" * 5000), len(out))


# The encoding of each type of field, byte by byte.


@declare.struct
class Leaf(Struct):
    number: int = wire("int32")
    word: str = wire("string")


@declare.struct
class Branch(Struct):
    leaf: Leaf | None = wire(Leaf, nullable=0)


@message(versions=(0, 3), flexible=2)
class Forms(Message):
    text: str | None = wire("string", nullable=1)
    raw: bytes | None = wire("bytes", nullable=1)
    ids: list[bytes] | None = wire(["uuid"], nullable=1)
    branches: list[Branch] = wire([Branch])


@message(versions=(0, 2), flexible=0)
class Tagged(Message):
    number: int = wire("int8")
    leaf: Leaf = wire(Leaf, tag=0, default=Leaf)
    words: list[str] | None = wire(["string"], nullable=0, tag=3, default=None)
    late: int = wire("int16", since=2, tag=1, default=-1)


def tag(number: int, value: bytes, size: int | None = None) -> bytes:
    return bytes([number, len(value) if size is None else size]) + value


LEAF = struct.pack(">i", 7) + b"\x02a" + b"\0"
SEVEN = Leaf(7, "a")
READ: list[tuple[str, type[Message], int, bytes, Any]] = [
    ("legacy lengths", Forms, 0, b"\0\1a" + b"\0\0\0\2bc" + b"\0\0\0\0" * 2, Forms("a", b"bc", [], [])),
    ("compact lengths", Forms, 2, b"\x02a\x03bc\x01\x01\0", Forms("a", b"bc", [], [])),
    ("null is -1", Forms, 1, b"\xff\xff" + b"\xff" * 8 + b"\0\0\0\0", Forms(None, None, None, [])),
    ("any negative length is null", Forms, 1, b"\x80\0" + b"\x80\0\0\1" * 2 + b"\0" * 4, Forms(None, None, None, [])),
    ("compact null is 0", Forms, 2, b"\0\0\0\x01\0", Forms(None, None, None, [])),
    ("ids", Forms, 2, b"\0\0\x03" + b"i" * 16 + b"j" * 16 + b"\x01\0", Forms(None, None, [b"i" * 16, b"j" * 16], [])),
    ("an array of null structs", Forms, 2, b"\0\0\0\x03\xff\0\xff\0\0", Forms(None, None, None, [Branch(None)] * 2)),
    ("any negative byte marks a null struct", Forms, 2, b"\0\0\0\x02\x80\0\0", Forms(None, None, None, [Branch(None)])),
    ("any other byte marks a struct", Forms, 2, b"\0\0\0\x02\5" + LEAF + b"\0\0", Forms(None, None, None, [Branch(SEVEN)])),
    ("an overlong varint", Forms, 2, b"\x82\x80\x80\x80\0a\0\0\x01\0", Forms("a", None, None, [])),
    ("no UTF-8", Forms, 2, b"\x03\xffa\0\0\x01\0", Forms("�a", None, None, [])),
    ("no tags", Tagged, 0, b"\x05\0", Tagged(5)),
    ("tags", Tagged, 0, b"\x05\x02" + tag(0, LEAF) + tag(3, b"\x02\x02x"), Tagged(5, SEVEN, ["x"])),
    ("tags out of order", Tagged, 0, b"\x05\x02" + tag(3, b"\x02\x02x") + tag(0, LEAF), Tagged(5, SEVEN, ["x"])),
    ("the last of equal tags", Tagged, 0, b"\5\2" + tag(3, b"\x02\x02x") + tag(3, b"\x02\x02y"), Tagged(5, Leaf(), ["y"])),
    ("a known tag's wrong size", Tagged, 0, b"\x05\x01" + tag(3, b"\x02\x02x", size=99), Tagged(5, Leaf(), ["x"])),
    ("unknown tags", Tagged, 0, b"\x05\x02" + tag(9, b"zzz") + tag(3, b"\x01"), Tagged(5, Leaf(), [])),
    ("many unknown tags", Tagged, 0, b"\x05\x80\x02" + tag(9, b"z") * 256, Tagged(5)),
    ("unknown tags in a struct without tags", Forms, 2, b"\0\0\0\x01\x01" + tag(0, b"zz"), Forms(None, None, None, [])),
    ("a tag that this version has", Tagged, 2, b"\x05\x01" + tag(1, b"\0\x09"), Tagged(5, late=9)),
]
REFUSED: list[tuple[str, type[Message], int, bytes, str]] = [
    ("nothing", Forms, 2, b"", "ends too early"),
    ("half a number", Tagged, 0, b"", "ends too early"),
    ("null text", Forms, 0, b"\xff\xff", "text is null"),
    ("null bytes", Forms, 0, b"\0\0\xff\xff\xff\xff", "raw is null"),
    ("a null array", Forms, 2, b"\0\0\0\0\0", "branches is null"),
    ("text past the end", Forms, 2, b"\x05abc", "text runs past the end"),
    ("bytes past the end", Forms, 0, b"\0\0\x7f\xff\xff\xff", "raw runs past the end"),
    ("text of 32768 bytes", Forms, 2, b"\x81\x80\x02" + b"x" * 32768, "too long"),
    ("more ids than bytes", Forms, 2, b"\0\0\x03" + b"i" * 31, "ids announces more elements than bytes are left"),
    (
        "a billion structs",
        Forms,
        0,
        b"\0\0" + b"\0" * 8 + b"\x3b\x9a\xca\0",
        "branches announces more elements than bytes are left",
    ),
    ("a varint of six bytes", Forms, 2, b"\x80\x80\x80\x80\x80\0", "31 bits"),
    ("a varint of 32 bits", Forms, 2, b"\xff\xff\xff\xff\x0f", "31 bits"),
    ("half a varint", Forms, 2, b"\x80", "ends too early"),
    ("a tag past the end", Tagged, 0, b"\x05\x01\x09\x04abc", "runs past the end"),
    ("a tag past the end in a struct without tags", Forms, 2, b"\0\0\0\x01\x01\x09\x04abc", "runs past the end"),
    ("more tags than there are", Tagged, 0, b"\x05\x02" + tag(9, b""), "ends too early"),
    ("a tag of a later version", Tagged, 1, b"\x05\x01" + tag(1, b"\0\x09"), "tag 1 does not exist in this version"),
    ("an unknown version", Forms, 4, b"\0" * 9, "versions 0 to 3"),
]


@pytest.mark.parametrize(("cls", "version", "raw", "read"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_a_form_is_read(cls: type[Message], version: int, raw: bytes, read: Message) -> None:
    assert codec.decode(cls, raw + b"more", version) == (read, len(raw))


@pytest.mark.parametrize(("cls", "version", "raw", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_form_is_refused(cls: type[Message], version: int, raw: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why) as refused:
        codec.decode(cls, raw, version)
    assert f"{cls.__name__} v{version} cannot be read" in str(refused.value)


WRITTEN: list[tuple[str, Message, int, bytes]] = [
    ("null struct", Forms("", b"", [], [Branch(None)]), 0, b"\0\0" + b"\0" * 8 + b"\0\0\0\x01\xff"),
    ("struct", Forms("", b"", [], [Branch(SEVEN)]), 2, b"\x01\x01\x01\x02\x01" + LEAF + b"\0\0"),
    ("defaults have no tags", Tagged(5), 2, b"\x05\0"),
    ("tags in order", Tagged(5, late=9, words=[]), 2, b"\x05\x02" + tag(1, b"\0\x09") + tag(3, b"\x01")),
    ("a tagged struct", Tagged(5, leaf=SEVEN), 0, b"\x05\x01" + tag(0, LEAF)),
    ("a tag that the version lacks", Tagged(5, late=9), 1, b"\x05\0"),
    ("a string of 126 bytes", Forms("x" * 126, None, None, []), 2, b"\x7f" + b"x" * 126 + b"\0\0\x01\0"),
    ("a string of 127 bytes", Forms("x" * 127, None, None, []), 2, b"\x80\x01" + b"x" * 127 + b"\0\0\x01\0"),
    ("ids", Forms("", b"", [b"i" * 16], []), 2, b"\x01\x01\x02" + b"i" * 16 + b"\x01\0"),
    ("other sequences", Forms("", bytearray(b"a"), (), ()), 2, b"\x01\x02a\x01\x01\0"),
]


@pytest.mark.parametrize(("sent", "version", "raw"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN])
def test_a_form_is_written(sent: Message, version: int, raw: bytes) -> None:
    assert codec.encode(sent, version) == raw


def response(**changes: Any) -> ProduceResponse:
    partition = PartitionProduceResponse(**{"index": 0, "error_code": 0, "base_offset": 0, **changes})
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])


PARTITION = r"responses\[0\].partition_responses\[0\]"
WRONG: list[tuple[str, Message, int, str]] = [
    ("int16 too great", response(error_code=32768), 9, PARTITION + r"\.error_code: 32768 is not a valid int16"),
    ("int64 too small", response(base_offset=-(2**63) - 1), 3, PARTITION + r"\.base_offset: -\d+ is not a valid int64"),
    ("None for a number", response(base_offset=None), 3, PARTITION + r"\.base_offset: None, but version 3 does not allow null"),
    ("text for a number", response(index="0"), 9, PARTITION + r"\.index: '0' is not a valid int32"),
    ("fraction for a number", response(index=0.5), 9, PARTITION + r"\.index: 0.5 is not a valid int32"),
    ("None in a tagged struct", response(current_leader=None), 10, r"current_leader: None, but version 10 does not allow null"),
    ("wrong tagged struct", response(current_leader=7), 10, r"current_leader.leader_id: 7 has no such field"),
    ("wrong number in a tag", response(current_leader=LeaderIdAndEpoch(2**31)), 10, r"leader_id: \d+ is not a valid int32"),
    ("None for an array", ProduceResponse(responses=None), 9, "responses: None, but version 9"),
    ("number for an array", ProduceResponse(responses=5), 9, "responses: 5 is not a list"),
    ("text for an array of text", Tagged(1, words="abc"), 0, "words: 'abc' is not a list"),
    ("null before it was allowed", MetadataRequest(topics=None), 0, "topics: None, but version 0 does not allow null"),
    ("bytes for text", Forms(b"a", b"", [], []), 2, "text: b'a' is not a valid string"),
    ("half a surrogate pair", Forms("\ud800", b"", [], []), 2, r"text: '\\ud800' is not a valid string"),
    ("text too long", Forms("x" * 32768, b"", [], []), 2, r"text: 'x+\.\.\. is not a valid string"),
    ("text too long, legacy", Forms("x" * 32768, b"", [], []), 1, r"text: 'x+\.\.\. is not a valid string"),
    ("text for bytes", Forms("", "a", [], []), 2, "raw: 'a' is not a valid bytes"),
    ("numbers for bytes", Forms("", [1, 2], [], []), 2, r"raw: \[1, 2\] is not a valid bytes"),
    ("a short id", Forms("", b"", [b"i" * 15], []), 2, r"ids\[0\]: b'i+' is not a valid uuid"),
    ("null in an array", CreateTopicsRequest(topics=[CreatableTopic(name=None)], timeout_ms=1), 7, r"topics\[0\].name: None"),
    ("another struct", Forms("", b"", [], [Leaf()]), 2, r"branches\[0\].leaf: Leaf\(number=0, word=''\) has no such field"),
    ("an unknown version", Forms("", b"", [], []), 4, "versions 0 to 3"),
]


@pytest.mark.parametrize(("sent", "version", "why"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_value_that_a_version_cannot_carry_is_named(sent: Message, version: int, why: str) -> None:
    with pytest.raises(EncodeError, match=why) as refused:
        codec.encode(sent, version)
    assert f"{type(sent).__name__} v{version} cannot be written" in str(refused.value)


def test_an_id_of_another_size_is_refused_between_numbers() -> None:
    topics = [TopicProduceData(name=None, topic_id=b"short", partition_data=[])]  # version 13 has no names
    with pytest.raises(EncodeError, match="topic_id: b'short' is not a valid uuid"):
        codec.encode(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), 13)


# Limits.


def test_the_metadata_of_100_000_partitions_passes() -> None:
    from kafkawire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

    partition = MetadataResponsePartition(
        error_code=0, partition_index=0, leader_id=1, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
    )
    topics = [MetadataResponseTopic(error_code=0, name="orders", partitions=[partition])] * 100_000
    sent = MetadataResponse(brokers=[], topics=topics)
    read, _ = codec.decode(MetadataResponse, codec.encode(sent, 12), 12)
    assert len(read.topics) == 100_000


def flat(count: int) -> bytes:
    out = bytearray(b"\0\0\0")
    write_uvarint(out, count + 1)
    return bytes(out + b"\xff\0" * count + b"\0")


def tags(count: int) -> bytes:
    out = bytearray(b"\x05")
    write_uvarint(out, count)
    return bytes(out + b"\x09\0" * count)


def known_tags(count: int) -> bytes:
    out = bytearray(b"\x05")
    write_uvarint(out, count)
    return bytes(out + tag(3, b"\0") * count)


@pytest.mark.parametrize(
    ("cls", "made"),
    [(Forms, flat), (Tagged, tags), (Tagged, known_tags), (ApiVersionsRequest, lambda n: b"\x01\x01" + tags(n)[1:])],
)
def test_a_message_has_a_limited_number_of_elements(
    cls: type[Message], made: Callable[[int], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "MAX_ELEMENTS", 1000)
    version = 3 if cls is ApiVersionsRequest else 2
    assert codec.decode(cls, made(1000), version)[1] == len(made(1000))
    with pytest.raises(ProtocolError, match="too many elements"):
        codec.decode(cls, made(1001), version)


def test_numbers_count_for_an_eighth_and_nested_arrays_for_all_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    @message(versions=(0, 0), flexible=0)
    class Numbers(Message):
        numbers: list[int] = wire(["int8"])

    @declare.struct
    class Inner(Struct):
        words: list[str] = wire(["string"])

    @message(versions=(0, 0), flexible=0)
    class Outer(Message):
        inner: list[Inner] = wire([Inner])

    monkeypatch.setattr(codec, "MAX_ELEMENTS", 100)
    codec.decode(Numbers, codec.encode(Numbers([1] * 807), 0), 0)
    with pytest.raises(ProtocolError, match="too many elements"):
        codec.decode(Numbers, codec.encode(Numbers([1] * 808), 0), 0)
    codec.decode(Outer, codec.encode(Outer([Inner([""] * 9)] * 10), 0), 0)
    with pytest.raises(ProtocolError, match="too many elements"):
        codec.decode(Outer, codec.encode(Outer([Inner([""] * 10)] * 10), 0), 0)


def test_the_least_size_of_a_struct_counts_a_null_struct_as_one_byte() -> None:
    assert least_size(Leaf, 0, False) == 6
    assert least_size(Leaf, 2, True) == 6
    assert least_size(Branch, 0, False) == 1
    assert least_size(Branch, 2, True) == 2


def test_packers_are_kept_for_short_arrays_only() -> None:
    packers = Counted("i", "pack")
    assert packers[3] is packers[3]
    assert packers[300](*range(300)) == struct.pack(">300i", *range(300))
    assert list(packers) == [3]


def test_fixed_types_are_those_of_the_struct_module() -> None:
    assert is_fixed("uuid")
    assert not is_fixed("string")
    assert not is_fixed(["int32"])
    assert not is_fixed(Leaf)


# Primitives.


@settings(max_examples=200, derandomize=True, database=None)
@given(st.integers(0, 2**31 - 1), st.binary(max_size=3))
def test_an_unsigned_varint_is_read_as_it_was_written(value: int, head: bytes) -> None:
    out = bytearray(head)
    write_uvarint(out, value)
    assert read_uvarint(out + b"tail", len(head)) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16383, "ff7f"), (16384, "808001"), (2**31 - 1, "ffffffff07")],
)
def test_an_unsigned_varint_byte_by_byte(value: int, raw: str) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert out.hex() == raw
    assert read_uvarint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


def test_a_struct_that_may_be_null_is_marked_otherwise_in_a_tag() -> None:
    """`raw` is a record value that Kafka 4.3.1 wrote for a member of a consumer group."""
    raw = bytes.fromhex(
        "00037231177769726562726f6b65722d636f6e666f726d616e63650b2f3132372e302e302e31"
        "0307616273656e74067265632d7401000075300001000100"
    )
    member, end = codec.decode(ConsumerGroupMemberMetadataValue, raw, 0)
    assert (end, member.client_host, member.subscribed_topic_names) == (len(raw), "/127.0.0.1", ["absent", "rec-t"])
    assert member.classic_member_metadata is None
    assert codec.encode(member, 0) == raw
    member.classic_member_metadata = ClassicMemberMetadata(session_timeout_ms=7, supported_protocols=[])
    again = codec.encode(member, 0)
    assert again.hex().endswith("01000701" + "00000007" + "01" + "00"), (
        "one tag, 7 bytes long: the byte for `not null`, and the struct"
    )
    assert codec.decode(ConsumerGroupMemberMetadataValue, again, 0)[0] == member


def test_a_topic_id_is_printed_as_kafka_prints_it() -> None:
    raw = bytes.fromhex("00112233445566778899aabbccddeeff")
    assert format_uuid(raw) == "ABEiM0RVZneImaq7zN3u_w"
    assert parse_uuid("ABEiM0RVZneImaq7zN3u_w") == raw
    for text in ("AAAA", "no id at all", ""):
        with pytest.raises(ValueError):
            parse_uuid(text)
