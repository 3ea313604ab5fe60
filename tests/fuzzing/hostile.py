"""Data directories made by an attacker, with links, pipes, odd names and sizes, and valid batches with odd records.

A broker may serve such a directory, or refuse it with a message. It must not hang, and must not read or change anything outside
the directory. The test checks that everything outside the directory is unchanged. An audit hook of Python reports each file and
folder that the broker opens or changes.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from damagekit import Hang, limited, make, scratch_folder
from fuzzing.cases import Outcome
from fuzzing.script import Finding, Script, Setting
from hostilekit import start, with_records, with_values
from kafkawire.coordinator_log import CoordinatorRecord
from kafkawire.coordinator_records import GROUP_RECORDS, TRANSACTION_RECORDS
from kafkawire.disk.checkpoints import RECOVERY_POINTS
from kafkawire.errors import WireError
from kafkawire.metadata_log import _record_class
from kafkawire.metadata_records import METADATA_RECORDS
from kafkawire.metadata_records.partition_record import PartitionRecord
from kafkawire.metadata_records.topic_record import TopicRecord
from wire.random_messages import Maker, versions_of

HANGS_AFTER = 20.0
LONGEST_SENTENCE = 2000
"""The largest length of a message that refuses a directory, in characters. The directory's path does not count."""
NAMES = (
    "../../pwned", "../up", "/tmp/wirebroker-pwned", "a/b", "a\\b", "a\0b", ".", "..", "", "x" * 250, "y" * 10_000,
    "\x1b[31mred", "orders", "new", "größe", "\u202egpj.exe", "nul.x", "CON", "a\nb", "__cluster_metadata",
    "__consumer_offsets", "orders-0", "1", "-1", "9" * 30, "consumer.session.timeout.ms", "log.dirs",
    "ssl.keystore.location", "producer_byte_rate", "user", "metadata.version",
)  # fmt: skip
FILES = (
    "orders-0", "new-0", "..-0", "a\nb-0", "\x1b-0", "nul.x-0", "x-99999999999999999999", "orders-00",
    f"orders-0.{'a' * 32}-delete", f"orders-0.{'a' * 32}-future", f"..-0.{'b' * 32}-future", "node-1", "node-2",
    "meta.properties.tmp", f"{RECOVERY_POINTS}.tmp", "cleaner-offset-checkpoint.tmp", "lost+found",
    "orders-0/99999999999999999999.log", "orders-0/09223372036854775807.log", "orders-0/00000000000000000000.log.swap",
    "orders-0/00000000000000000000.log.cleaned", "orders-0/x.deleted", "orders-0/leader-epoch-checkpoint.tmp",
    "__cluster_metadata-0/99999999999999999999-0000000001.checkpoint",
    "__cluster_metadata-0/00000000000000000009-0000000001.checkpoint", "orders-0/" + "z" * 255,
)  # fmt: skip
TEXTS = (
    "0\n1\norders 0 99999999999999999999\n", "0\n1\n../../x 0 7\n", "0\n99999999\n", "0\n1\n9999999999 1\n",
    "version=1\nnode.id=1\ncluster.id=\x1b[2J\n", f"version=1\nnode.id={'9' * 5000}\n",
    "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n", "\0" * 100,
)  # fmt: skip
SIZES = (1 << 40, 1 << 32, (1 << 31) - 1, 1 << 28)
IDS = (bytes(16), b"\7" * 16, bytes(15) + b"\1")


class Stranger(Maker):
    """Makes records with normal or with odd values."""

    def primitive(self, spec: str) -> Any:
        if spec == "string":
            return self.random.choice(NAMES)
        if spec == "uuid":
            return self.random.choice(IDS)
        if spec in ("int8", "int16", "int32", "int64") and self.random.random() < 0.6:
            return self.random.choice((0, 1, 1, 2, 4, 32))
        return super().primitive(spec)


