"""Damage one file of a data directory, and judge how a broker starts on this directory. The broker must refuse with a message,
or serve the truth.

The truth is everything that a broker acknowledged before it stopped: the offset, the leader epoch and the content of every
record, committed offsets, groups, transactions, producers, topics with their ids and settings, and the bounds of each log.

After kill −9, the broker cannot distinguish damage from an unfinished write at the end of a log. So the last batches of a
partition may be missing in two cases: the broker reports that it cut them off, or the damaged file ends between two batches.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from crashkit import commit
from kafkawire.batches import Record, build_batch, iter_batches, read_header
from kafkawire.disk.damage import DataError
from kafkawire.messages.init_producer_id import InitProducerIdResponse
from requesting import delete_records, end_txn, init_producer_id, plain, produce_request
from responses import only
from test_storage_coordinators import state_of
from wirebroker.client.wire import WireClient
from wirebroker.engine.engine import Engine
from wirebroker.mock import MockKafka
from wirebroker.storage.store import FolderStore
from wirekit import RawProducer, client

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.index.interval.bytes": "150",
    "log.cleaner.backoff.ms": "1000000000",
    "transaction.max.timeout.ms": "900000",
}
MODES = ("clean", "kill")
LONGEST_START = 1.0
"""A start may take at most this CPU time, in seconds."""
HANGS_AFTER = 10.0
TRIES = 2000
"""The number of damages that are tried on one directory."""
METADATA = "__cluster_metadata-0"
_serial = itertools.count()


class Truth(NamedTuple):
    """The state that the broker acknowledged."""

    now: int
    state: dict[str, Any]
    batches: dict[tuple[str, int], list[tuple[int, ...]]]
    """For each batch of each partition: the base offset, the last offset, the leader epoch and a hash."""
    next_producer_id: int


class Damage(NamedTuple):
    """A change to one file. The seed of the directory and these values determine the change."""

    mode: str
    path: str
    kind: str
    at: int = 0
    value: int = 0
    other: str = ""


class Outcome(NamedTuple):
    """The result of a start ("served", "lost a tail", "refused" or a failure), and the broker's message or the reason of the
    result.
    """

    kind: str
    why: str = ""

    @property
    def is_wrong(self) -> bool:
        """True if the broker did not serve the truth (perhaps without a tail), and did not refuse the directory."""
        return self.kind not in ("served", "lost a tail", "refused")


class Hang(BaseException):
    """Raised if a start takes too long."""


# Data directories and the truth about them


def observe(engine: Engine) -> Truth:
    """Returns the state that the engine serves."""
    found = {}
    for partition in engine.cluster.partitions():
        rows = []
        for each in partition.log.batches(partition.log_start_offset):
            header = read_header(each)
            hashed = int.from_bytes(hashlib.blake2b(bytes(each), digest_size=8).digest(), "big")
            rows.append((header.base_offset, header.last_offset, header.partition_leader_epoch, hashed))
        found[partition.topic, partition.index] = rows
    state = state_of(engine)
    state["epochs"] = {(p.topic, p.index): list(p.epochs.starts) for p in engine.cluster.partitions()}
    state["cluster"] = engine.cluster.cluster_id
    return Truth(engine.now, state, found, engine.cluster.producer_ids.next_block)


@dataclass
class Made:
    """The data directories and their truths, by mode."""

    places: dict[str, Path] = field(default_factory=dict)
    truths: dict[str, Truth] = field(default_factory=dict)


def make(root: Path, seed: int) -> Made:
    """Makes a broker's data directory twice: as a clean stop leaves it, and as kill −9 leaves it."""
    made = Made()
    chance = random.Random(seed)
    data = root / "clean"
    with MockKafka(data=data, topics={"orders": 2}, configs=SETTINGS, random_seed=seed, clock="frozen") as kafka:
        fill(kafka, chance)
        kafka._call(lambda engine: engine.store.run_jobs())  # type: ignore[union-attr]

        def look(engine: Engine) -> Truth:
            shutil.copytree(data, root / "kill")
            return observe(engine)

        made.truths["kill"] = made.truths["clean"] = kafka._call(look)
    made.places = {mode: root / mode for mode in MODES}
    return made


