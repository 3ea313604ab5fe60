"""The log directories of brokers: their locks, `meta.properties`, checkpoints, and partition folders."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kafkawire.disk.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Offsets,
    clean_shutdown_text,
    offsets_text,
    read_offsets,
)
from kafkawire.disk.damage import DamagedFile, DataError
from kafkawire.disk.metadata import UNASSIGNED
from kafkawire.disk.names import METADATA_FOLDER, future_of, is_deleted_folder, partition_of
from kafkawire.disk.opening import unplain
from kafkawire.disk.properties import CLUSTER_ID, META_PROPERTIES, properties_text, read_properties, two_clusters
from kafkawire.disk.walking import ANYWHERE
from kafkawire.primitives import format_uuid, new_uuid, parse_uuid
from wirebroker.core.cluster import SHARED_CLUSTER_ID
from wirebroker.core.names import topic_name_error
from wirebroker.storage import files
from wirebroker.storage.locking import LOCK, SECOND_LOCK, DirectoryLock
from wirebroker.storage.metadata import MetadataLog
from wirebroker.storage.notes import note
from wirebroker.storage.recovery import Known

METADATA = "__cluster_metadata", 0
NOT_DATA = frozenset({LOCK, SECOND_LOCK, META_PROPERTIES + ".tmp", "lost+found"})
"""A directory without data may contain these files. They come from the file system, or from a first start that was killed."""
DIGITS = 10
"""The largest number of digits in a broker's id."""


def make_root(root: Path) -> None:
    """Create a log directory that the user has named, and its missing parent folders. Raises DataError."""
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise _unwritable(root, refused) from None


def _locked(root: Path) -> DirectoryLock:
    try:
        return DirectoryLock(root)
    except DataError:
        raise
    except OSError as refused:
        raise _unwritable(root, refused) from None


def _unwritable(root: Path, refused: OSError) -> DataError:
    return DataError(f"{root} cannot be written to: {refused.strerror}")


