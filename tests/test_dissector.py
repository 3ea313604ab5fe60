"""`wirebroker dissector`: Wireshark decodes every message of every version."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from kafka import KafkaConsumer, KafkaProducer

from kafkawire.batches import Record, build_batch, end_txn_marker
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import APIS
from kafkawire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.registry import request_class, response_class
from requesting import produce_request
from wire.random_messages import Maker, versions_of
from wirebroker import MockKafka
from wirebroker_tools.capture.files import packet_block, start_of_file
from wirebroker_tools.capture.packets import LONGEST_PAYLOAD, Line
from wirebroker_tools.decode.dissector import lua
from wirekit import NOW

CLIENT, SERVER = ("127.0.0.1", 50_000), ("127.0.0.1", 9092)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    path = tmp_path_factory.mktemp("lua") / "kafka.lua"
    path.write_text("\n".join(lua()) + "\n", encoding="utf-8")
    return path


def tshark(script: Path, capture: Path, *arguments: str) -> list[str]:
    """Runs tshark with the dissector. Returns the lines that it prints."""
    command = ["tshark", "-X", f"lua_script:{script}", "-r", str(capture), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=55)
    complaints = [line for line in run.stderr.splitlines() if "could be dangerous" not in line]
    assert (run.returncode, complaints) == (0, [])
    return run.stdout.splitlines()


def written(path: Path, frames: list[tuple[bool, bytes]], ports: tuple[int, int] = (50_000, 9092)) -> Path:
    """Writes a capture of one connection with `frames`. True means that the server sends the frame."""
    line = Line(("127.0.0.1", ports[0]), ("127.0.0.1", ports[1]))
    packets = line.handshake()
    for by_server, frame in frames:
        packets += [line.sent(by_server, frame[at : at + LONGEST_PAYLOAD]) for at in range(0, len(frame), LONGEST_PAYLOAD)]
    blocks = b"".join(packet_block(at, data) for at, data in enumerate(packets, NOW * 1000))
    path.write_bytes(start_of_file() + blocks)
    return path


def test_every_message_of_every_version_is_decoded_to_its_end(script: Path, tmp_path: Path) -> None:
    frames: list[tuple[bool, bytes]] = []
    names = []
    for key, api in APIS.items():
        for version in versions_of(request_class(key)):
            maker = Maker(("dissector", key, version))
            number = len(frames)
            frames.append(
                (
                    False,
                    encode_request(number, None if version else "größe", maker.message(request_class(key), version), version),
                )
            )
            names.append(f"{api.name} v{version} request")
            if version in versions_of(response_class(key)):
                message = maker.message(response_class(key), version)
                if isinstance(message, ApiVersionsResponse):
                    message.error_code = 0
                frames.append((True, b"".join(encode_response(number, message, version))))
                names.append(f"{api.name} v{version} response")
    capture = written(tmp_path / "all.pcapng", frames)
    columns = ["-T", "fields", "-e", "_ws.col.Info", "-Y", "tcp.len > 0"]
    assert tshark(script, capture, *columns) == names
    assert tshark(script, capture, "-Y", "kafka4.not_decoded || kafka4.damaged || _ws.lua.error || _ws.malformed") == []


def test_values_of_a_session_of_a_client_can_be_filtered(script: Path, tmp_path: Path) -> None:
    path = tmp_path / "session.pcapng"
    with MockKafka(topics={"orders": 1}, capture=path) as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, enable_idempotence=True)
        for value in (b"tea", b"milk"):
            producer.send("orders", value, key=b"k").get(timeout=10)
        producer.close()
        consumer = KafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="g", auto_offset_reset="earliest",
            consumer_timeout_ms=20_000,
        )  # fmt: skip
        consumer.partitions_for_topic("orders")  # otherwise kafka-python may wait for ever
        assert [next(consumer).value for _ in range(2)] == [b"tea", b"milk"]
        consumer.close()
    assert len(tshark(script, path, "-Y", "tcp.len > 0")) == len(tshark(script, path, "-Y", "kafka4.api")) > 20
    assert tshark(script, path, "-Y", "kafka4.not_decoded || kafka4.damaged || _ws.lua.error") == []
    produced = ["-Y", 'kafka4.api == "Produce" && kafka4.name == "orders" && kafka4.record_value == "milk"']
    assert tshark(script, path, *produced, "-T", "fields", "-e", "kafka4.base_sequence") == ["1"]
    responses = ["-Y", 'kafka4.api == "Produce" && kafka4.request_in', "-T", "fields", "-e", "kafka4.base_offset"]
    assert tshark(script, path, *responses) == ["0", "1"]
    assert len(tshark(script, path, "-Y", 'kafka4.group_id == "g" && kafka4.api == "JoinGroup"')) > 0


def test_batches_of_all_kinds_are_decoded(script: Path, tmp_path: Path) -> None:
    records = [Record(0, 0, b"k", b"tea", (("h", b"x"), ("n", None))), Record(1, 5, None, b"milk")]
    frames = [
        (False, encode_request(codec, "c", produce_request("orders", build_batch(records, compression=codec)), 9))
        for codec in range(5)
    ]
    marker = end_txn_marker(True, producer_id=7, producer_epoch=1, coordinator_epoch=0, timestamp=NOW)
    frames.append((False, encode_request(9, "c", produce_request("orders", marker * 2 + marker[:30]), 9)))
    capture = written(tmp_path / "batches.pcapng", frames)
    values = tshark(script, capture, "-Y", "kafka4.api", "-T", "fields", "-e", "kafka4.record_value")
    assert values[:2] == ["746561,6d696c6b"] * 2, "plain and gzip"
    assert "compressed with zstd" in "\n".join(tshark(script, capture, "-V"))
    assert "\n".join(tshark(script, capture, "-V")).count("a marker of a transaction") == 2
    assert tshark(script, capture, "-Y", "kafka4.not_decoded || kafka4.damaged || _ws.lua.error") == []


def test_any_port_large_frames_and_responses_without_a_request(script: Path, tmp_path: Path) -> None:
    large = encode_request(1, "c", produce_request("orders", build_batch([Record(0, 0, None, bytes(200_000))])), 9)
    capture = written(tmp_path / "large.pcapng", [(False, large), (False, large)], (50_000, 31_234))
    assert len(tshark(script, capture, "-Y", "kafka4.records_count == 1")) == 2
    response = b"".join(encode_response(1, ApiVersionsResponse(error_code=0, api_keys=[]), 0))
    capture = written(
        tmp_path / "late.pcapng", [(True, response), (False, large[:100_000]), (True, response[:6] + b"\xff" * 40)]
    )
    assert len(tshark(script, capture, "-Y", "kafka4.not_decoded")) >= 1
    assert tshark(script, capture, "-Y", "_ws.lua.error") == []


def test_damage_is_shown_and_breaks_nothing(script: Path, tmp_path: Path) -> None:
    whole = encode_request(1, "c", produce_request("orders", build_batch([Record(0, 0, None, b"tea")])), 9)
    frames = [(False, whole[:at] + b"\xff" * 3 + whole[at + 3 :]) for at in range(12, len(whole) - 3)]
    capture = written(tmp_path / "damaged.pcapng", [*frames, (False, whole)])
    assert tshark(script, capture, "-Y", "_ws.lua.error") == []
    assert len(tshark(script, capture, "-Y", "kafka4.damaged")) > 10
    assert tshark(script, capture, "-Y", 'kafka4.record_value == "tea"', "-T", "fields", "-e", "kafka4.name")[-1] == "orders"


def test_a_log_of_keys_decrypts_a_connection_on_a_port_of_kafka(script: Path, tmp_path: Path) -> None:
    authority, passed = trustme.CA(), list[tuple[bool, bytes]]()
    served, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(served)
    authority.configure_trust(trusting)
    trusting.keylog_filename = str(tmp_path / "keys")
    ends = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    client = trusting.wrap_bio(*ends[0], server_hostname="127.0.0.1")
    server = served.wrap_bio(*ends[1], server_side=True)

    def pass_on() -> None:
        """Passes to each side, in packets of 700 bytes, all data that the other side has written."""
        for by_server, (sent, to) in enumerate(((ends[0][1], ends[1][0]), (ends[1][1], ends[0][0]))):
            while data := sent.read(700):
                passed.append((bool(by_server), data))
                to.write(data)

    for _ in range(3):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
            pass_on()
    large = encode_request(1, "c", produce_request("orders", build_batch([Record(0, 0, None, b"tea" + bytes(40_000))])), 9)
    client.write(large)
    client.write(encode_request(2, "c", ApiVersionsRequest(), 0))
    pass_on()
    server.write(b"".join(encode_response(2, ApiVersionsResponse(error_code=0, api_keys=[]), 0)))
    pass_on()
    with_keys = ["-o", f"tls.keylog_file:{tmp_path / 'keys'}"]
    for port in (9093, 31_234):
        capture = written(tmp_path / "tls.pcapng", passed, (50_000, port))
        wanted = [*with_keys, "-Y", "kafka4.api", "-T", "fields", "-e", "kafka4.api", "-e", "kafka4.api_version"]
        told = "\n".join(tshark(script, capture, *wanted)).replace(",", "\t").split()
        assert sorted(word for word in told if word.isalpha()) == ["ApiVersions", "ApiVersions", "Produce"]
        assert tshark(script, capture, *with_keys, "-Y", "kafka4.not_decoded || kafka4.damaged || _ws.lua.error") == []
