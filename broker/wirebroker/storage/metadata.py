"""The cluster's metadata log, `__cluster_metadata-0`. The metadata log has Kafka's own records, and is read from snapshots and
segments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kafkawire.batches import Record, build_batch, read_header
from kafkawire.codec import encode
from kafkawire.declare import Message
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.metadata import Image, metadata_files, replay
from kafkawire.disk.names import LOG, METADATA_FOLDER, METADATA_TOPIC, METADATA_TOPIC_ID, file_name, offset_of
from kafkawire.disk.properties import PARTITION_METADATA, partition_metadata_text
from kafkawire.disk.walking import Walk
from kafkawire.messages.leader_change_message import LeaderChangeMessage
from kafkawire.metadata_log import Transactions, metadata_bytes
from wirebroker.core.names import topic_name_error
from wirebroker.storage import files
from wirebroker.storage.notes import note
from wirebroker.storage.recovery import cut_of

RECORDS_PER_BATCH = 5000
LEADER_CHANGE = bytes([0, 0, 0, 2])
"""The key of a control record that begins a leader epoch: the version and the type, both int16 (ControlRecordType)."""
SHOWN = 60
"""A message shows at most this many characters of a name."""


LAST_EPOCH = 2**31 - 1_000_000
LAST_PRODUCER_ID = 2**63 - 1_000_000
"""The largest leader epoch and the largest producer id that a start accepts in the metadata. After such a start, the broker can
still raise both numbers a million times.
"""
FOLDERS_MADE = 100_000
"""A start creates at most this many missing partition folders."""
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[1-9]|lpt[1-9])\.")


def check_image(image: Image, path: Path) -> None:
    """Raises DamagedFile if the image has topics that no Kafka could have written. A start needs this check, because it creates
    folders with the topics' names, and loops over the partitions.
    """
    names = set()
    for topic in image.topics.values():
        why = _name_error(topic.name) or ("Two topics have this name" if topic.name in names else "")
        names.add(topic.name)
        if why:
            raise DamagedFile(path, f"a topic is named {_short(topic.name)}. {why}")
        indexes = topic.partitions
        if min(indexes, default=0) < 0 or max(indexes, default=-1) + 1 != len(indexes):
            some = ", ".join(map(str, sorted(indexes)[:10]))
            raise DamagedFile(path, f"topic {topic.name} has the partitions {some}; the numbers must begin at 0 without gaps")
        if any(not 0 <= each.leader_epoch <= LAST_EPOCH for each in indexes.values()):
            raise DamagedFile(path, f"topic {topic.name} has a leader epoch that is not a number from 0 to {LAST_EPOCH}")
    if not 0 <= image.next_producer_id <= LAST_PRODUCER_ID:
        raise DamagedFile(path, f"the next producer id is {image.next_producer_id}; it must be from 0 to {LAST_PRODUCER_ID}")


def _name_error(name: str) -> str:
    """Returns the reason why no topic can have this name, or "" if the name is valid."""
    if name == METADATA_TOPIC:
        return "The metadata log uses the folder of this name"
    if os.name == "nt" and _RESERVED.match(name):
        return "Windows has a device of that name"
    return "" if topic_name_error(name) is None else "Names have 1 to 249 ASCII letters, digits, '.', '_' and '-'"


def _short(name: str) -> str:
    return ascii(name if len(name) < SHOWN else f"{name[:SHOWN]}…")


class MetadataLog:
    """Reads the metadata log into an image of the cluster, and appends records that change the image."""

    def __init__(self, root: Path, reached: int = 0, *, clean: bool = False) -> None:
        """Read the log. `reached` is the log's end offset in the checkpoint. `clean` tells whether the broker stopped cleanly
        at this offset.

        Raises DamagedFile.
        """
        self.folder = root / METADATA_FOLDER
        self._clean = clean
        self.image = Image()
        self.end_offset = 0
        self.leader_epoch = 0
        self._reached = self.synced_offset = reached
        """All records before this offset are synced."""
        self._base = 0
        self._size = 0
        """The size of the file to which the broker appends."""
        self._fd = -1
        if self.folder.is_dir():
            self._read()
        self.exists = self.end_offset > 0 or (self.folder / PARTITION_METADATA).exists()
        """Tells whether the directory has metadata or once had it."""

    @property
    def is_lost(self) -> bool:
        """Tells whether metadata is missing. Returns False for an empty metadata folder, because the user empties the folder to
        accept the loss."""
        has_folder = self.folder.is_dir()
        if has_folder and not any(self.folder.iterdir()):
            return False
        return self.end_offset < self._reached or (self.exists and not self.end_offset)

    @property
    def path(self) -> Path:
        """The file to which the broker appends."""
        return self.folder / file_name(self._base, LOG)

    def _read(self) -> None:
        """Replay the newest snapshot and the segments after it. Raises DamagedFile."""
        since, snapshot, segments = metadata_files(self.folder)
        if snapshot is not None:
            self._replay(snapshot, 0, followed=True)
            self.end_offset = since
        for segment in segments:
            self._replay(segment, since, followed=segment is not segments[-1])
        self._base = offset_of(segments[-1].path.name, LOG) or 0 if segments else self.end_offset

    def _replay(self, walk: Walk, since: int, *, followed: bool) -> None:
        for header in replay(walk, self.image, Transactions(), since):
            self.leader_epoch = max(self.leader_epoch, header.partition_leader_epoch)
            self.end_offset = max(self.end_offset, header.last_offset + 1)
        if walk.damage is not None:
            torn = cut_of(walk, walk.damage, followed=followed, clean=self._clean)
            files.cut(walk.path, walk.position)
            note(torn)

    def create(self) -> None:
        """Open the log for writing; create it if it is missing."""
        files.make_folder(self.folder)
        self._size = self.path.stat().st_size if self.path.exists() else 0
        self._open()

    def _open(self) -> None:
        if self._fd < 0:
            self._fd = files.open_to_append_at(self.path, self._size)

    def begun(self) -> bool:
        """At the directory's first start, sync the log and return True; at later starts, return False. After the first start
        the log is never empty, so a later start that finds an empty log has lost records.
        """
        if not self.exists:
            files.replace(self.folder / PARTITION_METADATA, partition_metadata_text(METADATA_TOPIC_ID).encode())
            files.sync(self.folder)
            files.sync(self.folder.parent)
            files.sync(self.path)
            self.synced_offset = self.end_offset
        existed, self.exists = self.exists, True
        return not existed

    def begin_epoch(self, message: LeaderChangeMessage, version: int, now: int) -> None:
        """Begin the next leader epoch with this message in a control record. If this raises an exception, nothing has
        changed.
        """
        self.leader_epoch += 1
        try:
            self._append_all([Record(0, 0, LEADER_CHANGE, encode(message, version))], now, control=True)
        except BaseException:
            self.leader_epoch -= 1
            raise

    def append(self, records: Iterator[tuple[Message, int]], now: int) -> None:
        """Append these records, each with its version. If this raises an exception, nothing was appended."""
        self._append_all([Record(0, 0, None, metadata_bytes(record, version)) for record, version in records], now)

    def _append_all(self, records: Sequence[Record], now: int, *, control: bool = False) -> None:
        before = self._size, self.end_offset
        try:
            self._append(records, now, control=control)
        except BaseException:
            self._size, self.end_offset = before
            self.release()
            with suppress(OSError):  # the next append tries to cut the file again
                self._open()
            raise

    def _append(self, records: Sequence[Record], now: int, *, control: bool) -> None:
        if records:
            self._open()
        for start in range(0, len(records), RECORDS_PER_BATCH):
            some = records[start : start + RECORDS_PER_BATCH]
            batch = build_batch(
                [each._replace(offset_delta=number) for number, each in enumerate(some)], base_offset=self.end_offset,
                leader_epoch=self.leader_epoch, base_timestamp=now, control=control,
            )  # fmt: skip
            files.append(self._fd, [batch], len(batch))
            self._size += len(batch)
            self.end_offset = read_header(batch).last_offset + 1

    def close(self) -> None:
        """Sync and close the file. Raises OSError."""
        self._open()
        files.sync(self.path)
        self.synced_offset = self.end_offset
        self.release()

    def release(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
