"""Captures: the pcapng files that a broker or a proxy writes, and captures of other tools, which wirebroker reads."""

from __future__ import annotations

import io
import shutil
import ssl
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
import trustme
from kafka import KafkaProducer

from acl_requests import plain_request
from kafkawire.codec import decode
from kafkawire.frames import SIZE, encode_request, encode_response, read_request_header
from kafkawire.messages import APIS
from kafkawire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkawire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kafkawire.messages.sasl_handshake import SaslHandshakeResponse
from kafkawire.registry import api_name, request_class, response_class
from requesting import plain
from wire.random_messages import damaged, random_response, request_bytes, response_bytes, versions_of
from wirebroker import MockKafka, ProxyKafka, faults
from wirebroker.commands.cli import main
from wirebroker.core.setting_definitions import BROKER_SETTINGS, ConfigType
from wirebroker.trace.rows import ProduceRow, ReplyRow, Row, UnsupportedRow
from wirebroker_tools.capture.files import DamagedCapture, Packet, packet_block, read_packets, start_of_file
from wirebroker_tools.capture.packets import Line, Segment, segment_of
from wirebroker_tools.capture.recording import capture_in
from wirebroker_tools.capture.session import RecordedExchange, Session
from wirebroker_tools.capture.streams import Piece, Streams
from wirebroker_tools.explain.explanation import Explanation
from wirekit import RawProducer, batch, lacking

CLIENT, SERVER = ("127.0.0.1", 50_000), ("127.0.0.1", 9092)
SECRET = b"opensesame"


def rows_of(capture: bytes) -> tuple[list[Row], list[str]]:
    """Reads a capture. Returns its rows, and the messages about parts that cannot be read."""
    rows: list[Row] = []
    session = Session(rows.append)
    session.read(io.BytesIO(capture))
    return rows, session.complaints


def verdicts(rows: list[Row]) -> list[tuple[str, int, int, int]]:
    return [(row.verdict, row.code, row.base_offset, row.first_sequence) for row in rows if isinstance(row, ProduceRow)]


def capture_of(packets: list[Packet]) -> bytes:
    """Returns a pcapng file with `packets`."""
    return start_of_file() + b"".join(packet_block(each.time, each.data, each.comments) for each in packets)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[tuple[str, int, int, int]]]:
    """Captures a session with a duplicate batch and a rejected batch. Returns the capture, and the broker's verdicts."""
    path = tmp_path_factory.mktemp("capture") / "session.pcapng"
    with MockKafka(topics={"orders": 1}, capture=path) as kafka:
        producer = RawProducer(kafka)
        for first, last in ((0, 2), (3, 5), (3, 5), (9, 9)):
            producer.send(first, last)
        expected = verdicts(list(kafka.trace.produce()))
    return path.read_bytes(), expected


@pytest.fixture(scope="module")
def packets(recorded: tuple[bytes, list[tuple[str, int, int, int]]]) -> list[Packet]:
    return list(read_packets(io.BytesIO(recorded[0])))


def test_a_capture_shows_the_verdicts_of_its_broker(recorded: tuple[bytes, list[tuple[str, int, int, int]]]) -> None:
    capture, expected = recorded
    rows, complaints = rows_of(capture)
    assert not complaints
    assert verdicts(rows) == expected
    assert [row[0] for row in expected] == ["accepted", "accepted", "duplicate", "rejected"]


def test_verdicts_are_comments_of_the_responses(packets: list[Packet]) -> None:
    comments = [comment for each in packets for comment in each.comments]
    assert [text.partition(":")[0] for text in comments] == [
        "orders-0 accepted", "orders-0 accepted", "orders-0 duplicate", "orders-0 rejected",
    ]  # fmt: skip
    assert comments[3].startswith("orders-0 rejected: rejected 45 OUT_OF_ORDER_SEQUENCE_NUMBER: expected sequence 6")
    for each in packets:
        segment = segment_of(each)
        assert segment is not None
        if each.comments:
            assert segment.payload
            assert SIZE.unpack_from(segment.payload)[0] + 4 == len(segment.payload), "each packet has exactly one frame"