def fill(kafka: MockKafka, chance: random.Random) -> None:
    """Creates segments, producers, transactions, groups, settings, a compacted topic, deleted records and deleted topics."""
    wire = client(kafka)
    kafka.create_topic("ledger", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    kafka.create_topic("short", 1, {"retention.ms": "86400000", "max.message.bytes": "5000"})
    kafka.create_topic("empty", 1)
    kafka.create_topic("gone", 1)
    kafka.delete_topic("gone") if hasattr(kafka, "delete_topic") else None
    transactions(kafka, wire, chance)
    _produce(kafka, chance)
    for offset in (3, 5):
        assert commit(wire, offset) == 0
    wire.request(delete_records(2, topic="short"), 2)
    transactions(kafka, wire, chance)
    kafka._call(lambda engine: engine.store.checkpoint())  # type: ignore[union-attr]
    for number in range(chance.randint(1, 3)):
        kafka.produce("orders", value=b"late %d" % number, partition=number % 2)
    assert commit(wire, 7) == 0


def _produce(kafka: MockKafka, chance: random.Random) -> None:
    producers = [RawProducer(kafka, "orders", partition) for partition in range(2)]
    sequence = 0
    for number in range(12):
        for producer in producers:
            producer.send(sequence, sequence + number % 2)
        sequence += 1 + number % 2
        kafka.produce("short", value=b"x" * chance.randint(1, 60))
        kafka.produce("ledger", value=b"%d" % number, key=b"%d" % (number % 3))
        if number % 4 == 3:
            kafka._call(lambda engine: roll(engine, {"orders", "ledger"}))
        if number == 5:
            kafka._call(lambda engine: roll(engine, {"short"}))
    kafka._call(compact)


def roll(engine: Engine, topics: set[str]) -> None:
    """Roll a new segment in every partition of `topics`."""
    assert engine.store is not None
    for partition in engine.cluster.partitions():
        if partition.topic in topics:
            partition.log.roll(engine.now)
    engine.store.run_jobs()


def compact(engine: Engine) -> None:
    """Compact every log that can be compacted."""
    assert engine.store is not None
    engine.store.compact(engine.now)
    engine.store.run_jobs()


def transactions(kafka: MockKafka, wire: WireClient, chance: random.Random, partitions: int = 2) -> None:
    """Makes a committed, an aborted and an open transaction."""
    for name in ("committed", "aborted", "open"):
        begun = _begin(wire, name)
        for partition in range(partitions):
            records = [Record(0, 0, b"k", b"%s %d" % (name.encode(), chance.randrange(100)))]
            data = build_batch(
                records, base_timestamp=kafka.clock.now(), producer_id=begun.producer_id,
                producer_epoch=begun.producer_epoch, base_sequence=0, transactional=True,
            )  # fmt: skip
            request = produce_request("orders", data, partition)
            request.transactional_id = name
            assert only(wire.request(request, 12)).error_code == 0
        if name != "open":
            request = end_txn(name, (begun.producer_id, begun.producer_epoch), name == "committed")
            assert wire.request(request, 5).error_code == 0


def _begin(wire: WireClient, name: str) -> InitProducerIdResponse:
    asked = init_producer_id(name, 900000)
    for _ in range(5):
        wire.request(plain("FindCoordinator", key=name, key_type=1), 3)
        response = wire.request(asked, 5)
        if response.error_code == 0:
            return response
    raise AssertionError(response)


# Damages


def damages_of(place: Path, mode: str, chance: random.Random) -> Iterator[Damage]:
    """Yields random damages without end. Small files are chosen as often as large files."""
    names = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and path.name != ".lock")
    while True:
        name = chance.choice(names)
        size = (place / name).stat().st_size
        kind = chance.choice(KINDS_OF_BYTES if size else KINDS_OF_FILES) if chance.random() < 0.9 else None
        kind = kind or chance.choice(KINDS_OF_FILES)
        alike = [each for each in names if each != name and Path(each).suffix == Path(name).suffix]
        other = chance.choice(alike) if alike and kind == "swap" else ""
        if kind == "swap" and (not other or not _is_told(place, mode, name, other)):
            kind = "delete"
        yield Damage(mode, name, kind, chance.randrange(max(size, 1)), chance.randrange(1 << 30), other)


def _is_told(place: Path, mode: str, *names: str) -> bool:
    """Tells whether a broker can notice that the files `names` of two partitions were swapped.

    It cannot notice the swap of two closed segments that have the same offsets. After kill −9 it also cannot notice the swap of
    a closed segment with an active segment.
    """
    logs = [place / name for name in names if name.endswith(".log")]
    if not logs:
        return True
    if any(path == max(path.parent.glob("*.log")) for path in logs):
        return mode == "clean"
    return len({_offsets(path) for path in logs}) == len(logs)