def check_entries(root: Path) -> None:
    """Raises DamagedFile unless the directory and the partitions' folders contain only folders and plain files.

    The directory may come from an untrusted person. If the broker wrote to a link, it could change files elsewhere. If the
    broker read from a pipe, it would wait forever.
    """
    with os.scandir(root) as entries:
        for entry in entries:
            if _is_folder(entry) and "-" in entry.name:  # a partition's folder, also of a deleted or moving partition
                with os.scandir(entry.path) as held:
                    for each in held:
                        _is_folder(each)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Returns True if the entry is a folder, False if it is a plain file. Raises DamagedFile for any other entry, and for a
    hard-linked file.
    """
    found = os.lstat(entry.path) if os.name == "nt" else entry.stat(follow_symlinks=False)  # no st_nlink in DirEntry
    if stat.S_ISREG(found.st_mode):
        if found.st_nlink > 1:
            raise files.shared(Path(entry.path))
        return False
    if not stat.S_ISDIR(found.st_mode):
        raise unplain(Path(entry.path), found.st_mode)
    if getattr(found, "st_reparse_tag", 0) == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1):
        raise unplain(Path(entry.path), stat.S_IFLNK)
    return True


def _positive(offsets: Offsets) -> Offsets:
    return {where: offset for where, offset in offsets.items() if offset > 0}


class LogDirectory:
    """A log directory of the broker `node_id`. A new directory gets the cluster id `cluster_id`."""

    def __init__(self, root: Path, node_id: int, cluster_id: str, random_bytes: Callable[[int], bytes]) -> None:
        """Open and lock the directory. Raises DataError, for example if the directory contains files that do not belong to a
        broker.
        """
        self.root = root
        self.path = os.fsencode(os.path.realpath(root)).decode(errors="replace")
        """The directory's path in responses to clients. The path itself may contain bytes that are not UTF-8."""
        self.node_id = node_id
        self.latest_epochs: dict[tuple[str, int], int] = {}
        """The leader epoch of each partition, from the metadata; needed only during the start."""
        make_root(root)
        self._lock = _locked(root)
        try:
            check_entries(root)
            self._identify(cluster_id, random_bytes)
            self.read_checkpoints()
        except BaseException:
            self._lock.release()
            raise

    def _identify(self, cluster_id: str, random_bytes: Callable[[int], bytes]) -> None:
        path = self.root / META_PROPERTIES
        if path.exists():
            properties = read_properties(path)
            self.cluster_id = properties.get(CLUSTER_ID, SHARED_CLUSTER_ID)
            self.stored_node_id = self._number(path, properties)
            self.id = self._id(path, properties)
            version = properties.get("version")
            if version not in ("0", "1"):
                raise DamagedFile(path, f"its version is {version!r}, but only 0 and 1 are known. Restore the file from a copy")
            return
        others = sorted(each.name for each in self.root.iterdir() if each.name not in NOT_DATA)
        if others:
            raise DataError(
                f"{self.root} is not a data directory of Kafka: it has no {META_PROPERTIES}, but {others[0]!r}; "
                "give the name of an empty or a new directory"
            )
        self.cluster_id, self.stored_node_id, self.id = cluster_id, self.node_id, new_uuid(random_bytes)
        made = {
            "node.id": str(self.node_id),
            "directory.id": format_uuid(self.id),
            CLUSTER_ID: cluster_id,
            "version": "1",  # the last line, so a truncated file has no version
        }
        files.replace(path, properties_text(made).encode())
        files.sync(self.root)

    def _number(self, path: Path, properties: dict[str, str]) -> int:
        """Returns the broker's id. Kafka 3 calls the id `broker.id` instead of `node.id`."""
        text = properties.get("node.id", properties.get("broker.id", ""))
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
            raise DamagedFile(
                path, f"the node id is {text!r}, not a number of 1 to {DIGITS} digits" if text else "it has no node id"
            )
        return int(text)

    @staticmethod
    def _id(path: Path, properties: dict[str, str]) -> bytes:
        """Returns the directory's id. Kafka before 3.7 did not write this id."""
        try:
            return parse_uuid(properties["directory.id"]) if "directory.id" in properties else UNASSIGNED
        except ValueError:
            raise DamagedFile(path, f"the directory id {properties['directory.id']!r} is not a UUID in Kafka's form") from None

    # Checkpoints

    def read_checkpoints(self) -> None:
        """Read the checkpoints. Raises DamagedFile."""
        self._written: dict[str, Offsets] = {}
        """The contents of the checkpoints that were written since the start."""
        self.clean = (self.root / CLEAN_SHUTDOWN).exists()
        self._recovery_points, self._is_signed = read_offsets(self.root / RECOVERY_POINTS)
        self._log_starts, self._has_starts = read_offsets(self.root / LOG_STARTS)
        self.cleaned, self._knows_cleaned = read_offsets(self.root / CLEANED)
        if self._is_signed and not self._has_starts and not self._log_starts:
            self._miss(self.root / LOG_STARTS)

    def _miss(self, path: Path) -> None:
        """Handle an empty checkpoint of log start offsets. If a power cut may have emptied the file, log this; otherwise raise
        DamagedFile.
        """
        if self.clean or not path.exists():
            raise DamagedFile(
                path,
                f"it is empty, although the broker has written to it. Restore the file from a copy. To start without it, "
                f"and to serve deleted records again, remove {self.root / RECOVERY_POINTS}",
            )
        note(f"{path}: it is empty, probably because of a power cut; deleted records may be served again")

    def known_of(self, where: tuple[str, int]) -> Known:
        """Returns what the checkpoints contain about a partition."""
        return Known(
            self.clean,
            self._recovery_points.get(where),
            self._log_starts.get(where, 0),
            starts_there=self.clean and self._has_starts,
            gaps_below=self.cleaned.get(where, 0) if self._knows_cleaned else ANYWHERE,
            latest_epoch=self.latest_epochs.get(where),
        )

    @property
    def is_whole(self) -> bool:
        """Tells whether wirebroker wrote the checkpoints. If so, the folders of all partitions must exist. In a copy of a real
        Kafka's directory, folders may be missing.
        """
        return self._is_signed

    @property
    def metadata_end(self) -> int:
        """The offset up to which the metadata log is synced, or 0 if the checkpoint does not contain that offset."""
        return self._recovery_points.get(METADATA, 0)

    def forget(self, where: tuple[str, int]) -> None:
        """Remove a deleted partition from the checkpoints, because a new partition with the same name begins at offset 0.
        Raises OSError."""
        self.lower_start(where, 0)
        for offsets in (self._recovery_points, self._log_starts, self.cleaned):
            offsets.pop(where, None)

    def lower_start(self, where: tuple[str, int], offset: int) -> None:
        """If the checkpoint says that the partition's log starts after `offset`, write immediately that it starts at `offset`.
        Raises OSError."""
        if self._log_starts.get(where, 0) > offset:
            self._write(LOG_STARTS, _positive(self._log_starts | {where: offset}))
            self._log_starts[where] = offset

    def checkpoint(
        self, recovery_points: Offsets, log_starts: Offsets, high_watermarks: Offsets | None, *, durable: bool = False,
        whole: bool = False,
    ) -> bool:  # fmt: skip
        """Write the checkpoints that have changed. With `durable` or `whole`, write all checkpoints. Returns True if any
        checkpoint was written. If `high_watermarks` is None, the checkpoint of the high watermarks stays unchanged. Partitions
        that are not served keep their entries.
        """
        all_of_them, changed = durable or whole, False
        self._recovery_points |= recovery_points
        self._log_starts |= log_starts
        for name, offsets in (
            (LOG_STARTS, _positive(self._log_starts)),
            (HIGH_WATERMARKS, high_watermarks),
            (CLEANED, self.cleaned),
            (RECOVERY_POINTS, self._recovery_points),  # written last: if this file has a CRC, all files have one
        ):
            if offsets is not None and (all_of_them or offsets != self._written.get(name)):
                self._write(name, offsets, durable=durable)
                changed = True
        return changed

    def _write(self, name: str, offsets: Offsets, *, durable: bool = False) -> None:
        self._written.pop(name, None)
        files.replace(self.root / name, offsets_text(name, offsets).encode(), durable=durable)
        self._written[name] = dict(offsets)

    def adopt(self, where: tuple[str, int], source: LogDirectory, recovery_point: int, log_start: int) -> None:
        """Copy a moving partition's entries from the checkpoints of its old directory to the checkpoints of this directory."""
        self.forget(where)
        if where in source.cleaned:
            self.cleaned[where] = source.cleaned[where]
        self.checkpoint({where: recovery_point}, {where: log_start}, None, durable=True)

    def set_cleaned(self, where: tuple[str, int], offset: int) -> None:
        """Write to the checkpoint immediately that a partition is compacted up to `offset`."""
        self.cleaned[where] = offset
        self._write(CLEANED, self.cleaned)

    def cut(self, where: tuple[str, int], offset: int) -> None:
        """A partition's log was cut at `offset`. If the checkpoint has a later recovery point, replace this point immediately,
        because new batches before it are not synced (LogManager.truncateTo)."""
        if self._recovery_points.get(where, 0) > offset:
            self.checkpoint({where: offset}, {}, None)

    def opened(self) -> None:
        """Mark the directory as in use: unless the broker later stops cleanly, the next start recovers the directory's logs."""
        (self.root / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        self.clean = False

    def closed(self) -> None:
        """Mark the directory as cleanly closed. Call this after everything has been written."""
        files.replace(self.root / CLEAN_SHUTDOWN, clean_shutdown_text().encode())
        files.sync(self.root)

    def release(self) -> None:
        self._lock.release()

    # Folders

    def partitions(self) -> Iterable[tuple[tuple[str, int], Path]]:
        """Yields the folders of all partitions, including partitions that the metadata does not name."""
        for path in sorted(self.root.iterdir()):
            where = partition_of(path.name)
            if where is None or path.name == METADATA_FOLDER or path.name.endswith(("-delete", "-stray")):
                continue
            if topic_name_error(where[0]) is not None:
                continue  # another program has created this folder
            if path.is_dir():
                yield where, path

    def futures(self) -> list[tuple[tuple[str, int], Path]]:
        """Returns the folders of partitions that were moving to this directory when the broker stopped."""
        found = [(future_of(path.name), path) for path in sorted(self.root.iterdir()) if path.is_dir()]
        return [(where, path) for where, path in found if where is not None]

    def remove_deleted(self) -> None:
        """Remove the folders of deleted topics."""
        for path in list(self.root.iterdir()):
            if is_deleted_folder(path.name) and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)