def test_tshark_opens_a_capture_and_finds_no_fault(
    recorded: tuple[bytes, list[tuple[str, int, int, int]]], tmp_path: Path
) -> None:
    if shutil.which("tshark") is None:
        lacking("tshark", "tshark is not installed")
    (tmp_path / "x.pcapng").write_bytes(recorded[0])
    checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]

    def shown(wanted: str) -> list[str]:
        command = ["tshark", *checks, "-r", str(tmp_path / "x.pcapng"), "-Y", wanted]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=50).stdout.splitlines()

    assert len(shown('frame.comment contains "duplicate of offset 3"')) == 1
    assert shown("tcp.checksum.status != 1 || ip.checksum.status != 1 || tcp.analysis.flags") == []
    assert len(shown("tcp.flags.syn == 1")) == 2 * len(shown("tcp.flags.syn == 1 && tcp.flags.ack == 1")) > 0


# Captures of other tools


def link_layers() -> Iterator[tuple[str, int, Callable[[bytes], bytes]]]:
    """Yields link types. For each, also yields a function that converts an Ethernet packet with IPv4 to a packet of this
    type."""
    yield "null", 0, lambda data: struct.pack("<I", 2) + data[14:]
    yield "loop", 108, lambda data: struct.pack(">I", 2) + data[14:]
    yield "raw", 101, lambda data: data[14:]
    yield "ipv4", 228, lambda data: data[14:]
    yield "sll", 113, lambda data: struct.pack(">HHH8sH", 0, 1, 6, b"", 0x0800) + data[14:]
    yield "sll2", 276, lambda data: struct.pack(">HHIHBB8s", 0x0800, 0, 1, 1, 0, 6, b"") + data[14:]
    yield "vlan", 1, lambda data: data[:12] + b"\x81\x00\x00\x05" + data[12:]