class HostileCase:
    """Makes a data directory, makes one to three odd changes of these kinds to it, and starts a broker on it."""

    def __init__(self, seed: int, kinds: Sequence[Callable[[HostileCase], None]] = ()) -> None:
        self.kinds = kinds or STRANGE
        self.random = Random(f"hostile-{seed}")
        self.maker = Stranger(f"hostile-{seed}")
        self.did: list[str] = []

    def run(self) -> Outcome:
        """Makes the directory, starts a broker on it, and checks that everything outside the directory is unchanged."""
        begun = time.process_time()
        with tempfile.TemporaryDirectory(dir=scratch_folder()) as name:
            place = Path(name).resolve()
            finding = self._run(place)
            _make_removable(place)
        took = time.process_time() - begun
        return Outcome(Script(Setting(0), ()), finding, 1, 1, took, "; ".join(self.did))

    def _run(self, place: Path) -> Finding | None:
        self.data, self.outside = place / "data", place / "outside"
        shutil.copytree(Path(_template().name) / self.random.choice(("clean", "kill")), self.data)
        self.outside.mkdir()
        (self.outside / "precious").write_bytes(b"precious\n" * 20)
        (self.outside / "folder-0").mkdir()
        shutil.copytree(self.data / "orders-0", self.outside / "orders-0")
        for _ in range(self.random.randint(1, 3)):
            with suppress(OSError, WireError):  # an earlier change may prevent this change
                self.random.choice(self.kinds)(self)
        before, touched = _seen(place), set[str]()
        try:
            with limited(HANGS_AFTER), watched(self.data, touched):
                said = start(self.data)
        except Hang as hangs:
            return self._found("a start hangs", "".join(traceback.format_tb(hangs.__traceback__)[-3:]))
        except Exception as wrong:
            frame = traceback.extract_tb(wrong.__traceback__)[-1]
            return self._found(f"{type(wrong).__name__} at {Path(frame.filename).name}:{frame.lineno}", traceback.format_exc())
        if "precious" in said.replace(str(place), ""):
            return self._found("outside is read", said)
        if touched:
            return self._found("outside is touched", ", ".join(sorted(touched)))
        if (after := _seen(place)) != before:
            return self._found("outside is changed", str(set(after.items()) ^ set(before.items())))
        if said and (not said.isprintable() or len(said.replace(str(place), "")) > LONGEST_SENTENCE):
            return self._found("not a sentence", ascii(said[:1000]))
        return None

    def _found(self, kind: str, text: str) -> Finding:
        return Finding(kind, f"{'; '.join(self.did)}\n{text}")

    # Hostile changes

    def _plain(self) -> Path:
        """Chooses a file in the directory, or an unused path. Raises OSError."""
        return _plain(self._file())

    def _file(self) -> Path:
        """Chooses a file or folder in the directory. It either exists, or a broker could create it."""
        there = sorted(str(path.relative_to(self.data)) for path in self.data.rglob("*"))
        return self.data / self.random.choice((*there, *FILES))

    def link(self) -> None:
        """Replaces a file or folder by a link, a pipe or a socket."""
        path, kind = self._file(), self.random.choice(tuple(KINDS))
        self.did.append(f"{kind} at {path.relative_to(self.data)}")
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        KINDS[kind](path, self.outside / self.random.choice(("precious", "folder-0", "orders-0", "made")))

    def name(self) -> None:
        """Makes a file or folder with an odd name."""
        path = self._file()
        self.did.append(f"made {path.relative_to(self.data)}")
        if self.random.random() < 0.5:
            path.mkdir()
        else:
            path.write_bytes(self.random.randbytes(self.random.choice((0, 10, 200))))

    def size(self) -> None:
        """Makes a file large, but sparse, so that it takes little disk space."""
        path, size = self._plain(), self.random.choice(SIZES)
        self.did.append(f"{path.relative_to(self.data)} has {size} bytes")
        with path.open("ab") as file:
            file.truncate(size)

    def text(self) -> None:
        """Changes the content of a checkpoint or another small file."""
        path, text = self._plain(), self.random.choice(TEXTS)
        self.did.append(f"{path.relative_to(self.data)} is {text[:60]!a}")
        path.write_text(text)

    def metadata(self) -> None:
        """Adds odd records to the metadata log."""
        records: list[Any] = []
        if self.random.random() < 0.5:
            records.append(TopicRecord(name=self.random.choice(NAMES), topic_id=IDS[1]))
            for index in range(self.random.randint(1, 3)):
                each = self.maker.message(PartitionRecord, 1)
                each.topic_id = IDS[1]
                if self.random.random() < 0.8:
                    each.partition_id, each.replicas, each.isr, each.leader, each.leader_epoch = index, [1], [1], 1, 0
                records.append(each)
        for _ in range(self.random.randint(0 if records else 1, 3)):
            cls = _record_class("metadata_records", *METADATA_RECORDS[self.random.choice(tuple(METADATA_RECORDS))])
            records.append(self.maker.message(cls, versions_of(cls)[-1]))
        self.did.append(f"records {records}"[:3000])
        _plain(self.data / "__cluster_metadata-0" / f"{0:020d}.log")
        with_records(self.data, records)

    def coordinator(self) -> None:
        """Adds odd records to a coordinator's log."""
        kinds, topic = self.random.choice(((GROUP_RECORDS, "__consumer_offsets"), (TRANSACTION_RECORDS, "__transaction_state")))
        module_name, name = kinds[self.random.choice(tuple(kinds))]
        module = import_module(f"kafkawire.coordinator_records.{module_name}")
        key, value = getattr(module, f"{name}Key"), getattr(module, f"{name}Value")
        version = self.random.choice(versions_of(value))
        record = CoordinatorRecord(self.maker.message(key, 0), self.maker.message(value, version), version)
        keyed, valued = record.encode()
        if self.random.random() < 0.3:
            valued = self.random.randbytes(20)
        self.did.append(f"{topic} has {record}"[:3000])
        log = self.random.choice(sorted(self.data.glob(f"{topic}-*/*.log")) or [self.data])
        with_values(_plain(log), [valued or b""], [keyed])
        (self.data / RECOVERY_POINTS).unlink(missing_ok=True)


