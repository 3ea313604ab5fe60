"""Frames: the form of a header depends on the API and the version."""

from __future__ import annotations

import struct

import pytest

from kafkawire import frames
from kafkawire.errors import EncodeError, MessageTooLarge, ProtocolError
from kafkawire.frames import RequestHeader
from kafkawire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafkawire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.metadata import MetadataRequest
from kafkawire.registry import KEYS
from kafkawire.writing import MOST_BYTES

INIT_PRODUCER_ID, API_VERSIONS, FETCH = KEYS["InitProducerId"], KEYS["ApiVersions"], KEYS["Fetch"]
REQUEST = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=5)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_the_header_of_an_old_request_has_no_tags() -> None:
    frame = frames.encode_request(7, "me", REQUEST, 1)
    assert frame == framed(bytes.fromhex("0016 0001 00000007 0002") + b"me" + b"\xff\xff" + b"\0\0\0\x05")
    assert frames.read_request_header(frame[4:]) == RequestHeader(22, 1, 7, "me", 12)


def test_the_header_of_a_flexible_request_has_tags_and_a_legacy_client_id() -> None:
    frame = frames.encode_request(7, "me", REQUEST, 2)
    assert frame == framed(bytes.fromhex("0016 0002 00000007 0002") + b"me" + b"\0" + b"\0" + b"\0\0\0\x05" + b"\0")
    assert frames.read_request_header(frame[4:]) == RequestHeader(22, 2, 7, "me", 13)


@pytest.mark.parametrize("version", [1, 2])
def test_a_client_id_may_be_null(version: int) -> None:
    frame = frames.encode_request(7, None, REQUEST, version)
    assert frame[12:14] == b"\xff\xff"
    assert frames.read_request_header(frame[4:]).client_id is None


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_client_id_is_not_null(version: int) -> None:
    frame = frames.encode_request(7, "", REQUEST, version)
    assert frame[12:14] == b"\0\0"
    assert frames.read_request_header(frame[4:]).client_id == ""


def test_a_client_id_that_is_no_utf_8_is_read_as_kafka_reads_it() -> None:
    for raw, client_id in ((b"m\xe9!", "m�!"), (b"\xed\xa0\x80\xed\xb0\x80", "��"), (b"\xffm\xed\xa0!\xff", "�m�!�")):
        frame = struct.pack(">hhih", INIT_PRODUCER_ID, 0, 1, len(raw)) + raw
        assert frames.read_request_header(frame).client_id == client_id


def test_unknown_tags_of_a_header_are_passed_over() -> None:
    head = struct.pack(">hhih", INIT_PRODUCER_ID, 2, 1, -1)
    assert frames.read_request_header(head + b"\x02\x00\x03abc\x09\x00" + b"body").end == len(head) + 8


def test_the_header_of_an_unknown_version_is_read_in_the_newest_form() -> None:
    head = struct.pack(">hhih", API_VERSIONS, 99, 1, -1) + b"\0"
    assert frames.read_request_header(head) == RequestHeader(API_VERSIONS, 99, 1, None, len(head))


def test_an_unknown_api_key_has_no_header_form() -> None:
    with pytest.raises(KeyError):
        frames.read_request_header(struct.pack(">hhih", 999, 0, 1, -1))
    assert frames.read_key_version_correlation(struct.pack(">hhih", 999, 0, 1, -1)) == (999, 0, 1)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        struct.pack(">hh", 22, 0),
        struct.pack(">hhi", 22, 0, 1),
        struct.pack(">hhih", 22, 0, 1, 3) + b"ab",
        struct.pack(">hhih", 22, 2, 1, -1),
        struct.pack(">hhih", 22, 2, 1, -1) + b"\x01\x00\x05abc",
        struct.pack(">hhih", 22, 2, 1, -1) + b"\x80\x80\x80\x80\x80\x80",
        struct.pack(">hhih", 22, 2, 1, -1) + b"\xff\xff\xff\xff\x07" + b"\0" * 100,
    ],
    ids=["empty", "no id", "no client id", "cut", "no tags", "tag past the end", "long varint", "billions of tags"],
)
def test_a_damaged_request_header_is_refused(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        frames.read_request_header(frame)


@pytest.mark.parametrize(("correlation_id", "client_id"), [(2**31, "me"), (1, "x" * 32768), (1, "\ud800")])
def test_a_request_header_that_cannot_be_written_is_the_callers_mistake(correlation_id: int, client_id: str) -> None:
    with pytest.raises(EncodeError, match="request header"):
        frames.encode_request(correlation_id, client_id, MetadataRequest(topics=None), 9)


def test_the_tags_of_a_header_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_ELEMENTS", 2)
    head = struct.pack(">hhih", 22, 2, 1, -1)
    assert frames.read_request_header(head + b"\x02" + b"\x09\0" * 2).end == len(head) + 5
    with pytest.raises(ProtocolError, match="3 tagged fields are too many"):
        frames.read_request_header(head + b"\x03" + b"\x09\0" * 3)


# Responses.


def response() -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=0, producer_id=1000, producer_epoch=0)