@pytest.mark.parametrize(("link", "wrapped"), [pytest.param(*rest, id=name) for name, *rest in link_layers()])
@pytest.mark.parametrize(("order", "magic"), [("<", 0xA1B2C3D4), (">", 0xA1B2C3D4), ("<", 0xA1B23C4D)])
def test_pcap_files_of_every_kind_are_read(
    order: str, magic: int, link: int, wrapped: Callable[[bytes], bytes],
    recorded: tuple[bytes, list[tuple[str, int, int, int]]], packets: list[Packet],
) -> None:  # fmt: skip
    units = 1000 if magic == 0xA1B23C4D else 1
    file = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for each in packets:
        data = wrapped(each.data)
        file += struct.pack(order + "IIII", each.time // 1_000_000, each.time % 1_000_000 * units, len(data), len(data)) + data
    rows, complaints = rows_of(file)
    assert (verdicts(rows), complaints) == (recorded[1], [])
    first = next(each.time for each in packets if (segment := segment_of(each)) is not None and segment.payload)
    assert abs(rows[0].time - first // 1000) <= 1


def test_ipv6_is_read_and_written() -> None:
    line = Line(("::1", 50_000), ("::1", 9092))
    request = encode_request(1, "c", plain("Metadata", topics=None), 9)
    file = [Packet(0, 1, each) for each in (*line.handshake(), line.sent(False, request))]
    rows, complaints = rows_of(capture_of(file))
    assert not complaints
    assert [row.event for row in rows] == ["connection", "request", "connection"]


def test_big_endian_pcapng_with_another_resolution_is_read(packets: list[Packet]) -> None:
    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        return struct.pack(">II", kind, len(body) + 12) + body + struct.pack(">I", len(body) + 12)

    packets[0] = packets[0]._replace(time=1_795_416_265_900_048)  # a float cannot store the last digit
    file = block(0x0A0D0D0A, struct.pack(">IHHq", 0x1A2B3C4D, 1, 0, -1))
    file += block(1, struct.pack(">HHI", 1, 0, 0) + struct.pack(">HHBxxxHH", 9, 1, 9, 0, 0))
    for each in packets:
        time = each.time * 1000
        file += block(6, struct.pack(">IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(each.data), len(each.data)) + each.data)
    found = list(read_packets(io.BytesIO(file)))
    assert [(each.time, each.data) for each in found] == [(each.time, each.data) for each in packets]


def resent(packets: list[Packet], size: int, change: Callable[[list[Packet]], list[Packet]]) -> bytes:
    """Returns a capture of the session in `packets`, but divided into TCP segments of `size` bytes. `change` can reorder or
    repeat the new packets."""
    lines: dict[frozenset[tuple[str, int]], Line] = {}
    clients: dict[frozenset[tuple[str, int]], tuple[str, int]] = {}
    made: list[Packet] = []
    for each in packets:
        segment = segment_of(each)
        assert segment is not None
        pair = frozenset((segment.source, segment.target))
        if segment.flags == 2:
            lines[pair] = Line(segment.source, segment.target)
            made += [Packet(each.time, 1, data) for data in lines[pair].handshake()]
            clients[pair] = segment.source
        by_server = segment.source != clients[pair]
        for at in range(0, len(segment.payload), size):
            made.append(Packet(each.time, 1, lines[pair].sent(by_server, segment.payload[at : at + size])))
    return capture_of(change(made))


def shuffled(packets: list[Packet]) -> list[Packet]:
    """Swaps pairs of adjacent packets that have the same direction, and repeats some packets."""
    random = Random(3)
    changed = list(packets)
    for at in range(4, len(changed) - 1, 3):
        one, other = segment_of(changed[at]), segment_of(changed[at + 1])
        if one is not None and other is not None and one.source == other.source:
            changed[at], changed[at + 1] = changed[at + 1], changed[at]
    for at in range(len(changed) - 1, 3, -5):
        changed.insert(min(at + random.randint(1, 4), len(changed)), changed[at])
    return changed


@pytest.mark.parametrize("size", [1, 7, 40, 1448])
def test_segments_of_any_size_out_of_order_and_sent_twice_make_the_same_session(
    size: int, recorded: tuple[bytes, list[tuple[str, int, int, int]]], packets: list[Packet]
) -> None:
    rows, complaints = rows_of(resent(packets, size, shuffled))
    assert (verdicts(rows), complaints) == (recorded[1], [])


def test_a_capture_that_starts_in_mid_stream_shows_what_follows(
    recorded: tuple[bytes, list[tuple[str, int, int, int]]], packets: list[Packet]
) -> None:
    seen = 0
    for start in range(len(packets)):
        rows, _ = rows_of(capture_of(packets[start:]))
        found = [each[1:] for each in verdicts(rows)]  # without the first packets, a duplicate can count as accepted
        assert found == [each[1:] for each in recorded[1]][len(recorded[1]) - len(found) :]
        seen += len(found)
    assert seen > 2 * len(recorded[1])


def test_a_missing_packet_costs_its_own_exchange_only(
    recorded: tuple[bytes, list[tuple[str, int, int, int]]], packets: list[Packet]
) -> None:
    for gone in range(len(packets)):
        rows, _ = rows_of(capture_of(packets[:gone] + packets[gone + 1 :]))
        found = verdicts(rows)
        assert len(found) >= len(recorded[1]) - 1
        assert {(code, offset) for _, code, offset, _ in found} <= {(code, offset) for _, code, offset, _ in recorded[1]}


def test_traffic_of_others_is_passed_over() -> None:
    line = Line(CLIENT, ("127.0.0.1", 443))
    hello = [*line.handshake(), line.sent(False, b"\x16\x03\x01\x00\x05hello"), line.sent(True, b"\x16\x03\x03\x00\x01x")]
    rows, complaints = rows_of(capture_of([Packet(0, 1, each) for each in hello]))
    assert not rows
    (complaint,) = complaints
    assert complaint.startswith("no request of Kafka's protocol is in the 5 packets; 2 of its pieces are encrypted (TLS): ")
    assert "--capture FILE" in complaint


# Damage


def test_a_file_that_breaks_off_is_read_up_to_there(recorded: tuple[bytes, list[tuple[str, int, int, int]]]) -> None:
    capture, expected = recorded
    rows, complaints = rows_of(capture[:-10])
    assert verdicts(rows) == expected
    assert len(complaints) == 1
    assert "the file breaks off" in complaints[0]


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        (b"", "this is neither a pcapng nor a pcap file"),
        (b"\x1f\x8b\x08\0" + bytes(9), "this file is compressed (gzip); unpack it first, for example with gunzip"),
        (start_of_file()[:20], "byte 12: the file breaks off; 16 bytes belong here, and 8 are left"),
        (struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + struct.pack("<IIII", 0, 0, 1 << 30, 0),
         "byte 24: a packet of 1073741824 bytes is not possible"),
    ],
)  # fmt: skip
def test_damage_is_a_sentence_with_the_position(file: bytes, sentence: str) -> None:
    with pytest.raises(DamagedCapture) as damage:
        rows_of(file)
    assert str(damage.value) == sentence


def test_damaged_captures_raise_nothing_else(recorded: tuple[bytes, list[tuple[str, int, int, int]]]) -> None:
    random, read = Random(15), 0
    for _ in range(400):
        with suppress(DamagedCapture):
            rows_of(damaged(recorded[0], random))
            read += 1
    assert 0 < read < 400, "some are refused, and some are read in part"


# Secrets


def sasl_session() -> list[tuple[bool, bytes]]:
    """Returns the frames of connections that authenticate. For each frame, the bool says whether the server sends it."""
    token = b"\0alice\0" + SECRET
    handshakes = [
        (by_server, encode_request(1, "c", plain("SaslHandshake", mechanism="PLAIN"), version) if not by_server
         else b"".join(encode_response(1, SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]), version)))
        for version in (1, 0) for by_server in (False, True)
    ]  # fmt: skip
    authenticate = encode_request(2, "c", plain("SaslAuthenticate", auth_bytes=token), 2)
    response = SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=SECRET)
    return [
        *handshakes[:2],
        (False, authenticate),
        (True, b"".join(encode_response(2, response, 2))),
        (False, encode_request(3, "c", plain("ApiVersions"), 0)),
        *handshakes[2:],
        (False, SIZE.pack(len(token)) + token),
        (True, SIZE.pack(len(SECRET)) + SECRET),
        (False, SIZE.pack(len(SECRET[:6])) + SECRET[:6]),
        (False, encode_request(4, "c", plain("ApiVersions"), 0)),
    ]


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_no_secret_of_sasl_is_in_a_capture(size: int) -> None:
    file = io.BytesIO()
    conversation = capture_in(file).opened(CLIENT, SERVER, 0)
    frames = sasl_session()
    for by_server, frame in frames:
        for at in range(0, len(frame), size):
            (conversation.to_client if by_server else conversation.from_client)(frame[at : at + size], 0)
    payloads = [segment_of(each) for each in read_packets(io.BytesIO(file.getvalue()))]
    sent = [each.payload for each in payloads if each is not None and each.payload]
    assert [len(payload) for payload in sent] == [len(frame) for _, frame in frames]
    assert SECRET[:6] not in file.getvalue()
    assert b"alice" not in file.getvalue()
    assert frames[4][1] in sent
    assert frames[-1][1] in sent


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0" + SECRET, b"\0a\0" + SECRET, b"alice\0alice\0" + SECRET, b"n,,n=alice,r=" + SECRET,
        b"n,,\1auth=Bearer " + SECRET + b"\1\1",
    ],
)  # fmt: skip
def test_a_token_without_a_handshake_is_not_in_a_capture(token: bytes) -> None:
    file = io.BytesIO()
    capture_in(file).opened(CLIENT, SERVER, 0).from_client(SIZE.pack(len(token)) + token, 0)
    assert SECRET[:6] not in file.getvalue()
    assert b"alice" not in file.getvalue()


