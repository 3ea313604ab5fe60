"""`wirebroker decode` converts bytes to named fields, and `encode` converts them back."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from kafkawire.batches import HEADER_SIZE, MAGIC_AT, Record, build_batch, end_txn_marker
from kafkawire.codec import encode
from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkawire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkawire.coordinator_records.transaction_log import TransactionLogKey, TransactionLogValue
from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages.api_versions import ApiVersionsResponse
from kafkawire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kafkawire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafkawire.messages.fetch_snapshot import FetchSnapshotResponse
from kafkawire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkawire.registry import request_class
from requesting import produce_request
from wire.random_messages import MESSAGES, Maker, damaged, versions_of
from wirebroker.commands.cli import main
from wirebroker_tools.capture.files import start_of_file
from wirebroker_tools.decode.forms import UnknownForm, read_bytes, written
from wirebroker_tools.decode.frames import NotRecognised, decode_all, encode_plain
from wirebroker_tools.decode.plain import PlainError
from wirebroker_tools.decode.show import lines as shown_lines
from wirekit import NOW, batch

PRODUCE = encode_request(5, "billing", produce_request("orders", batch(3, 2, pid=7, epoch=0, timestamp=NOW)), 9)


def through_json(raw: bytes, api: str | None = None, version: int | None = None) -> bytes:
    """Decodes the bytes, converts the result to JSON and back, and encodes the result again."""
    frames = [json.loads(json.dumps(each.plain)) for each in decode_all(raw, api, version)]
    return b"".join(encode_plain(plain) for plain in frames)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_message_survives_the_way_through_json_in_every_version(cls: type[Message]) -> None:
    key = cls.__schema__.key
    for version in versions_of(cls):
        for seed in range(2):
            message = Maker(("decode", cls.__name__, version, seed)).message(cls, version)
            if cls is request_class(key):
                raw = encode_request(seed, None if seed else "größe", message, version)
                assert through_json(raw) == through_json(raw[4:]) == raw
            else:
                raw = b"".join(encode_response(seed, message, version))
                if not (isinstance(message, ApiVersionsResponse) and message.error_code == 35):
                    assert through_json(raw, str(key), version) == raw


@pytest.mark.parametrize("compression", range(5))
def test_record_batches_survive_with_their_records(compression: int) -> None:
    records = [Record(0, 0, None, b"\xff\x00"), Record(1, 5, b"key", "größe".encode(), (("h", None), ("h", b"x")))]
    data = build_batch(records, base_offset=12, base_timestamp=NOW, producer_id=4, producer_epoch=1, base_sequence=7,
                       compression=compression, transactional=True, leader_epoch=3)  # fmt: skip
    raw = encode_request(1, "a", produce_request("orders", data), 7)
    (decoded,) = decode_all(raw)
    assert not decoded.complaints
    (shown,) = decoded.plain["body"]["topic_data"][0]["partition_data"][0]["records"]
    assert (shown["base_offset"], shown["base_sequence"], shown["crc_right"], shown["flags"]) == (
        12,
        7,
        True,
        ["transactional"],
    )
    assert [each["value"] for each in shown["records"]] == [{"hex": "ff00"}, "größe"]
    assert shown["records"][1]["headers"] == [["h", None], ["h", "x"]]
    assert through_json(raw) == raw


def test_a_batch_with_a_wrong_crc_is_shown_and_written_as_it_is() -> None:
    raw = PRODUCE[:-5] + b"x" + PRODUCE[-4:]
    (decoded,) = decode_all(raw)
    assert decoded.complaints == [
        "topic_data[0] (orders), records[0] at byte 43: the batch has the CRC 0xfa12432b, and its bytes have 0xd69b274b"
    ]
    assert through_json(raw) == raw
    shown = decoded.plain["body"]["topic_data"][0]["partition_data"][0]["records"][0]
    shown["crc_right"] = True
    (mended,) = decode_all(encode_plain(decoded.plain))
    assert not mended.complaints


def test_record_data_stands_by_itself_as_in_a_segment() -> None:
    segment = batch(0, 2, pid=1, epoch=0) + end_txn_marker(
        True, producer_id=1, producer_epoch=0, coordinator_epoch=9, timestamp=NOW
    )
    (decoded,) = decode_all(segment)
    marker = decoded.plain["batches"][1]
    assert marker["flags"] == ["transactional", "control"]
    assert marker["records"][0]["key"] == {"ControlRecordType": {"version": 0, "type": "commit"}}
    assert marker["records"][0]["value"] == {"EndTxnMarker": {"version": 0, "coordinator_epoch": 9}}
    assert through_json(segment) == segment
    (cut,) = decode_all(segment + segment[:30])
    assert cut.complaints == [f"batches[2] at byte {len(segment)}: the batch has 79 bytes, and 30 are left"]
    assert encode_plain(cut.plain) == segment + segment[:30]


def holding(cls: type[Any], records: bytes) -> Any:
    """Returns a message or struct. Every list in it has one element, and every field for record data has `records`."""
    made = cls()
    for field in cls.__wire__:
        spec = field.spec
        if isinstance(spec, list) and isinstance(spec[0], type) and field.tag is None:
            setattr(made, field.name, [holding(spec[0], records)])
        elif spec == "records":
            setattr(made, field.name, records)
    return made


def test_record_data_may_be_cut_in_every_response_that_has_record_data() -> None:
    whole, second = batch(0, 2, pid=1, epoch=0), batch(2, 1, pid=1, epoch=0)
    found = set()
    for cls in MESSAGES:
        version = versions_of(cls)[-1]
        raw = b"".join(encode_response(1, holding(cls, whole), version))
        if cls.__name__.endswith("Request") or whole not in raw:
            continue
        found.add(cls.__name__)
        for end in range(len(second)):
            raw = b"".join(encode_response(1, holding(cls, whole + second[:end]), version))
            (decoded,) = decode_all(raw, str(cls.__schema__.key), version)
            assert decoded.complaints == []
            assert through_json(raw, str(cls.__schema__.key), version) == raw
            told = f"the first {end} of {len(second)} bytes of a batch, hex 000000" in "\n".join(shown_lines(decoded))
            assert told is (end > MAGIC_AT), "a batch can be recognised by its size and its magic"
    assert found == {"FetchResponse", "FetchSnapshotResponse", "ShareFetchResponse"}


def test_a_later_part_of_a_snapshot_begins_inside_a_batch() -> None:
    raw = b"".join(encode_response(1, holding(FetchSnapshotResponse, batch(0, 2, pid=1, epoch=0)[7:]), 1))
    (decoded,) = decode_all(raw, "FetchSnapshot", 1)
    assert decoded.complaints == []
    assert through_json(raw, "FetchSnapshot", 1) == raw


def coordinator_records() -> list[CoordinatorRecord]:
    subscription = b"\0\1" + encode(ConsumerProtocolSubscription(topics=["orders"], user_data=None), 1)
    member = MemberMetadata(member_id="m-1", client_id="c", client_host="h", session_timeout=9, subscription=subscription,
                            assignment=b"\xff")  # fmt: skip
    return [
        CoordinatorRecord(OffsetCommitKey(group="g", topic="orders", partition=3),
                          OffsetCommitValue(offset=42, metadata="", commit_timestamp=NOW), 3),
        CoordinatorRecord(GroupMetadataKey(group="g"),
                          GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m-1",
                                             members=[member]), 3),
        CoordinatorRecord(GroupMetadataKey(group="g"), None),
        CoordinatorRecord(TransactionLogKey(transactional_id="t"),
                          TransactionLogValue(producer_id=7, producer_epoch=1, transaction_timeout_ms=5, transaction_status=1,
                                              transaction_partitions=None, transaction_last_update_timestamp_ms=NOW,
                                              transaction_start_timestamp_ms=NOW), 0),
    ]  # fmt: skip


@pytest.mark.parametrize("named", [True, False], ids=["topic", "topic id"])
def test_records_of_the_internal_topics_have_their_fields(named: bool) -> None:
    for record in coordinator_records():
        topic = "__transaction_state" if isinstance(record.key, TransactionLogKey) else "__consumer_offsets"
        data = build_batch([Record(0, 0, *record.encode())])
        part = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=data)
        response = FetchResponse(responses=[FetchableTopicResponse(topic=topic, topic_id=bytes(16), partitions=[part])])
        version = 12 if named else 16
        raw = b"".join(encode_response(3, response, version))
        (decoded,) = decode_all(raw, "fetch", version)
        (shown,) = decoded.plain["body"]["responses"][0]["partitions"][0]["records"][0]["records"]
        assert list(shown["key"]) == [type(record.key).__name__]
        assert shown["value"] is None if record.value is None else list(shown["value"]) == [type(record.value).__name__]
        assert through_json(raw, "Fetch", version) == raw
        if isinstance(record.value, GroupMetadataValue):
            (member,) = shown["value"]["GroupMetadataValue"]["members"]
            assert member["subscription"]["ConsumerProtocolSubscription"]["topics"] == ["orders"]
            assert member["assignment"] == {"hex": "ff"}


def test_a_record_that_only_looks_like_a_coordinators_stays_bytes_in_other_topics() -> None:
    key, value = coordinator_records()[0].encode()
    raw = encode_request(1, None, produce_request("orders", build_batch([Record(0, 0, key, value)])), 9)
    (decoded,) = decode_all(raw)
    assert set(decoded.plain["body"]["topic_data"][0]["partition_data"][0]["records"][0]["records"][0]["key"]) == {"hex"}


def test_what_members_of_a_group_send_each_other_has_its_fields() -> None:
    subscription = b"\0\3" + encode(ConsumerProtocolSubscription(topics=["orders"], user_data=None, generation_id=3), 3)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=subscription)]
    raw = encode_request(1, "c", JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer",
                                                  protocols=protocols), 5)  # fmt: skip
    (decoded,) = decode_all(raw)
    shown = decoded.plain["body"]["protocols"][0]["metadata"]
    assert shown["ConsumerProtocolSubscription"]["generation_id"] == 3
    assert through_json(raw) == raw


@pytest.mark.parametrize("form", ["hex", "base64", "xxd", "python"])
def test_each_form_of_bytes_is_recognised(form: str) -> None:
    assert read_bytes(written(PRODUCE, form).encode()) == PRODUCE
    assert read_bytes(written(PRODUCE, form).encode(), form) == PRODUCE


def test_bytes_as_other_programs_print_them_are_recognised() -> None:
    rows = [PRODUCE[at : at + 16] for at in range(0, len(PRODUCE), 16)]
    hexdump = [f"{i * 16:08x}  {row[:8].hex(' ')}  {row[8:].hex(' ')}  |{'a' * len(row)}|" for i, row in enumerate(rows)]
    wireshark = [f"{i * 16:04x}   {row.hex(' ')}   {'.' * len(row)}" for i, row in enumerate(rows)]
    for lines in (hexdump, [*hexdump, f"{len(PRODUCE):08x}"], wireshark):
        assert read_bytes("\n".join(lines).encode()) == PRODUCE
    assert read_bytes(PRODUCE) == read_bytes(PRODUCE.hex(":").encode()) == PRODUCE
    assert read_bytes(("\\x" + PRODUCE.hex(" ").replace(" ", "\\x")).encode()) == PRODUCE
    assert read_bytes(PRODUCE.hex(" ", 4).encode()) == PRODUCE
    with pytest.raises(UnknownForm, match="line 2: the dump leaves out lines"):
        read_bytes(f"{hexdump[0]}\n*\n{hexdump[1]}".encode())


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "there are no bytes"),
        (PRODUCE[:50], "byte 0: the frame announces 121 bytes, and 46 are left"),
        (PRODUCE + PRODUCE[:50], "byte 125: the frame announces 121 bytes, and 46 are left"),
        (PRODUCE[4:60], "ProduceRequest v9, topic_data[0].partition_data[0].records at byte 38: it announces 79 bytes, but "
                        "only 17 are left"),
        (b"\x01\x02" * 6, "this is not a request: it begins with API key 258, which Kafka does not have; a response "
                          "needs --api and --version"),
        (b"\0\0\0\x63" + b"\xff" * 9, "this is Produce version 99, and versions 0 to 13 can be read; a response needs "
                                      "--api and --version"),
    ],
)  # fmt: skip
def test_damage_is_a_sentence_with_the_field_and_the_position(raw: bytes, sentence: str) -> None:
    with pytest.raises(ProtocolError) as damage:
        list(decode_all(raw))
    assert str(damage.value) == sentence


def test_damaged_frames_raise_nothing_but_protocol_errors() -> None:
    random = Random(15)
    segment = batch(0, 3, pid=1, epoch=0, compression=1) * 2
    response = b"".join(encode_response(1, FetchResponse(responses=[]), 12))
    encoded = 0
    for _ in range(3000):
        for raw, api, version in ((PRODUCE, None, None), (segment, None, None), (response, "Fetch", 12)):
            with suppress(ProtocolError):
                for decoded in decode_all(damaged(raw, random), api, version):
                    if "unknown tag" not in str(decoded.plain):
                        encoded += len(encode_plain(decoded.plain)) > 0
    assert encoded > 3000, "most of the damage is in texts and numbers, with which the frame can still be read"


def test_a_response_to_an_unknown_version_of_api_versions_is_read_in_version_0() -> None:
    raw = b"".join(encode_response(1, ApiVersionsResponse(error_code=35, api_keys=[]), 0))
    (decoded,) = decode_all(raw, "ApiVersions", 4)
    assert (decoded.plain["version"], decoded.plain["body"]["error_code"]) == (0, 35)


def test_an_api_that_does_not_exist_is_refused() -> None:
    with pytest.raises(NotRecognised, match="there is no API 'Fetsh'; did you mean 'Fetch'?"):
        list(decode_all(PRODUCE, "Fetsh", 1))
    with pytest.raises(NotRecognised, match="Fetch has versions 0 to 18, not 19"):
        list(decode_all(PRODUCE, "Fetch", 19))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kind": "reply"}, "this is not a frame: an object whose `kind` is request, response or batches"),
        ({"version": 99}, "version: ProduceRequest has versions 0 to 13, not 99"),
        ({"api": "Prodduce"}, "api: there is no API 'Prodduce'; did you mean 'Produce'?"),
        ({"body": {"ack": 1}}, "body.ack: ProduceRequest has no such field; did you mean 'acks'?"),
        ({"body": {"acks": 70000}}, "ProduceRequest v9 cannot be written: acks: 70000 is not a valid int16"),
        ({"body": {"topic_data": 3}}, "body.topic_data: 3 is not a list"),
        ({"body": {"topic_data": [3]}}, "body.topic_data[0]: 3 is not an object with the fields of TopicProduceData"),
        ({"correlation_id": "x"}, "the request header cannot be written: required argument is not an integer"),
    ],
)
def test_json_that_is_no_frame_is_refused_with_the_field(change: dict[str, object], sentence: str) -> None:
    (decoded,) = decode_all(PRODUCE)
    with pytest.raises(PlainError) as wrong:
        encode_plain(decoded.plain | change)
    assert str(wrong.value) == sentence


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"compression": "zip"}, "batches[0].compression: 'zip' is not one of none, gzip, snappy, lz4, zstd"),
        ({"flags": ["x"]}, "batches[0].flags: 'x' is not one of log_append_time, transactional, control, delete_horizon"),
        ({"producer_id": "x"}, "batches[0]: this batch cannot be written: required argument is not an integer"),
        ({"records": [{"value": {"hex": "0"}}]}, "batches[0].records[0].value: '0' is not hex"),
        ({"records": [{"value": {"Nope": {}}}]}, "batches[0].records[0].value: there is no message 'Nope'; a value in hex is "
                                                 "{\"hex\": …}"),
        ({"records": [{"value": {"OffsetCommitValue": {"offset": 1}}}]},
         "batches[0].records[0].value.OffsetCommitValue: there is no 'version'"),
    ],
)  # fmt: skip
def test_batches_that_cannot_be_written_are_refused_with_the_field(change: dict[str, object], sentence: str) -> None:
    (decoded,) = decode_all(batch(0))
    decoded.plain["batches"][0] |= change
    with pytest.raises(PlainError) as wrong:
        encode_plain(decoded.plain)
    assert str(wrong.value) == sentence


def test_a_batch_needs_no_more_than_its_records() -> None:
    made = encode_plain({"kind": "batches", "batches": [{"records": [{"value": "a"}, {"value": "b"}]}]})
    (decoded,) = decode_all(made)
    assert not decoded.complaints
    assert len(made) == HEADER_SIZE + 16
    assert decoded.plain["batches"][0]["last_offset_delta"] == 1


def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "wirebroker", *arguments], input=given, capture_output=True, timeout=40)


def test_the_commands_read_standard_input_and_write_files(tmp_path: Path) -> None:
    (tmp_path / "frame.bin").write_bytes(PRODUCE)
    decoded = run("decode", str(tmp_path / "frame.bin"), "--json")
    assert decoded.returncode == 0
    encoded = run("encode", "-", "--form", "binary", given=decoded.stdout)
    assert (encoded.returncode, encoded.stdout) == (0, PRODUCE)
    assert run("encode", "-", "--out", str(tmp_path / "out.hex"), given=decoded.stdout).returncode == 0
    assert (tmp_path / "out.hex").read_text() == PRODUCE.hex()


def test_the_exit_code_tells_damage_from_bytes_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong_crc = PRODUCE[:-5] + b"x" + PRODUCE[-4:]
    assert main(["decode", PRODUCE.hex()]) == 0
    assert main(["decode", wrong_crc.hex()]) == 1
    assert "WRONG" in capsys.readouterr().out
    assert main(["decode", PRODUCE[:50].hex()]) == 2
    assert capsys.readouterr().err == "wirebroker decode: byte 0: the frame announces 121 bytes, and 46 are left\n"
    assert main(["decode", "nothing?"]) == 2
    assert main(["decode", PRODUCE.hex(), "--api", "Fetch"]) == 2
    assert capsys.readouterr().err.endswith("wirebroker decode: a response needs both --api and --version\n")
    (tmp_path / "a.pcapng").write_bytes(start_of_file())
    assert main(["decode", str(tmp_path / "a.pcapng")]) == 2
    assert f"this is a capture; `wirebroker trace show {tmp_path / 'a.pcapng'}` reads it" in capsys.readouterr().err
    for text in ("", "{", "[[[", "3", "[" * 100_000):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        assert main(["encode", "-"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
