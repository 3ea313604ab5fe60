"""Each command that takes a file is run with all kinds of files. The command reads the file, or prints one sentence that names
the kind of file."""

from __future__ import annotations

import bz2
import gzip
import lzma
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from zlib import crc32

import pytest

from kafkawire.compression import compress
from wirebroker import MockKafka
from wirebroker.commands.cli import main
from wirebroker.control import openapi
from wirebroker.control.page import page
from wirebroker.control.table import endpoints_of
from wirebroker_tools.capture.packets import LINKS
from wirebroker_tools.live.table import OF_FILES
from wirekit import RawProducer

LINK_TYPES = (0, 1, 9, 12, 14, 101, 105, 108, 113, 127, 195, 228, 229, 239, 276)
ZSTD = 4


def pcap(link: int, *packets: bytes, cut: int = 0, magic: int = 0xA1B2C3D4) -> bytes:
    """Returns a pcap file. The snap length has cut the last `cut` bytes off each packet."""
    head = struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    return head + b"".join(struct.pack("<IIII", 1, 1, len(each), len(each) + cut) + each for each in packets)


def old_message(offset: int, magic: int) -> bytes:
    """Returns a message in the format of segments before Kafka 0.11."""
    body = (
        struct.pack(">bb", magic, 0)
        + (struct.pack(">q", 1_700_000_000_000) if magic else b"")
        + struct.pack(">ii", -1, 3)
        + b"tea"
    )
    body = struct.pack(">I", crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log directory, a capture and a trace."""
    made = tmp_path_factory.mktemp("files")
    with MockKafka(
        data=made / "data",
        topics=["orders"],
        capture=made / "good.pcapng",
        trace="all",
        configs={"log.index.interval.bytes": "100"},
    ) as kafka:
        producer = RawProducer(kafka)
        for number in range(5):
            producer.send(number)
        (made / "trace.jsonl").write_text("".join(row.as_json() + "\n" for row in kafka.trace.events()))
    return made


@pytest.fixture(scope="module")
def files(folder: Path) -> dict[Path, str]:
    """Maps each file to words that the sentence about this file must have. The words are "" if some commands can read the
    file.
    """
    trace, capture, noise = (
        (folder / "trace.jsonl").read_bytes(),
        (folder / "good.pcapng").read_bytes(),
        Random(1).randbytes(500),
    )
    made: dict[str, tuple[bytes, str]] = {
        "a.pcapng.gz": (gzip.compress(capture), "(gzip)"), "trace.jsonl.gz": (gzip.compress(trace), "(gzip)"),
        "a.pcapng.bz2": (bz2.compress(capture), "(bzip2)"), "a.pcapng.xz": (lzma.compress(capture), "(xz)"),
        "a.pcapng.zst": (bytes(compress(ZSTD, capture)), "(zstd)"), "a.lz4": (b"\x04\x22\x4d\x18" + noise, "(lz4)"),
        "a.zip": (b"PK\3\4" + noise, "(zip)"), "utf16.jsonl": (trace.decode().encode("utf-16"), "UTF-16"),
        "snoop": (b"snoop\0\0\0" + noise, "of snoop"), "netmon.cap": (b"GMBU" + noise, "Network Monitor"),
        "modified.pcap": (pcap(1, noise, magic=0xA1B2CD34), "a modified form of pcap"),
        "00000000000000000007.txnindex": (noise, "aborted transactions"), "quorum-state": (b"{}", "state of a voter"),
        "00000000000000000007.index.deleted": (noise, "offset index"),
        "00000000000000000007.timeindex.swap": (b"", "time index"),
        "text": (b"an application\nand its log\n" * 50, "neither"),
        "noise": (noise, "neither"), "zeros": (bytes(500), "neither"),
        "array.json": (b"[1, 2]", "neither"), "object.json": (b'{"a": 1}', "neither"), "deep.json": (b"[" * 100_000, "neither"),
        "one": (b"x", "neither"), "null.json": (b"null", "neither"), "a.toml": (b"a = 1\n", "neither"),
        "magic": (pcap(1)[:4], "breaks off"), "head.pcap": (pcap(1)[:9], "breaks off"),
        "no-packet.pcap": (pcap(1), "0 packets"),
        "empty": (b"", ""), "half.jsonl": (trace[len(trace) // 2 :], ""), "cut.jsonl": (trace[: len(trace) // 2], ""),
        "bom.jsonl": (b"\xef\xbb\xbf" + trace, ""), "crlf.jsonl": (trace.replace(b"\n", b"\r\n"), ""),
        "old-0.log": (b"".join(old_message(at, 0) for at in range(5)), "neither"),
        "old-1.log": (b"".join(old_message(at, 1) for at in range(5)), "neither"),
        "cut.pcap": (pcap(1, noise, cut=9), "1 of the 1 packets are cut by a snap length"),
    }  # fmt: skip
    made |= {
        f"link-{each}.pcap": (pcap(each, noise), "1 packets" if each in LINKS else f"link type {each}") for each in LINK_TYPES
    }
    for name, (content, _) in made.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    found = {folder / name: sentence for name, (_, sentence) in made.items()}
    found |= {folder / "folder": "Is a directory", folder / "loop": "symbolic links", folder / "absent": "No such file"}
    found |= {folder / "good.pcapng": "", folder / "trace.jsonl": ""}
    return found | {each: "" for each in (folder / "data").rglob("*") if each.is_file()}


@pytest.fixture(scope="module")
def busy() -> Iterator[str]:
    """A port on which nothing else can listen, so that `serve` ends."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield str(taken.getsockname()[1])


READING: dict[str, Callable[[str, str], list[str]]] = {
    "trace show": lambda file, good: ["trace", "show", file],
    "--timeline": lambda file, good: ["trace", "show", file, "--timeline"],
    "--picture": lambda file, good: ["trace", "show", file, "--picture", "sequence"],
    "explain": lambda file, good: ["explain", file],
    "replay": lambda file, good: ["replay", file, "--bootstrap", "127.0.0.1:1", "--timeout", "0.1"],
    "diff A": lambda file, good: ["diff", file, good],
    "diff B": lambda file, good: ["diff", good, file],
}
"""The commands that read traces and captures."""
OTHERS: dict[str, Callable[[str, str], list[str]]] = {
    "decode": lambda file, port: ["decode", file],
    "decode --api": lambda file, port: ["decode", file, "--api", "Fetch", "--version", "12"],
    "encode": lambda file, port: ["encode", file],
    "--faults": lambda file, port: ["serve", "--faults", file, "--port", port],
    "--like": lambda file, port: ["serve", "--like", file, "--port", port],
    "--users-file": lambda file, port: ["serve", "--users-file", file, "--port", port],
    "--tls-cert": lambda file, port: ["serve", "--tls-cert", file, "--listener", f"SSL://127.0.0.1:{port}"],
    "--data": lambda file, port: ["serve", "--data", file, "--port", port],
    "scenario": lambda file, port: ["scenario", "show", file],
    "--compare": lambda file, port: ["learn", "--compare", file, file],
    "conformance": lambda file, port: ["conformance", "--file", file, "--bootstrap", "127.0.0.1:1"],
    "--command-config": lambda file, port: ["learn", "--bootstrap", "127.0.0.1:1", "--out", "x", "--command-config", file],
}
"""The other commands that take a file."""


def ran(command: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, list[str]]:
    """Runs a command. Returns its exit code, and the lines on stderr."""
    try:
        code: int | str | None = main(command)
    except SystemExit as ended:
        code = ended.code
    return code, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("command", READING)
def test_a_file_that_is_neither_a_trace_nor_a_capture_is_named_in_one_sentence(
    command: str, files: dict[Path, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file, sentence in files.items():
        code, told = ran(READING[command](str(file), str(folder / "good.pcapng")), capsys)
        assert code in (0, 1, 2), (command, file)
        if code == 2:
            assert len(told) == 1, (command, file, told)
        if sentence:
            assert code == 2, (command, file)
            assert sentence in told[0], (command, file)
            assert file.name in told[0], (command, file)


@pytest.mark.parametrize("command", OTHERS)
def test_every_command_that_takes_a_file_ends_with_one_sentence(
    command: str, files: dict[Path, str], busy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in files:
        code, told = ran(OTHERS[command](str(file), busy), capsys)
        assert code in (0, 1, 2), (command, file)
        assert len(told) == 1 or code == 0, (command, file, told)
        assert "[Errno" not in "".join(told), (command, file, told)


def test_every_file_of_a_log_directory_is_decoded_or_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = set()
    for file in (folder / "data").rglob("*"):
        if file.is_file():
            code, told = ran(["decode", str(file)], capsys)
            kinds.add(file.suffix or file.name)
            if file.suffix == ".log" and file.stat().st_size:
                assert (code, told) == (0, []), file
            else:
                assert code == 2, file
                assert "this is a" in told[0] or "this is the" in told[0] or "there are no bytes" in told[0], (file, told)
    assert {".log", ".index", ".timeindex", ".snapshot", ".properties", ".metadata", "replication-offset-checkpoint"} <= kinds


@pytest.mark.parametrize("magic", [0, 1])
def test_a_segment_of_an_old_format_is_decoded(
    magic: int, files: dict[Path, str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decode", str(folder / f"old-{magic}.log")]) == 0
    out = capsys.readouterr().out
    assert out.count(f"magic: {magic}") == 5
    assert "Produce" not in out


def test_packets_that_a_snap_length_has_cut_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (folder / "good.pcapng").read_bytes()
    cut, at = bytearray(whole), 28  # the offset of the block after the header
    while at < len(cut):
        kind, size = struct.unpack_from("<II", cut, at)
        if kind == 6 and struct.unpack_from("<I", cut, at + 20)[0] > 150:
            struct.pack_into("<I", cut, at + 24, 10_000)  # the length on the wire
        at += size
    path = folder / "snapped.pcapng"
    path.write_bytes(cut)
    assert main(["trace", "show", str(path)]) == 0
    assert "packets are cut by a snap length" in capsys.readouterr().err
    assert main(["explain", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "packets are cut by a snap length" in err
    assert "nothing is wrong" not in out


@pytest.mark.parametrize(
    "endpoints", [endpoints_of("broker"), endpoints_of("proxy"), OF_FILES], ids=["broker", "proxy", "file"]
)
def test_every_control_has_a_page_and_a_description(endpoints: tuple[object, ...]) -> None:
    shown = page(endpoints)  # type: ignore[arg-type]
    paths = openapi.described(endpoints)["paths"]  # type: ignore[arg-type]
    for path in paths:
        assert path in shown
    linked = {each.partition('"')[0] for each in shown.split('<a href="')[1:]} - {"live/", "openapi.json"}
    assert {f"/{each}" for each in linked} <= set(paths)
