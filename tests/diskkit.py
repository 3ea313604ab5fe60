"""A disk on which a chosen write or sync fails, and a broker that uses this disk and has neither sockets nor threads."""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkawire.declare import Message
from kafkawire.frames import decode_response, encode_request
from wirebroker.core.producers import open_since
from wirebroker.engine.engine import Engine
from wirebroker.requests.connection import CLOSED
from wirebroker.requests.effects import Close, Effect, Respond
from wirebroker.storage import files
from wirebroker.storage.store import FolderStore
from wirebroker.storage.upkeep import Job

START = 1_800_000_000_000
SETTINGS = {
    "offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1",
    "log.roll.ms": "1000",
    "group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0",
    "log.cleaner.backoff.ms": "2147483647",
}  # fmt: skip
WRITES = frozenset({"write", "writev"})
NEEDS_ROOM = frozenset({"create", "mkdir", *WRITES})
"""The calls that fail on a full disk."""


class Failure(NamedTuple):
    """Says which call fails, and how. With `short`, half of the data is written before the failure. With `stays`, all later
    calls that need disk space fail, too.
    """

    number: int
    code: int = errno.ENOSPC
    short: bool = False
    stays: bool = False


class Disk:
    """Intercepts the system calls of the broker for all files below one folder. Calls are counted from 0."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = str(root)
        self.calls: list[str] = []
        self.failure: Failure | None = None
        self.failed = 0
        self._descriptors: set[int] = set()
        self._synced: dict[int, int] = {}
        """For each synced file, by inode: the number of bytes that it had at the last sync."""
        self._rest_fails = False
        for name in ("fsync", "fdatasync", "ftruncate"):
            self._patch_descriptor(monkeypatch, name)
        for name in ("rename", "replace", "unlink", "remove", "mkdir", "rmdir"):
            self._patch_path(monkeypatch, name)
        self._patch_writing(monkeypatch)
        self._patch_opening(monkeypatch)

    def repair(self) -> None:
        """Ends the failure, so that later calls succeed."""
        self.failure, self._rest_fails = None, False

    def synced(self, path: Path) -> int:
        """Returns how many bytes of a file would survive a failure of the machine. If the disk has refused to create the file,
        returns 0."""
        return self._synced.get(path.stat().st_ino, 0) if path.exists() else 0

    def _mine(self, path: Any) -> bool:
        return isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(self._root)

    def step(self, kind: str) -> bool:
        """Counts a call. Raises OSError if the call must fail. Returns True if the call must write only half of its
        data (a short write)."""
        number = len(self.calls)
        self.calls.append(kind)
        failure = self.failure
        if failure is None:
            return False
        if self._rest_fails and kind in WRITES:
            self._rest_fails = False
            self._fail(failure)
        if failure.stays and number >= failure.number and kind in NEEDS_ROOM:
            self._fail(failure)
        if number == failure.number and not failure.stays:
            if failure.short and kind in WRITES:
                self._rest_fails = True
                return True
            self._fail(failure)
        return False

    def _fail(self, failure: Failure) -> None:
        self.failed += 1
        raise OSError(failure.code, os.strerror(failure.code))

    def _patch_descriptor(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        real = getattr(os, name)

        def call(fd: int, *rest: Any) -> Any:
            if fd in self._descriptors:
                self.step(name)
                known = os.fstat(fd)
                if name == "ftruncate":
                    self._synced[known.st_ino] = min(self._synced.get(known.st_ino, 0), rest[0])
                else:
                    self._synced[known.st_ino] = known.st_size
                    return None  # tests do not simulate power cuts, so a real sync is not needed
            return real(fd, *rest)

        monkeypatch.setattr(os, name, call)

    def _patch_path(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        real = getattr(os, name)

        def call(path: Any, *rest: Any, **options: Any) -> Any:
            if self._mine(path) or options.get("dir_fd") is not None:
                self.step(name)
            return real(path, *rest, **options)

        monkeypatch.setattr(os, name, call)
        # shutil.rmtree uses a function of `os` only if these sets contain it
        for offered in (os.supports_dir_fd, os.supports_follow_symlinks):
            if real in offered:
                offered.add(call)

    def _patch_writing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write, writev = os.write, os.writev

        def one(fd: int, data: Any) -> int:
            half = fd in self._descriptors and self.step("write")
            return write(fd, memoryview(data)[: max(len(data) // 2, 1)] if half else data)

        def several(fd: int, parts: Any) -> int:
            half = fd in self._descriptors and self.step("writev")
            joined = b"".join(parts)
            return write(fd, joined[: max(len(joined) // 2, 1)]) if half else writev(fd, parts)

        monkeypatch.setattr(os, "write", one)
        monkeypatch.setattr(files, "_write_parts", several)

    def _patch_opening(self, monkeypatch: pytest.MonkeyPatch) -> None:
        opened, closed, plain = os.open, os.close, io.open

        def open_(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            writes = flags & (os.O_WRONLY | os.O_RDWR) and self._mine(path)
            creates = writes and not os.path.exists(path)
            if writes:
                self.step("create" if creates else "open")
            fd = opened(path, flags, *rest, **options)
            if creates:
                self._synced.pop(os.fstat(fd).st_ino, None)
            self._descriptors.discard(fd)
            if self._mine(path):  # a folder is also opened, to sync it
                self._descriptors.add(fd)
            return fd

        def close(fd: int) -> None:
            self._descriptors.discard(fd)
            closed(fd)

        def through(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if not self._mine(path) or not set("wa+") & set(mode):
                return plain(path, mode, *rest, **options)
            assert "b" in mode, "text must be written with wirebroker.storage.files"
            flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if "w" in mode else 0)
            return io.BufferedRandom(Raw(os.open(path, flags, 0o644)), 1024)

        monkeypatch.setattr(os, "open", open_)
        monkeypatch.setattr(os, "close", close)
        monkeypatch.setattr(io, "open", through)


class Raw(io.RawIOBase):
    """A file whose writes go through `os` functions that `Disk` intercepts."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: Any) -> int:
        return os.write(self._fd, data)

    def readinto(self, into: Any) -> int:
        data = os.read(self._fd, len(into))
        into[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return os.lseek(self._fd, offset, whence)

    def truncate(self, size: int | None = None) -> int:
        os.ftruncate(self._fd, size or 0)
        return size or 0

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._fd)