def _offsets(path: Path) -> tuple[tuple[int, int], ...]:
    headers = map(read_header, iter_batches(path.read_bytes()))
    return tuple((header.base_offset, header.last_offset) for header in headers)


def every_byte(place: Path, mode: str) -> Iterator[Damage]:
    """Yields three damages for every byte of every file. The byte is flipped, the file is cut at the byte, or the file is
    zeroed from the byte on.
    """
    for path in sorted(place.rglob("*")):
        if path.is_file() and path.name != ".lock":
            name = str(path.relative_to(place))
            for kind in KINDS_OF_FILES:
                if kind != "swap":
                    yield Damage(mode, name, kind)
            yield Damage(mode, name, "append", 0, 5)
            for at in range(path.stat().st_size):
                for kind in ("flip", "cut", "zero"):
                    yield Damage(mode, name, kind, at, at)


def _flip(raw: bytearray, damage: Damage) -> None:
    raw[damage.at] ^= 1 << damage.value % 8


def _set(raw: bytearray, damage: Damage) -> None:
    raw[damage.at] = damage.value % 256


def _cut(raw: bytearray, damage: Damage) -> None:
    del raw[damage.at :]


def _cut_short(raw: bytearray, damage: Damage) -> None:
    del raw[max(len(raw) - 1 - damage.value % 40, 0) :]


def _zero(raw: bytearray, damage: Damage) -> None:
    raw[damage.at :] = bytes(len(raw) - damage.at)


def _zero_some(raw: bytearray, damage: Damage) -> None:
    stop = min(damage.at + 1 + damage.value % 64, len(raw))
    raw[damage.at : stop] = bytes(stop - damage.at)


def _insert(raw: bytearray, damage: Damage) -> None:
    raw[damage.at : damage.at] = random.Random(damage.value).randbytes(1 + damage.value % 20)


def _remove(raw: bytearray, damage: Damage) -> None:
    del raw[damage.at : damage.at + 1 + damage.value % 20]


def _append(raw: bytearray, damage: Damage) -> None:
    size = 1 + damage.value % 100
    raw += random.Random(damage.value).randbytes(size) if damage.value % 3 else bytes(size)


def _repeat(raw: bytearray, damage: Damage) -> None:
    raw += raw[: 1 + damage.value % len(raw)] if damage.value % 2 else bytes(raw)


OF_BYTES: dict[str, Callable[[bytearray, Damage], None]] = {
    "flip": _flip, "set": _set, "cut": _cut, "cut short": _cut_short, "zero": _zero, "zero some": _zero_some,
    "insert": _insert, "remove": _remove, "append": _append, "repeat": _repeat,
}  # fmt: skip
KINDS_OF_BYTES = ("flip", "flip", "flip", "flip", *OF_BYTES)
KINDS_OF_FILES = ("delete", "empty", "directory", "swap", "delete folder")


def inflict(damage: Damage, place: Path) -> bool:
    """Damage the directory. Returns whether anything has changed."""
    path = place / damage.path
    if damage.kind == "delete":
        path.unlink()
    elif damage.kind == "delete folder":
        if path.parent == place:
            return False
        shutil.rmtree(path.parent)
    elif damage.kind == "empty":
        changed = path.stat().st_size > 0
        path.write_bytes(b"")
        return changed
    elif damage.kind == "directory":
        path.unlink()
        path.mkdir()
    elif damage.kind == "swap":
        other = place / damage.other
        raw = path.read_bytes()
        if raw == other.read_bytes():
            return False
        path.write_bytes(other.read_bytes())
        other.write_bytes(raw)
    else:
        raw = bytearray(path.read_bytes())
        before = bytes(raw)
        OF_BYTES[damage.kind](raw, damage)
        path.write_bytes(raw)
        return raw != before
    return True


# Judging a start


