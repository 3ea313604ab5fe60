"""Recognises files that a command cannot read: compressed files, files of Kafka's log directories, and captures of other
tools."""

from __future__ import annotations

import re
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

LONGEST_START = 16
"""The number of first bytes by which a file is recognised."""
COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"), b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"), b"\xfd7zXZ\0": ("xz", "unxz"),
    b"BZh": ("bzip2", "bunzip2"), b"\x04\x22\x4d\x18": ("lz4", "unlz4"), b"PK\3\4": ("zip", "unzip"),
}  # fmt: skip
"""For each format of compressed files: the first bytes of such a file, the name of the format, and the command that unpacks the
file."""
CAPTURES = {
    b"\xa1\xb2\xcd\x34": "in a modified form of pcap", b"\x34\xcd\xb2\xa1": "in a modified form of pcap",
    b"snoop\0\0\0": "of snoop", b"GMBU": "of Microsoft Network Monitor",
}  # fmt: skip
UTF16 = (b"\xff\xfe", b"\xfe\xff")
SEGMENT, SNAPSHOT_OF_METADATA = r"\d{20}\.log", r"\d{20}-\d{10}\.checkpoint|bootstrap\.checkpoint"
WITH_BATCHES = re.compile(rf"(?:{SEGMENT}|{SNAPSHOT_OF_METADATA})(?:\.deleted|\.cleaned|\.swap|\.part)?")
CHECKPOINTS = "cleaner-offset|leader-epoch|log-start-offset|recovery-point-offset|replication-offset"
IN_LOG_DIRECTORIES = {
    r"\d{20}\.index": "the offset index of a log", r"\d{20}\.timeindex": "the time index of a log",
    r"\d{20}\.txnindex": "a log's index of aborted transactions", r"\d{20}\.snapshot": "a snapshot of a log's producers",
    rf"(?:{CHECKPOINTS})-checkpoint": "a checkpoint of Kafka, a text",
    r"meta\.properties": "a text that names a broker and its cluster",
    r"partition\.metadata": "a text that names the topic of a folder", r"quorum-state": "the state of a voter, a text",
    r"\.kafka_cleanshutdown|\.lock": "a mark in a log directory of Kafka",
}  # fmt: skip
"""The names of files that Kafka keeps beside the logs. These files hold no record batches (LogFileUtils)."""


class OtherFile(ValueError):
    """Raised if a command cannot read this kind of file. The message says what kind of file it is, without the file's name."""


def other_file(name: str, first: bytes) -> str:
    """Returns a sentence that says what a file is and what to do with it, or "" if this module does not know the file. `first`
    are the file's first LONGEST_START bytes or more, or all bytes of a shorter file."""
    for start, (form, command) in COMPRESSED.items():
        if first.startswith(start):
            return f"this file is compressed ({form}); unpack it first, for example with {command}"
    for start, of in CAPTURES.items():
        if first.startswith(start):
            return f"this is a capture {of}; convert it first: editcap -F pcapng FILE NEW"
    if first.startswith(UTF16):
        return "this is text in UTF-16, as PowerShell's > writes it; write it as UTF-8 first"
    base = re.sub(r"\.(?:deleted|cleaned|swap)$", "", Path(name).name)
    for pattern, what in IN_LOG_DIRECTORIES.items():
        if re.fullmatch(pattern, base):
            shows = "" if "text" in what or "mark" in what else "; kafka-dump-log.sh shows it"
            return f"this is {what}, and has neither record batches nor requests{shows}"
    return ""


def checked(file: BinaryIO, name: str) -> BinaryIO:
    """Checks a file that was opened to read a trace or a capture, and returns the same file. Raises OtherFile if the file is
    known to be of another kind."""
    first = file.peek(LONGEST_START)[:LONGEST_START] if isinstance(file, BufferedReader) else b""
    if sentence := other_file(name, first):
        raise OtherFile(sentence)
    if WITH_BATCHES.fullmatch(Path(name).name):
        raise OtherFile(f"these are record batches of a log; `wirebroker decode {name}` shows them")
    return file