class Broker:
    """An engine with a data directory. It runs storage jobs itself; a real broker runs them in threads (`net.storage_jobs`)."""

    def __init__(self, place: Path, sync: str, now: int) -> None:
        self.now = now
        self.store = FolderStore(place, random.Random(1).randbytes, sync=sync)
        try:
            self.engine = Engine(now, random.Random(2).randbytes, settings=SETTINGS, cold_start=False, store=self.store)
            self._perform()
        except BaseException:
            self.store.abandon()
            raise
        self._connection = self.engine.connect(1)
        self._responses: list[bytes] = []

    def ask(self, request: Message, version: int) -> Any:
        """Sends a request. Returns the response, or None if the broker closed the connection."""
        if self._connection.state is CLOSED:
            self._connection = self.engine.connect(1)
        self._responses = []
        frame = encode_request(7, "disk", request, version)[4:]
        self.engine.receive(self._connection, memoryview(frame), self.now)
        self._perform()
        for _ in range(20):
            if self._connection.parked is None:
                break
            self.passes(1000)
        if not self._responses:
            assert self._connection.state is CLOSED, f"{type(request).__name__} is not answered"
            return None
        return decode_response(self._responses[0], request.__schema__.key, version)[1]

    def passes(self, ms: int) -> None:
        """Let time pass."""
        self.now += ms
        self.engine.tick(self.now)
        self._perform()

    def _perform(self) -> None:
        self.engine.cluster.decisions.write_down(self.now)
        held: list[Effect] = []
        if self.store.holds_responses and (job := self.store.sync_now()) is not None:
            held, self.engine.effects = self.engine.effects, []
            if not _done(job):
                for connection in {effect.connection for effect in held if isinstance(effect, Respond)}:
                    self.engine.close(connection, "it cannot be synced")
                held = []
        for effect in [*held, *self.engine.take_effects()]:
            if not isinstance(effect, Close):
                assert isinstance(effect, Respond)
                self._responses.append(b"".join(effect.parts)[4:])
        while self.store.jobs:
            _done(self.store.jobs.popleft())


def _done(job: Job) -> bool:
    try:
        job.work()
        job.done()
    except OSError:
        job.failed()
        return False
    return True


def kept(engine: Engine) -> dict[str, Any]:
    """Returns the part of a broker's state that clients can have seen. The keys are names such as "topic orders"."""
    cluster, groups = engine.cluster, engine.groups
    found: dict[str, Any] = {}
    for topic in cluster.topics.values():
        if not topic.internal:
            found[f"topic {topic.name}"] = (len(topic.partitions), dict(topic.configs.overrides))
        found[f"open {topic.name}"] = [
            key for partition in topic.partitions for key, state in partition.producers.items() if open_since(state) >= 0
        ]
    for group_id in groups.groups:
        for where, committed in groups.offsets.of(group_id).items():
            found[f"offset {group_id} {where}"] = committed.offset
    for name, transaction in engine.transactions.transactions.items():
        found[f"transaction {name}"] = (transaction.producer_id, transaction.producer_epoch, transaction.state.value)
    found["next block"] = cluster.producer_ids.next_block
    return found


def opened_again(place: Path, now: int, look: Callable[[Engine], Any]) -> Any:
    """Starts a broker with the data directory `place`, and returns the result of `look` on the broker's engine."""
    broker = Broker(place, "never", now)
    try:
        return look(broker.engine)
    finally:
        with suppress(OSError):
            broker.store.abandon()
