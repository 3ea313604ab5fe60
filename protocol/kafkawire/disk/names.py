"""How Kafka names folders and files (LocalLog, LogFileUtils)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
SEGMENT_FILES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"
"""The suffixes of three kinds of files: a file that waits for deletion, a file that the cleaner is writing, and a file that
will replace another file."""
METADATA_TOPIC, METADATA_TOPIC_ID = "__cluster_metadata", bytes(15) + b"\1"
"""The topic of the controllers' log, and its id (Uuid.METADATA_TOPIC_ID)."""
METADATA_FOLDER = f"{METADATA_TOPIC}-0"
_PARTITION = re.compile(r"(.+)-(0|[1-9][0-9]*)")
_FUTURE_FOLDER = re.compile(r"(.+-(?:0|[1-9][0-9]*))\.[0-9a-f]{32}-future")
_DELETED_FOLDER = re.compile(r".+\.[0-9a-f]{32}-delete")
_SEGMENT = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
LAST_OFFSET = f"{1 << 62:020d}"
"""The largest offset in a file's name; Kafka makes no file with a larger offset."""


def file_name(offset: int, suffix: str) -> str:
    """Returns a name such as `00000000000000000042.log`. The offset is the base offset of a segment, or the end offset of a
    snapshot."""
    return f"{offset:020d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """Returns the offset in a file's name, or None for any other name."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match and match[2] == suffix and match[1] <= LAST_OFFSET else None


def folder_name(topic: str, index: int) -> str:
    """Returns the name of a partition's folder."""
    return f"{topic}-{index}"


def partition_of(folder: str) -> tuple[str, int] | None:
    """Returns topic and index of a partition's folder, or None for any other folder."""
    match = _PARTITION.fullmatch(folder)
    return (match[1], int(match[2])) if match else None


def deleted_folder_name(topic: str, index: int, unique: bytes) -> str:
    """Returns the name of a deleted topic's folder; `unique` are 16 bytes. Kafka keeps such names below 256 bytes."""
    suffix = f"-{index}.{unique.hex()}-delete"
    return topic[: 255 - len(suffix)] + suffix


def is_deleted_folder(folder: str) -> bool:
    """Tells whether this is the name of a deleted partition's folder, which has not been removed yet."""
    return _DELETED_FOLDER.fullmatch(folder) is not None


def future_folder_name(topic: str, index: int, unique: bytes) -> str:
    """Returns the name of the folder that receives a partition while the partition moves to another log directory; `unique` are
    16 bytes."""
    return f"{folder_name(topic, index)}.{unique.hex()}-future"


def future_of(folder: str) -> tuple[str, int] | None:
    """Returns the topic and index of a partition that is moving to this folder, or None for any other folder."""
    match = _FUTURE_FOLDER.fullmatch(folder)
    return partition_of(match[1]) if match else None


class Listing(NamedTuple):
    """The files of a partition's folder. `offsets` maps each suffix to the sorted offsets in the file names with this suffix;
    `names` has every file name."""

    offsets: dict[str, list[int]]
    names: frozenset[str]


def listing(folder: Path) -> Listing:
    """Returns the files of a partition's folder. Raises OSError."""
    names = os.listdir(folder)
    offsets: dict[str, list[int]] = {suffix: [] for suffix in (*SEGMENT_FILES, SNAPSHOT)}
    for name in names:
        if (match := _SEGMENT.fullmatch(name)) and match[1] <= LAST_OFFSET:
            offsets[match[2]].append(int(match[1]))
    for found in offsets.values():
        found.sort()
    return Listing(offsets, frozenset(names))


def offsets_in(folder: Path, suffix: str) -> list[int]:
    """Returns the offsets in the names of a folder's files with this suffix, in order."""
    found = [offset_of(path.name, suffix) for path in folder.iterdir()]
    return sorted(offset for offset in found if offset is not None)