STRANGE: tuple[Callable[[HostileCase], None], ...] = (
    HostileCase.link, HostileCase.link, HostileCase.name, HostileCase.size, HostileCase.text, HostileCase.metadata,
    HostileCase.metadata, HostileCase.coordinator,
)  # fmt: skip


def _plain(path: Path) -> Path:
    """Returns the path if it is a file or does not exist. Raises OSError."""
    if path.is_symlink() or (path.exists() and (not path.is_file() or path.stat().st_size > 1 << 20)):
        raise FileExistsError(str(path))
    return path


def _socket(path: Path, target: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound, suppress(OSError):  # the path may be too long
        bound.bind(str(path))


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "a symbolic link": lambda path, target: path.symlink_to(target),
    "a link within": lambda path, target: path.symlink_to("meta.properties"),
    "a link to itself": lambda path, target: path.symlink_to(path.name),
    "a hard link": lambda path, target: os.link(target, path) if target.is_file() else path.symlink_to(target),
    "a pipe": lambda path, target: os.mkfifo(path),
    "a socket": _socket,
}


@cache
def _template() -> tempfile.TemporaryDirectory[str]:
    """Returns a folder with two data directories of a broker that used every feature: one after a clean stop, one after a kill.

    Python removes the folder when it exits.
    """
    made = tempfile.TemporaryDirectory(dir=scratch_folder())
    make(Path(made.name), 1)
    return made


def _seen(place: Path) -> dict[str, tuple[int, ...] | bytes | str]:
    """Returns the names in `place`, and the state of everything outside the data directory."""
    seen: dict[str, tuple[int, ...] | bytes | str] = dict.fromkeys(os.listdir(place), "")
    for path in (place / "outside", *(place / "outside").rglob("*")):
        found = path.lstat()
        seen[str(path)] = found.st_mode, found.st_nlink, found.st_mtime_ns, found.st_size
    return seen


def _make_removable(place: Path) -> None:
    for path in place.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)


# Touched files

_watching: list[Callable[[str, tuple[Any, ...]], None]] = []
_CHANGES = frozenset(
    {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.utime", "os.link", "os.symlink"}
)


@cache
def _hooked() -> None:
    sys.addaudithook(lambda event, given: _watching[-1](event, given) if _watching else None)


@contextmanager
def watched(data: Path, touched: set[str]) -> Iterator[None]:
    """Collect the paths outside the directory that are opened, created, renamed or removed, including paths reached through
    links.

    Files of Python and of this package are not collected, because imports open them.
    """
    own = tuple(str(Path(each).resolve()) for each in {*sys.path, sys.prefix, sys.base_prefix} if each)

    def see(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], (str, bytes)):
            follows = not given[2] & getattr(os, "O_NOFOLLOW", 0)
            paths = [(os.fsdecode(given[0]), follows)]
        elif event in _CHANGES:
            paths = [(os.fsdecode(each), False) for each in given if isinstance(each, (str, bytes, os.PathLike))]
        elif event in ("os.listdir", "os.scandir") and isinstance(given[0], (str, bytes, os.PathLike)):
            paths = [(os.fsdecode(given[0]), True)]
        else:
            return
        for path, followed in paths:
            folder, name = os.path.split(path)
            real = os.path.realpath(path) if followed else os.path.join(os.path.realpath(folder), name)
            if not real.startswith(f"{data}{os.sep}") and real != str(data) and not real.startswith((*own, "/dev/", "/proc/")):
                touched.add(f"{event} {path}")

    _hooked()
    _watching.append(see)
    try:
        yield
    finally:
        _watching.pop()
