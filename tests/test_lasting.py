"""The files of traces and captures are rotated. If the disk was full, writing goes on when there is room again."""

from __future__ import annotations

import io
import logging
import os
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from kafkawire.frames import encode_request
from kafkawire.messages.metadata import MetadataRequest
from wirebroker.commands.cli import main
from wirebroker.common import lasting
from wirebroker.common.lasting import LastingFile, Rotation
from wirebroker_tools.capture.files import read_packets
from wirebroker_tools.capture.recording import open_capture
from wirebroker_tools.commands.trace import appended


class Disk:
    """A disk with space for `room` bytes. If a write is larger, the disk stores the part that fits, as real disks do."""

    def __init__(self, room: int) -> None:
        self.room = room

    def open(self, path: Path, mode: str, **how: object) -> io.FileIO:
        disk = self

        class File(io.FileIO):
            def write(self, data: object) -> int:
                data = bytes(data)[: disk.room]  # type: ignore[call-overload]
                if not data:
                    raise OSError(28, "No space left on device")
                disk.room -= len(data)
                return super().write(data)

        return File(path, mode)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(1 << 40)
    monkeypatch.setattr(lasting, "FileIO", made.open)
    return made


def test_a_full_disk_costs_pieces_and_damages_none(tmp_path: Path, disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    file = LastingFile(path := tmp_path / "t.jsonl", "the trace")
    disk.room = 15
    for second in range(25):
        file.write(b"piece %02d\n" % second, second * 1000)
        if second == 12:
            disk.room = 1000
    file.close()
    assert path.read_bytes() == b"piece 00\n" + b"".join(b"piece %02d\n" % second for second in range(21, 25))
    assert caplog.messages == [
        f"the trace no longer goes to {path} (No space left on device); wirebroker tries again every 10 s",
        f"the trace goes to {path} again; 20 pieces are missing there",
    ]


def test_a_file_goes_on_after_the_clock_was_set_back(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset sets a broker's clock back, perhaps by days."""
    file = LastingFile(tmp_path / "t.jsonl", "the trace", Rotation.of("1h"))
    day = 86_400_000
    disk.room = 0
    file.write(b"lost\n", 9 * day)
    disk.room = 1 << 20
    file.write(b"a\n", day)
    with monkeypatch.context() as context:
        context.setattr(Path, "replace", Mock(side_effect=PermissionError(13, "Permission denied")))
        file.write(b"b\n", 8 * day)
    for now in (2 * day, 2 * day + 3_600_000):
        file.write(b"c\n", now)
    assert [each.read_text() for each in sorted(tmp_path.iterdir())] == ["a\nb\nc\n", "c\n"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_a_pipe_that_nobody_reads_does_not_block_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(path := tmp_path / "c.pcapng")
    with pytest.raises(OSError, match="no program reads this pipe; start its reader first"):
        open_capture(str(path))
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = LastingFile(path, "the capture")
    os.set_blocking(reader, True)
    piece, received = bytes(200_000), bytearray()  # larger than a pipe

    def read() -> None:
        while len(received) < len(piece):
            received.extend(os.read(reader, 5_000))

    thread = threading.Thread(target=read)
    thread.start()
    file.write(piece, 0)
    thread.join()
    assert received == piece
    monkeypatch.setattr(lasting, "PATIENCE_S", 0.01)
    for second in range(20):
        file.write(piece, second * 1000)
    os.close(reader)
    assert caplog.messages == [
        f"the capture no longer goes to {path} (its reader has stopped reading); nothing more goes there"
    ]


def test_a_capture_that_starts_on_a_full_disk_begins_when_there_is_room(tmp_path: Path, disk: Disk) -> None:
    disk.room = 10
    capture = open_capture(str(tmp_path / "c.pcapng"))
    disk.room = 10_000
    capture.packet(5_000, b"x", [])
    capture.close()
    with (tmp_path / "c.pcapng").open("rb") as file:
        assert [packet.data for packet in read_packets(file)] == [b"x"]


@pytest.mark.parametrize(
    ("rotation", "files"),
    [
        ("10b", {"t.000005.jsonl": "4\n", "t.000006.jsonl": "5\n", "t.jsonl": "6\n"}),
        ("16b", {"t.000002.jsonl": "2\n3\n", "t.000003.jsonl": "4\n5\n", "t.jsonl": "6\n"}),
        ("3s", {"t.000001.jsonl": "0\n1\n2\n", "t.000002.jsonl": "3\n4\n5\n", "t.jsonl": "6\n"}),
        ("100MB,4s", {"t.000001.jsonl": "0\n1\n2\n3\n", "t.jsonl": "4\n5\n6\n"}),
        ("1gb,1d", {"t.jsonl": "0\n1\n2\n3\n4\n5\n6\n"}),
    ],
)
def test_a_full_file_gets_a_number_and_the_latest_stay(tmp_path: Path, rotation: str, files: dict[str, str]) -> None:
    (tmp_path / "t.7.jsonl").write_text("not one of these")
    file = LastingFile(tmp_path / "t.jsonl", "the trace", Rotation.of(rotation, keep=2))
    for second in range(7):
        file.write(b"      %d\n" % second, second * 1000)
    found = {each.name: each.read_text().replace(" ", "") for each in tmp_path.iterdir()}
    assert found == files | {"t.7.jsonl": "notoneofthese"}


def test_a_restart_continues_a_trace_and_keeps_the_capture_before(tmp_path: Path) -> None:
    rotation = Rotation.of("1kb", keep=5)
    for run in range(3):
        LastingFile(tmp_path / "t.jsonl", "the trace", rotation).write(b"row %d\n" % run, run)
        capture = open_capture(str(tmp_path / "c.pcapng"), rotation)
        capture.packet(run, b"packet %d" % run, [])
        capture.close()
    assert (tmp_path / "t.jsonl").read_text() == "row 0\nrow 1\nrow 2\n"
    captures = sorted(tmp_path.glob("c*.pcapng"))
    assert [each.name for each in captures] == ["c.000001.pcapng", "c.000002.pcapng", "c.pcapng"]
    assert [[packet.data for packet in read_packets(each.open("rb"))] for each in captures] == [
        [b"packet 0"], [b"packet 1"], [b"packet 2"],
    ]  # fmt: skip


def test_every_rotated_capture_can_be_read_alone(tmp_path: Path) -> None:
    capture = open_capture(str(tmp_path / "c.pcapng"), Rotation.of("1kb", keep=100))
    conversation = capture.opened(("127.0.0.1", 5000), ("127.0.0.1", 9092), 0)
    for number in range(40):
        conversation.from_client(encode_request(number, "client", MetadataRequest(topics=[]), 12), number)
    capture.close()
    packets = [list(read_packets(each.open("rb"))) for each in sorted(tmp_path.iterdir())]
    assert len(packets) > 3
    assert sum(b"client" in packet.data for part in packets for packet in part) == 40
    assert main(["trace", "show", str(tmp_path / "c.000002.pcapng")]) == 0


def test_a_file_that_cannot_be_rotated_grows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    file = LastingFile(path := tmp_path / "t.jsonl", "the trace", Rotation.of("10b"))
    with monkeypatch.context() as context:
        context.setattr(Path, "replace", refused)
        for second in range(15):
            file.write(b"%08d\n" % second, second * 1000)
    for second in (15, 22):
        file.write(b"%08d\n" % second, second * 1000)
    assert len((tmp_path / "t.000001.jsonl").read_text().splitlines()) == 16
    assert path.read_text() == "00000022\n"
    assert caplog.messages == [f"{path} cannot be rotated (Permission denied), and becomes larger"]


def test_a_reader_that_follows_a_trace_misses_nothing_at_a_rotation(tmp_path: Path) -> None:
    file = LastingFile(tmp_path / "t.jsonl", "the trace", Rotation.of("100b", keep=1000))
    file.write(b"0\n", 0)
    lines = appended((tmp_path / "t.jsonl").open("rb"))
    read = [next(lines)]
    writer = threading.Thread(target=lambda: [file.write(b"%d\n" % n, 0) for n in range(1, 30)])
    writer.start()
    read += [next(lines) for _ in range(29)]
    writer.join()
    for number in range(30, 60):  # each line is read immediately, so that at most one rotation comes between two reads
        file.write(b"%d\n" % number, 0)
        read.append(next(lines))
    assert read == [b"%d\n" % number for number in range(60)]
    assert len(list(tmp_path.iterdir())) > 1


@pytest.mark.parametrize(
    "command", [["serve", "--port", "0"], ["proxy", "--upstream", "127.0.0.1:1", "--listen", "127.0.0.1:0"]]
)
@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--rotate", "1h", "--trace", "console"], "--rotate is for the files of --trace and --capture"),
        (["--rotate", "0MB", "--capture", "x"], "a size, a time or both (100MB, 1h or 100MB,1h), not '0MB'"),
        (["--rotate", "1h,", "--capture", "x"], "--rotate: expected a size, a time or both"),
    ],
)
def test_a_rotation_that_is_misspelt_is_refused(
    command: list[str], flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, *flags]) == 2
    assert problem in capsys.readouterr().err