@pytest.mark.parametrize("version", [0, 1])
def test_no_password_of_a_setting_is_in_a_capture(version: int) -> None:
    hidden = [name for name, setting in BROKER_SETTINGS.items() if setting.type is ConfigType.PASSWORD]
    assert hidden
    settings = [{"name": f"listener.name.tls.{name}", "value": "Ä" + SECRET.decode()} for name in hidden]
    kept = {"name": "cleanup.policy", "value": "compact"}
    resource = {"resource_type": 4, "resource_name": "1", "configs": [*settings, kept]}
    frame = encode_request(1, "c", plain("IncrementalAlterConfigs", resources=[resource]), version)
    file = io.BytesIO()
    capture_in(file).opened(CLIENT, SERVER, 0).from_client(frame, 0)
    (sent,) = (each.payload for each in map(segment_of, read_packets(io.BytesIO(file.getvalue()))) if each and each.payload)
    assert (len(sent), SECRET in sent, b"compact" in sent) == (len(frame), False, True)
    read, _ = decode(IncrementalAlterConfigsRequest, memoryview(sent)[4:], version, read_request_header(sent[4:]).end)
    assert {set(each.value) == {"*"} for each in read.resources[0].configs[:-1]} == {True}


def captured(*frames: bytes) -> bytes:
    """Returns a capture of the requests `frames`. Each request arrives in two pieces."""
    file = io.BytesIO()
    conversation = capture_in(file).opened(CLIENT, SERVER, 0)
    for frame in frames:
        for piece in (frame[:50], frame[50:]):
            conversation.from_client(piece, 0)
    conversation.closed(0, by_server=True)
    payloads = (each.payload for each in map(segment_of, read_packets(io.BytesIO(file.getvalue()))) if each and each.payload)
    return b"".join(payloads)