@pytest.mark.parametrize(("version", "header"), [(1, b"\0\0\0\x07"), (2, b"\0\0\0\x07\0")])
def test_the_header_of_a_flexible_response_has_tags(version: int, header: bytes) -> None:
    frame = b"".join(frames.encode_response(7, response(), version))
    assert frame[:4] == struct.pack(">i", len(frame) - 4)
    assert frame[4:].startswith(header)
    assert frames.read_response_header(frame[4:], INIT_PRODUCER_ID, version) == (7, len(header))
    assert frames.decode_response(frame[4:], INIT_PRODUCER_ID, version) == (7, response())


@pytest.mark.parametrize("version", range(5))
def test_the_header_of_an_api_versions_response_never_has_tags(version: int) -> None:
    sent = ApiVersionsResponse(error_code=0, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    frame = b"".join(frames.encode_response(7, sent, version))
    assert frame[4:10] == b"\0\0\0\x07" + b"\0\0"
    assert frames.decode_response(frame[4:], API_VERSIONS, version) == (7, sent)
    request = frames.encode_request(7, "me", ApiVersionsRequest(), version)
    assert frames.read_request_header(request[4:]).end == (13 if version >= 3 else 12)


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_a_response_with_large_records_is_one_frame_of_several_buffers(version: int) -> None:
    records = [bytes([n]) * 5000 for n in (1, 2)]
    partitions = [
        PartitionData(partition_index=n, error_code=0, high_watermark=1, aborted_transactions=[], records=data)
        for n, data in enumerate([records[0], b"small", records[1], None])
    ]
    sent = FetchResponse(responses=[FetchableTopicResponse(topic="t" * (version < 13), partitions=partitions)])
    buffers = frames.encode_response(7, sent, version)
    frame = b"".join(buffers)
    assert [any(buffer is data for buffer in buffers) for data in records] == [True, True]
    assert frame[:4] == struct.pack(">i", len(frame) - 4)
    assert frames.decode_response(frame[4:], FETCH, version)[1] == sent


def test_a_response_that_ends_with_large_records_has_nothing_after_them() -> None:
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=b"r" * 5000)
    sent = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    assert frames.encode_response(7, sent, 4)[-1] is partition.records


@pytest.mark.parametrize(
    ("frame", "version"),
    [(b"\0\0\0", 1), (b"\0\0\0\x07", 2), (b"\0\0\0\x07\x01\x00\x05abc", 2), (b"\0\0\0\x07" + b"\0" * 5, 1)],
    ids=["no id", "no tags", "tag past the end", "cut body"],
)
def test_a_damaged_response_is_refused(frame: bytes, version: int) -> None:
    with pytest.raises(ProtocolError):
        frames.decode_response(frame, INIT_PRODUCER_ID, version)


def test_bytes_after_a_response_are_refused() -> None:
    frame = b"".join(frames.encode_response(7, response(), 2))
    with pytest.raises(ProtocolError, match="InitProducerIdResponse v2 is followed by 4 more bytes"):
        frames.decode_response(frame[4:] + b"more", INIT_PRODUCER_ID, 2)


def test_a_response_header_that_cannot_be_written_is_the_callers_mistake() -> None:
    with pytest.raises(EncodeError, match="response header"):
        frames.encode_response(2**31, response(), 2)


@pytest.mark.parametrize("members", [1, 100])
def test_a_message_ends_at_128_mib(members: int) -> None:
    large = DescribedGroup(members=[DescribedGroupMember(member_metadata=bytes(MOST_BYTES // members // 4))] * members)
    assert sum(map(len, frames.encode_response(7, DescribeGroupsResponse(groups=[large] * 3), 4))) < MOST_BYTES
    with pytest.raises(MessageTooLarge, match="more than 134217728 bytes"):
        frames.encode_response(7, DescribeGroupsResponse(groups=[large] * 2000), 4)