class Words(logging.Handler):
    """Collects the broker's log messages."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises Hang if the block takes longer than `seconds`. Works only in the main thread."""

    def ring(*_: object) -> None:
        raise Hang(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def start(place: Path, truth: Truth) -> tuple[Truth, list[str]]:
    """Starts a broker on the directory, and applies retention. Returns the state that the broker then serves, and its log
    messages.
    """
    logger = logging.getLogger("wirebroker")
    words = Words()
    logger.addHandler(words)
    logger.propagate = False
    store = None
    try:
        with limited(HANGS_AFTER):
            begun = time.thread_time()
            store = FolderStore(place, random.Random(1).randbytes)
            engine = Engine(truth.now, random.Random(1).randbytes, settings=SETTINGS, store=store)
            taken = time.thread_time() - begun
            if taken > LONGEST_START:
                raise Hang(f"the start took {taken:.1f} s")
            engine.tick(truth.now + 400_000)  # applies retention
            found = observe(engine)
            _read_again(engine, found)
            store.close(truth.now)
            store = None
            return found, words.said
    finally:
        logger.removeHandler(words)
        logger.propagate = True
        if store is not None:
            store.abandon()


def _read_again(engine: Engine, found: Truth) -> None:
    """For each batch, checks that a read from its first offset and a read from its last offset return this batch."""
    for partition in engine.cluster.partitions():
        for base, last, _, hashed in found.batches[partition.topic, partition.index]:
            for offset in {max(base, partition.log_start_offset), last}:
                data = partition.log.read(offset, partition.log_end_offset, 1, True).data
                first = next(iter_batches(data), b"")
                if int.from_bytes(hashlib.blake2b(bytes(first), digest_size=8).digest(), "big") != hashed:
                    raise AssertionError(f"{partition.topic}-{partition.index}: a Fetch of {offset} brings another batch")


def judge(damage: Damage, made: Made, place: Path) -> Outcome:
    """Start a broker on the damaged directory, and compare its state with the truth."""
    truth = made.truths[damage.mode]
    try:
        found, said = start(place, truth)
    except DataError as refused:
        return Outcome("refused", str(refused))
    except Hang as hangs:
        return Outcome("hangs", f"{hangs}: {''.join(traceback.format_tb(hangs.__traceback__)[-3:])}")
    except Exception:  # a user would see the traceback
        return Outcome("traceback", traceback.format_exc())
    wrong = differences(truth, found)
    if not wrong:
        return Outcome("served")
    if damage.mode == "kill":
        return _after_kill(damage, made, found, wrong, said)
    return Outcome("lie", f"{wrong}; the broker says {said}")


def differences(truth: Truth, found: Truth) -> list[str]:
    """Returns a sentence for each difference between the truth and the state that the broker serves."""
    wrong = [
        f"{topic}-{index}: expected the batches {rows}, found {found.batches.get((topic, index))}"
        for (topic, index), rows in truth.batches.items()
        if found.batches.get((topic, index)) != rows
    ]
    after = {**found.state, "logs": _without_epoch(found.state["logs"]), "epochs": _known(found, truth)}
    before = {**truth.state, "logs": _without_epoch(truth.state["logs"]), "epochs": _known(truth, truth)}
    wrong += [f"{what}: expected {before[what]}, found {after[what]}" for what in before if before[what] != after[what]]
    if found.next_producer_id < truth.next_producer_id:
        wrong.append(f"the next producer id is {found.next_producer_id}, not {truth.next_producer_id}")
    return wrong


def _without_epoch(logs: dict[tuple[str, int], tuple[int, ...]]) -> dict[tuple[str, int], tuple[int, ...]]:
    return {where: row[:-1] for where, row in logs.items()}


def _known(one: Truth, truth: Truth) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Returns the leader epochs that began before the end of the true log. Each start adds an epoch at the end of the log."""
    ends = {where: row[2] for where, row in truth.state["logs"].items()}
    return {where: [each for each in starts if each[1] < ends.get(where, 0)] for where, starts in one.state["epochs"].items()}


def _after_kill(damage: Damage, made: Made, found: Truth, wrong: list[str], said: list[str]) -> Outcome:
    """Judges a start after kill −9 if the broker's data differ from the truth. Only two things may be missing: the last batches
    of the damaged log, and the state that only these batches record.
    """
    truth, place = made.truths["kill"], made.places["kill"]
    told = any(Path(damage.path).parent.name in sentence for sentence in said)
    lie = Outcome("lie", f"{wrong}; it says {said}")
    name = Path(damage.path)
    if name.suffix != ".log" or name.name != max(path.name for path in (place / name).parent.glob("*.log")):
        return _explained(damage, found, truth, said) or lie
    if damage.kind == "swap" or not (told or damage.kind in ("delete", "empty", "cut", "cut short", "delete folder")):
        return lie
    folder = name.parent.name
    for (topic, index), rows in truth.batches.items():
        served = found.batches.get((topic, index), [])
        if f"{topic}-{index}" == folder:
            rows = rows[: _intact(damage, place, rows)]
        elif folder == METADATA:
            continue
        if served != rows and not (served[: len(rows)] == rows and _may_have_gained(folder, topic, index)):
            return lie
    return Outcome("lost a tail", str(said))


def _may_have_gained(folder: str, topic: str, index: int) -> bool:
    """Tells whether the partition may have additional batches: either its log is damaged, or a coordinator wrote markers
    again."""
    return f"{topic}-{index}" == folder or folder.startswith("__transaction_state")


def _intact(damage: Damage, place: Path, rows: list[tuple[int, ...]]) -> int:
    """Returns the number of batches before the damage in the damaged log."""
    path = place / damage.path
    size = path.stat().st_size
    cut = max(size - 1 - damage.value % 40, 0)
    touched = {"delete": 0, "delete folder": 0, "empty": 0, "append": size, "repeat": size, "cut short": cut}
    first = touched.get(damage.kind, damage.at)
    base = int(path.stem)
    for each in iter_batches(path.read_bytes()[:first]):
        base = read_header(each).last_offset + 1
    return sum(row[1] < base for row in rows)


def _explained(damage: Damage, found: Truth, truth: Truth, said: list[str]) -> Outcome | None:
    """Returns "lost a tail" if the broker reports the loss of a file that may be empty or missing after a power cut.

    Without the checkpoint of log start offsets, the log may have deleted records again. All other records must be unchanged.
    """
    same = _ends_with if damage.path == "log-start-offset-checkpoint" else list.__eq__
    whole = all(same(found.batches.get(where, []), rows) for where, rows in truth.batches.items())
    if whole and any(damage.path in sentence for sentence in said):
        return Outcome("lost a tail", str(said))
    return None


def _ends_with(served: list[tuple[int, ...]], rows: list[tuple[int, ...]]) -> bool:
    return served[len(served) - len(rows) :] == rows


# Running


@dataclass
class Report:
    """Counts the damages by their results, and lists the failures."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[int, Damage, Outcome]] = field(default_factory=list)
    next_seed: int = 0

    @property
    def tried(self) -> int:
        """The number of damages that were tried."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        lines = [f"{self.tried} damages: " + ", ".join(f"{count} {kind}" for kind, count in self.counts.most_common())]
        lines += [f"seed {seed}: {damage}\n    {outcome.kind}: {outcome.why}" for seed, damage, outcome in self.wrong]
        return "\n".join(lines)


def try_one(damage: Damage, made: Made, scratch: Path) -> Outcome | None:
    """Copy the directory, damage the copy, and start a broker on it. Returns None if the damage changes nothing."""
    place = scratch / f"tried-{next(_serial)}"
    shutil.copytree(made.places[damage.mode], place, copy_function=shutil.copyfile)
    try:
        if not inflict(damage, place):
            return None
        return judge(damage, made, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def scratch_folder() -> str | None:
    """Returns a folder in memory, or None if the system has none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run(seed: int, deadline: float, *, most: int | None = None, most_wrong: int = 20, exhaustive: bool = False) -> Report:
    """Tries damages until `time.monotonic()` reaches `deadline`, `most` damages were tried, or `most_wrong` starts have
    failed.
    """
    report = Report()
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as name:
        while True:
            root = Path(name) / str(seed)
            made = make(root, seed)
            report.next_seed = seed + 1
            for damage in _plan(made, seed, exhaustive):
                outcome = try_one(damage, made, root)
                if outcome is not None:
                    report.counts[outcome.kind] += 1
                    if outcome.is_wrong:
                        report.wrong.append((seed, damage, outcome))
                done = most is not None and report.tried >= most
                if done or len(report.wrong) >= most_wrong or time.monotonic() >= deadline:
                    return report
            shutil.rmtree(root)
            if exhaustive:
                return report
            seed += 1


def _plan(made: Made, seed: int, exhaustive: bool) -> Iterator[Damage]:
    if exhaustive:
        for mode in MODES:
            yield from every_byte(made.places[mode], mode)
        return
    chance = random.Random(seed)
    plans = [damages_of(made.places[mode], mode, chance) for mode in MODES]
    for _ in range(TRIES):
        yield next(chance.choice(plans))