class LogDirectories:
    """The log directories of all brokers of a cluster. The first directory also has the cluster's metadata."""

    def __init__(self, roots: Sequence[Path], nodes: Sequence[int], random_bytes: Callable[[int], bytes]) -> None:
        """Open and lock the directories. Each broker has one log directory in each of the `roots`. Raises DataError,
        OSError.
        """
        self.roots = roots
        self.cluster_id = self._stored_cluster_id() or format_uuid(new_uuid(random_bytes))
        self.of: dict[int, list[LogDirectory]] = {}
        """The log directories of each broker."""
        self.metadata: MetadataLog
        try:
            self._open(nodes, random_bytes)
        except BaseException:
            self.release()
            raise

    def _open(self, nodes: Sequence[int], random_bytes: Callable[[int], bytes]) -> None:
        root, brokers = self.roots[0], len(nodes)
        found = len([path for path in root.glob("node-*") if (path / META_PROPERTIES).exists()])
        for each in self.roots:
            if brokers > 1 and (each / META_PROPERTIES).exists():
                raise DataError(f"{each} has the data of one broker; start it with --brokers 1")
        for number, node_id in enumerate(nodes, 1):
            # If a broker's directory is missing but no topic exists yet, the first start was killed before it had made all
            # directories.
            if found > brokers or (0 < found < number and self.metadata.image.topics):
                raise DataError(f"{root} has the data of {found} brokers; start it with --brokers {found}")
            held = self.of[node_id] = []
            for each in self.roots:
                place = each
                if brokers > 1:
                    place = each / f"node-{number}"
                    make_root(each)
                    files.make_folder(place)
                held.append(LogDirectory(place, node_id, self.cluster_id, random_bytes))
                if place is held[0].root and number == 1:
                    self.metadata = MetadataLog(place, held[0].metadata_end, clean=held[0].clean)
                else:
                    self._check(held[-1], held[0])

    def _stored_cluster_id(self) -> str | None:
        """Returns the cluster's id from the first directory that has one, or None if all directories are new."""
        for root in self.roots:
            for place in (root, *sorted(root.glob("node-*"))):
                with suppress(OSError):  # DamagedFile is an OSError, and is raised again when the directory is opened
                    return read_properties(place / META_PROPERTIES).get(CLUSTER_ID, SHARED_CLUSTER_ID)
        return None

    def _check(self, directory: LogDirectory, first: LogDirectory) -> None:
        """Raises DataError if this log directory cannot belong to the broker of the directory `first`."""
        if sentence := two_clusters(((self.roots[0], self.cluster_id), (directory.root, directory.cluster_id))):
            raise DataError(sentence)
        if directory.stored_node_id != first.stored_node_id:
            nodes = directory.stored_node_id, first.stored_node_id
            raise DataError(
                f"{directory.root} has the data of broker {nodes[0]}, but {first.root} has data of broker {nodes[1]}"
            )
        if len(self.roots) > 1 and directory is not first and (directory.root / METADATA_FOLDER).exists():
            raise DataError(f"{directory.root} holds the metadata; name it before {first.root}")

    def __iter__(self) -> Iterator[LogDirectory]:
        for held in self.of.values():
            yield from held

    def at(self, node_id: int, path: str) -> LogDirectory:
        """Returns the broker's log directory that responses name by the path `path`."""
        return next(each for each in self.of[node_id] if each.path == path)

    @property
    def paths(self) -> dict[int, list[str]]:
        """For each broker, the paths by which responses name its log directories."""
        return {node_id: [directory.path for directory in held] for node_id, held in self.of.items()}

    @property
    def first_node(self) -> int:
        """The smallest broker id. The broker with this id writes the metadata."""
        return min(self.of)

    def partitions(self) -> Iterator[tuple[LogDirectory, tuple[str, int], Path]]:
        """Yields the folders of all partitions, including partitions that the metadata does not name."""
        for directory in self:
            for where, path in directory.partitions():
                yield directory, where, path

    def release(self) -> None:
        for directory in self:
            directory.release()