CUSTOM = ("my.custom.apikey", "MY_APIKEY", "SSL.KEY.LOCATION", "listener.name.x.my.plugin.pin", "rlmm.config.access", "pw", "")
KNOWN = {
    "cleanup.policy": "compact", "share.auto.offset.reset": "earliest", "interval.ms": "54321",
    "listener.name.x.plain.connections.max.reauth.ms": "765432",
}  # fmt: skip


@pytest.mark.parametrize("api", ["AlterConfigs", "IncrementalAlterConfigs", "CreateTopics"])
def test_only_settings_that_are_known_not_to_be_secret_are_in_a_capture(api: str) -> None:
    values = dict.fromkeys(CUSTOM, SECRET.decode()) | KNOWN
    settings = [{"name": name, "value": value} for name, value in values.items()]
    resource = {"resource_type": 4, "resource_name": "1", "configs": settings}
    topic = {"name": "password", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": settings}
    body = {"topics": [topic]} if api == "CreateTopics" else {"resources": [resource]}
    frame = encode_request(1, "c", plain_request(api, body), 2 if api == "CreateTopics" else 1)
    sent = captured(frame)
    assert len(sent) == len(frame)
    assert SECRET not in sent
    assert [value for value in KNOWN.values() if value.encode() not in sent] == []


def test_the_level_of_a_logger_is_in_a_capture() -> None:
    setting = {"name": "kafka.server.KafkaApis", "value": "DEBUG"}
    resource = {"resource_type": 8, "resource_name": "1", "configs": [setting]}
    assert b"DEBUG" in captured(encode_request(1, "c", plain("IncrementalAlterConfigs", resources=[resource]), 1))


def test_a_large_request_with_secrets_is_hidden_and_the_next_one_is_not() -> None:
    setting = {"name": "my.custom.apikey", "value": SECRET.decode()}
    some = [{"resource_type": 2, "resource_name": "x" * 30_000, "configs": [setting]}] * 40
    large = encode_request(1, "c", plain("IncrementalAlterConfigs", resources=some), 1)
    following = encode_request(2, "c", plain("Metadata", topics=[]), 9)
    assert len(large) > 1 << 20
    sent = captured(large, following)
    assert len(sent) == len(large) + len(following)
    assert SECRET not in sent
    assert sent.startswith(large[:12])
    assert sent.endswith(following)


@pytest.mark.parametrize("first", [b"POST / HTTP/1.1\r\nAuthorization: Basic " + SECRET, sasl_session()[2][1][:60]])
def test_no_secret_is_kept_of_what_cannot_be_read(first: bytes) -> None:
    file = io.BytesIO()
    conversation = capture_in(file).opened(CLIENT, SERVER, 0)
    conversation.from_client(first, 0)
    conversation.from_client(SECRET, 0)
    conversation.closed(0, by_server=True)
    assert SECRET not in file.getvalue()


def test_a_sasl_session_is_read_back_without_its_secrets() -> None:
    file = io.BytesIO()
    conversation = capture_in(file).opened(CLIENT, SERVER, 0)
    for by_server, frame in sasl_session()[:5]:
        (conversation.to_client if by_server else conversation.from_client)(frame, 0)
    found: list[RecordedExchange] = []
    Session(lambda row: None, lambda each: found.append(each) if isinstance(each, RecordedExchange) else None).read(
        io.BytesIO(file.getvalue())
    )
    requests = [each.exchange.request for each in found]
    assert isinstance(requests[1], SaslAuthenticateRequest)
    assert set(requests[1].auth_bytes) == {ord("*")}


# The front doors


def test_a_proxy_captures_its_clients_with_shadow_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "proxy.pcapng"
    with MockKafka(topics={"orders": 1}) as kafka, ProxyKafka(upstream=kafka.bootstrap_servers, capture=path) as proxy:
        lost = proxy.faults.add(faults.lose_ack(api="Produce", nth=2, then="disconnect"))
        producer = KafkaProducer(bootstrap_servers=proxy.bootstrap_servers, enable_idempotence=True)
        for _ in range(3):
            producer.send("orders", b"a pound of tea").get(timeout=20)
        producer.close()
        lost.assert_fired()
    comments = [text for each in read_packets(io.BytesIO(path.read_bytes())) for text in each.comments]
    assert sum("lose_ack" in text for text in comments) == 1
    assert [text.split(":")[0] for text in comments if "lose_ack" not in text] == [
        "orders-0 accepted", "orders-0 accepted", "orders-0 duplicate", "orders-0 accepted",
    ]  # fmt: skip


def test_large_requests_are_captured_whole(tmp_path: Path) -> None:
    path = tmp_path / "large.pcapng"
    with MockKafka(topics={"orders": 1}, capture=path) as kafka:
        producer = RawProducer(kafka)
        producer.raw(batch(0, 1, pid=producer.pid, epoch=0, tag="v" * 300_000))
    rows, complaints = rows_of(path.read_bytes())
    assert not complaints
    assert [row.bytes > 300_000 for row in rows if isinstance(row, ProduceRow)] == [True]


def test_the_commands_read_a_capture(
    recorded: tuple[bytes, list[tuple[str, int, int, int]]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "session.pcapng"
    path.write_bytes(recorded[0])
    assert main(["trace", "show", str(path), "--verdict", "rejected"]) == 0
    assert "expected sequence 6 for producer 0 epoch 0 on orders-0, got 9" in capsys.readouterr().out
    assert main(["trace", "show", str(path), "--timeline"]) == 0
    assert "2 accepted, 1 duplicate, 1 rejected" in capsys.readouterr().out
    assert main(["trace", "show", str(path), "--follow"]) == 2
    path.write_bytes(recorded[0][:60])
    assert main(["trace", "show", str(path)]) == 2
    assert capsys.readouterr().err.endswith("is in the 0 packets\n") is False


@pytest.mark.parametrize("flags", [[], ["--producer", "0"], ["--topic", "orders"]])
def test_a_capture_may_come_from_a_pipe(
    recorded: tuple[bytes, list[tuple[str, int, int, int]]], flags: list[str], tmp_path: Path
) -> None:
    (tmp_path / "session.pcapng").write_bytes(recorded[0])
    command = [sys.executable, "-m", "wirebroker", "trace", "show"]
    piped = subprocess.run([*command, "-", *flags], input=recorded[0], capture_output=True, timeout=40)
    read = subprocess.run([*command, "session.pcapng", *flags], capture_output=True, timeout=40, cwd=tmp_path)
    assert piped.stdout == read.stdout
    assert read.stdout.count(b"InitProducerId") == 2 * (flags[:1] != ["--topic"]), "the client is identified by later rows"


@pytest.mark.parametrize(
    "command", [["serve", "--port", "0"], ["proxy", "--upstream", "127.0.0.1:1", "--listen", "127.0.0.1:0"]]
)
def test_a_capture_that_cannot_be_written_stops_the_start(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "x.pcapng"
    run = subprocess.run(
        [sys.executable, "-m", "wirebroker", *command, "--capture", str(path)], capture_output=True, text=True, timeout=40
    )
    assert run.returncode == 2
    assert run.stderr.endswith(f"wirebroker {command[0]}: No such file or directory ({path})\n")


def test_a_proxy_that_speaks_tls_captures_plain_text(tmp_path: Path) -> None:
    authority, path = trustme.CA(), tmp_path / "tls.pcapng"
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(served)
    trusting = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    authority.configure_trust(trusting)
    with (
        MockKafka(topics={"orders": 1}) as kafka,
        ProxyKafka(upstream=kafka.bootstrap_servers, client_tls=served, capture=path) as proxy,
    ):
        producer = KafkaProducer(
            bootstrap_servers=proxy.bootstrap_servers, security_protocol="SSL", ssl_context=trusting, enable_idempotence=True
        )
        producer.send("orders", b"a pound of tea").get(timeout=20)
        producer.close()
    rows, complaints = rows_of(path.read_bytes())
    assert not complaints
    assert verdicts(rows) == [("accepted", 0, 0, 0)]


def test_a_reset_broker_goes_on_with_its_capture(tmp_path: Path) -> None:
    path = tmp_path / "reset.pcapng"
    with MockKafka(topics={"orders": 1}, capture=path) as kafka:
        for _ in range(2):
            RawProducer(kafka).send(0, 2)
            kafka.reset()
    comments = [text for each in read_packets(io.BytesIO(path.read_bytes())) for text in each.comments]
    assert [text.partition(":")[0] for text in comments] == ["orders-0 accepted"] * 2


def test_bytes_that_are_sent_again_with_others_pass_once() -> None:
    stream = Streams()
    parts = [(100, b"abc"), (101, b"bcde"), (107, b"hij"), (104, b"efgh"), (100, b"abcdefghijk")]
    segments = [Segment(0, CLIENT, SERVER, at, 0, 0, data) for at, data in [(99, b""), *parts]]
    segments[0] = segments[0]._replace(flags=2)
    passed = [event.data for each in segments for event in stream.take(each) if isinstance(event, Piece)]
    assert b"".join(passed) == b"abcdefghijk"


OF_ALL_APIS = [
    (key, version) for key in APIS for version in versions_of(request_class(key)) if version in versions_of(response_class(key))
]


def test_every_message_of_kafka_is_read_in_every_version_whoever_sends_it() -> None:
    packets: list[bytes] = []
    for number, (key, version) in enumerate(OF_ALL_APIS):
        line = Line(("127.0.0.1", 20_000 + number), SERVER)
        response = response_bytes(random_response(key, version), version)
        packets += [*line.handshake(), line.sent(False, request_bytes(key, version)), line.sent(True, response)]
    rows, complaints = rows_of(capture_of([Packet(at * 1000, 1, data) for at, data in enumerate(packets)]))
    assert complaints == []
    replies = {(row.api, row.version) for row in rows if isinstance(row, ReplyRow)}
    assert sorted(replies) == sorted((api_name(key), version) for key, version in OF_ALL_APIS)
    refused = {row.api for row in rows if isinstance(row, UnsupportedRow)}
    assert refused.isdisjoint({api.name for api in APIS.values() if api.newest < 0}), "Kafka's own requests are not mistakes"
    explanation = Explanation().take_all(rows)
    assert [each.sentence for each in explanation.findings() if each.kind == "unsupported_version"] == []
