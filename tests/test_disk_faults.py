"""Every call that writes or syncs fails once. The client gets an error, no acknowledged record is lost, and the broker
continues.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from diskkit import START, Broker, Disk, Failure, kept, opened_again
from kafkawire.batches import iter_records, read_header, read_marker
from kafkawire.errors import ErrorCode
from requesting import (
    add_partitions,
    create_topic,
    delete_records,
    end_txn,
    find_coordinator,
    init_producer_id,
    join_group,
    offset_commit,
    plain,
    produce_request,
    sync_group,
    txn_offset_commit,
)
from responses import only, sole
from wirebroker.core.cluster import Cluster
from wirebroker.engine.engine import Engine
from wirekit import batch

RETRIABLE = {
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
}  # fmt: skip
"""Errors after which Kafka's clients retry the request."""
CODES = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS)

ALL_CALLS = bool(os.environ.get("WIREBROKER_ALL_CALLS"))
"""Tells whether the slow tests make every call fail (this takes ten minutes), not only a third of the calls."""


class Client:
    """A client that makes every kind of change that a broker writes to disk, and remembers what was acknowledged.

    For each part of the state, `told` has the possible values: the acknowledged value, and later values. The requests for the
    later values got no response.
    """

    def __init__(self, place: Path, sync: str, disk: Disk) -> None:
        self.place, self.sync, self.disk = place, sync, disk
        self.broker: Broker | None = None
        self.now = START
        self.gives_up = False
        """True if the client does not retry a refused request."""
        self.values: list[str] = []
        self.unsure: set[str] = set()
        self.told: dict[str, list[Any]] = {}
        self.refused = False
        """Tells whether the broker refused the last request. The broker's state must then be unchanged."""
        self._seen: tuple[object, tuple[dict[str, Any], list[str]]] | None = None
        """The last check: the files, the time, and the state of a broker that was started on a copy of these files."""

    # Asking

    def start(self) -> None:
        try:
            self.broker = Broker(self.place, self.sync, self.now)
        except OSError:
            self.disk.repair()
            self.broker = Broker(self.place, self.sync, self.now)

    def ask(self, request: Any, version: int, code_of: Callable[[Any], int], *, also: tuple[int, ...] = ()) -> Any:
        """Sends the request until it succeeds. An error code in `also` counts as success, because it means that an earlier
        attempt took effect. Returns the response, or None if the client gave up.
        """
        assert self.broker is not None
        for _ in range(8):
            response = self.broker.ask(request, version)
            code = None if response is None else code_of(response)
            if not code and response is not None:
                return response
            if code in also:
                return response
            assert code is None or code in RETRIABLE, (type(request).__name__, ErrorCode(code))
            assert self.disk.failed, (type(request).__name__, code)
            self.check()
            if self.gives_up:
                self.refused = code is not None
                return None
            self.broker.passes(600)
        raise AssertionError(f"{type(request).__name__} is never done")

    def change(self, what: str, value: Any, request: Any, version: int, code_of: Callable[[Any], int], *also: int) -> None:
        """Sends a request that changes the state of `what` to `value`."""
        before = self.told.get(what, [None])
        self.told[what] = [*before, value]
        if self.ask(request, version, code_of, also=also):
            self.told[what] = [value]
        elif self.refused:
            self.told[what] = before

    # Requests that are written to disk

    def coordinator(self, kind: int, key: str) -> None:
        request = find_coordinator(key, kind=kind)
        self.ask(request, 4, lambda response: sole(response.coordinators).error_code)

    def create(self, name: str, **configs: str) -> None:
        request = create_topic(name, configs=configs)
        held = (1, {key.replace("_", "."): value for key, value in configs.items()})
        code_of = lambda response: sole(response.topics).error_code  # noqa: E731
        self.change(f"topic {name}", held, request, 5, code_of, ErrorCode.TOPIC_ALREADY_EXISTS)

    def there(self, name: str) -> bool:
        return self.told[f"topic {name}"][-1] is not None

    def init(self, name: str | None = None) -> tuple[int, int]:
        request = init_producer_id(name)
        response = self.ask(request, 4, lambda response: response.error_code)
        return (response.producer_id, response.producer_epoch) if response else (-1, -1)

    def produce(self, value: str, sequence: int, who: tuple[int, int], transactional: str | None = None) -> bool:
        data = batch(sequence, pid=who[0], epoch=who[1], timestamp=self.now, tag=value, transactional=transactional is not None)
        request = produce_request("orders", data, timeout_ms=1000, txid=transactional)
        self.unsure.add(f"{value}{sequence}")
        response = self.ask(request, 9, lambda response: only(response).error_code)
        if response and transactional is None:
            self.values.append(f"{value}{sequence}")
        if response is None and self.refused:
            self.unsure.discard(f"{value}{sequence}")
        return response is not None

    def commit(self, offset: int) -> None:
        request = offset_commit("readers", offset)
        what = "offset readers ('orders', 0)"
        self.change(what, offset, request, 8, lambda response: only(response).error_code)

    def transaction(self, name: str, value: str, commit: bool, offset: int) -> None:
        who = self.init(name)
        if who == (-1, -1):
            return
        add = add_partitions(name, (who[0], who[1]))
        codes = lambda answer: only(answer).partition_error_code  # noqa: E731
        if not self.ask(add, 3, codes) or not self.produce(value, 0, who, name):
            return
        offsets = txn_offset_commit(name, (who[0], who[1]), "workers", offset)
        if not self.ask(offsets, 5, lambda answer: only(answer).error_code):
            return
        end = end_txn(name, (who[0], who[1]), commit)
        what = "offset workers ('orders', 0)"
        before = self.told.get(what, [None])
        after = offset if commit else before[-1]
        self.refused = False
        self.change(what, after, end, 4, lambda response: response.error_code)
        if self.told[what] == [after] and not self.refused:
            if commit:
                self.values.append(f"{value}0")
            else:
                self.unsure.discard(f"{value}0")

    def classic_group(self) -> None:
        def join(member_id: str) -> Any:
            request = join_group("classic", member_id, [("range", b"")], rebalance_ms=10000)
            return self.ask(request, 4, lambda answer: answer.error_code, also=(ErrorCode.MEMBER_ID_REQUIRED,))

        for _ in range(4):
            if (asked := join("")) is None or (joined := join(asked.member_id)) is None:
                return
            request = sync_group("classic", joined.member_id, joined.generation_id, {joined.member_id: b"all"})
            rejoin = (ErrorCode.NOT_COORDINATOR, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
            response = self.ask(request, 3, lambda response: response.error_code, also=rejoin)
            if response is None or not response.error_code or self.gives_up:
                return
        raise AssertionError("the group did not become stable")

    def modern_group(self) -> None:
        who = {"group_id": "modern", "member_id": "one", "member_epoch": 0, "rebalance_timeout_ms": 10_000}
        request = plain("ConsumerGroupHeartbeat", **who, subscribed_topic_names=["orders"], topic_partitions=[])
        self.ask(request, 1, lambda response: response.error_code)
        self.ask(
            plain("ConsumerGroupHeartbeat", group_id="modern", member_id="one", member_epoch=-1), 1,
            lambda response: response.error_code, also=(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND),
        )  # fmt: skip

    def alter(self, name: str, value: str) -> None:
        config = {"name": "retention.ms", "config_operation": 0, "value": value}
        request = plain("IncrementalAlterConfigs", resources=[{"resource_type": 2, "resource_name": name, "configs": [config]}])
        partitions, configs = self.told[f"topic {name}"][-1]
        after = (partitions, {**configs, "retention.ms": value})
        self.change(f"topic {name}", after, request, 1, lambda response: sole(response.responses).error_code)

    def grow(self, name: str) -> None:
        request = plain("CreatePartitions", topics=[{"name": name, "count": 3, "assignments": None}], timeout_ms=1)
        after = (3, self.told[f"topic {name}"][-1][1])
        code_of = lambda response: sole(response.results).error_code  # noqa: E731
        self.change(f"topic {name}", after, request, 2, code_of, ErrorCode.INVALID_PARTITIONS)

    def delete(self, name: str) -> None:
        request = plain("DeleteTopics", topics=[{"name": name}], timeout_ms=1)
        code_of = lambda response: sole(response.responses).error_code  # noqa: E731
        self.change(f"topic {name}", None, request, 6, code_of, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def delete_group(self) -> None:
        request = plain("DeleteGroups", groups_names=["readers"])
        code_of = lambda response: sole(response.results).error_code  # noqa: E731
        self.change("offset readers ('orders', 0)", None, request, 2, code_of, ErrorCode.GROUP_ID_NOT_FOUND)

    def delete_records(self) -> None:
        request = delete_records(2, timeout_ms=1)
        if self.ask(request, 2, lambda response: only(response).error_code):
            gone, self.values = self.values[:2], self.values[2:]
            self.unsure |= set(gone)  # as in Kafka, the log may have these records again after a crash

    # All operations

    def work(self) -> None:
        """Performs each operation."""
        self.start()
        assert self.broker is not None
        self.create("orders", segment_ms="1000")
        self.create("short")
        for kind, key in ((0, "readers"), (1, "till")):
            self.coordinator(kind, key)
        if not self.there("orders"):
            return
        who = self.init()
        for sequence in range(4):
            if who == (-1, -1) or not self.produce("v", sequence, who):
                break
            self.passes(700)
        for offset in range(3):
            self.commit(offset)
        self.transaction("till", "a", True, 5)
        self.transaction("till", "b", False, 6)
        self.classic_group()
        self.modern_group()
        self.alter("orders", "77000000")
        self.grow("orders")
        if self.there("short"):
            self.delete("short")
        if len(self.values) > 2:
            self.delete_records()
        self.passes(61_000)
        self.transaction("till", "c", True, 7)
        self.delete_group()

    def passes(self, ms: int) -> None:
        assert self.broker is not None
        self.broker.passes(ms)
        self.now = self.broker.now

    def check(self) -> None:
        """Starts a broker on a copy of the directory, and checks that it has everything that was acknowledged."""
        assert self.broker is not None
        files = {path: path.read_bytes() if path.is_file() else None for path in self.place.rglob("*")}
        if self._seen is None or self._seen[0] != (files, self.broker.now):
            copy = self.place.with_name("copy")
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.place, copy)
            disk, self.disk.failure = self.disk.failure, None
            try:
                self._seen = (files, self.broker.now), self.look(copy)
            finally:
                self.disk.failure = disk
        self.compare(*self._seen[1])

    def look(self, place: Path) -> tuple[dict[str, Any], list[str]]:
        """Starts a broker on the directory `place`. Returns the broker's state, and the values in orders-0."""
        assert self.broker is not None
        found: tuple[dict[str, Any], list[str]]
        found = opened_again(place, self.broker.now, lambda engine: (kept(engine), committed(engine.cluster)))
        return found

    def compare(self, found: dict[str, Any], values: list[str]) -> None:
        for what, allowed in self.told.items():
            assert found.get(what) in allowed, what
        assert [each for each in values if each in self.values or each not in self.unsure] == self.values

    def stop(self) -> None:
        """Stops the broker (cleanly, unless the disk fails), and starts it again."""
        assert self.broker is not None
        try:
            self.broker.store.close(self.broker.now)
        except OSError:
            assert self.disk.failed
        self.check()
        self.disk.repair()
        self.broker = Broker(self.place, self.sync, self.broker.now)


def committed(cluster: Cluster) -> list[str]:
    """Returns the values in orders-0 that a read_committed consumer gets."""
    if "orders" not in cluster.topics:
        return []
    partition = cluster.topics["orders"].partitions[0]
    values: list[str] = []
    waiting: dict[int, list[str]] = {}
    for each in partition.log.batches(partition.log_start_offset):
        header = read_header(each)
        start = partition.log_start_offset - header.base_offset
        records = [record for record in iter_records(each) if record.offset_delta >= start]
        if header.is_control:
            marker = read_marker(records[0])
            ended = waiting.pop(header.producer_id, [])
            values += ended if marker is not None and marker.commit else []
        elif header.is_transactional:
            waiting.setdefault(header.producer_id, []).extend((record.value or b"").decode() for record in records)
        else:
            values += [(record.value or b"").decode() for record in records]
    return values


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Returns a folder in memory if the machine has one. Each test makes and deletes tens of thousands of files. On a real
    disk, this would take a third of the test's time."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir="/dev/shm", prefix="wirebroker-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module", params=["never", "always"])
def count(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """Runs all operations while no call fails. Returns the sync mode, and the names of the calls."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        place = tmp_path_factory.mktemp("whole") / "data"
        disk = Disk(place, monkeypatch)
        client = Client(place, request.param, disk)
        client.work()
        client.stop()
        assert client.values == ["v2", "v3", "a0", "c0"]
        calls = list(disk.calls)
        client.compare(*client.look(place.with_name("copy")))
    return request.param, calls


def run(place: Path, sync: str, failure: Failure, monkeypatch: pytest.MonkeyPatch, *, gives_up: bool = False) -> Client:
    """Runs all operations while one call fails. If the client retries, the result must be the same as without the failure."""
    disk = Disk(place, monkeypatch)
    client = Client(place, sync, disk)
    disk.failure = failure
    client.gives_up = gives_up
    client.work()
    client.stop()
    assert client.broker is not None
    client.gives_up = False
    if not gives_up:
        assert client.values == ["v2", "v3", "a0", "c0"]
    if not client.there("orders"):
        client.create("orders")
    client.coordinator(0, "readers")
    client.commit(99)  # the broker must work again after the failure
    client.broker.store.abandon()
    return client


def fail_each(count: tuple[str, list[str]], numbers: Iterable[int], seed: int, tmp_path: Path, **how: Any) -> None:
    """For each number in `numbers`, runs all operations once. The call with this number fails in a random way."""
    sync, calls = count
    chance = random.Random(seed)
    for number in numbers:
        code = errno.ENOSPC if how.get("stays") else chance.choice(CODES)
        failure = Failure(number, code, short=chance.random() < 0.7, stays=how.get("stays", False))
        place = tmp_path / str(number) / "data"
        place.parent.mkdir()
        with pytest.MonkeyPatch.context() as monkeypatch:
            try:
                run(place, sync, failure, monkeypatch, gives_up=how.get("gives_up", False))
            except BaseException as wrong:
                wrong.add_note(f"{failure}, which is {calls[number]}")
                raise
        shutil.rmtree(place.parent)


def some(count: tuple[str, list[str]], seed: int, many: int) -> list[int]:
    """Chooses some of the calls by their numbers. Half of the chosen calls write records."""
    chance, calls = random.Random(seed), count[1]
    records = [number for number, kind in enumerate(calls) if kind == "writev"]
    return sorted({*chance.sample(range(len(calls)), many // 2), *chance.sample(records, many // 2)})


def test_clients_try_again_until_it_is_done(count: tuple[str, list[str]], tmp_path: Path) -> None:
    fail_each(count, some(count, 7, 16), 1, tmp_path)


def test_clients_give_up_and_find_no_refused_record(count: tuple[str, list[str]], tmp_path: Path) -> None:
    fail_each(count, some(count, 8, 8), 2, tmp_path, gives_up=True)


def test_a_disk_that_is_full_from_some_call_on(count: tuple[str, list[str]], tmp_path: Path) -> None:
    fail_each(count, some(count, 9, 8), 3, tmp_path, gives_up=True, stays=True)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6) if ALL_CALLS else (0, 3))
@pytest.mark.parametrize("gives_up", [False, True])
def test_every_call_fails_once(count: tuple[str, list[str]], tmp_path: Path, part: int, gives_up: bool) -> None:
    fail_each(count, range(part, len(count[1]), 6), part, tmp_path, gives_up=gives_up)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3) if ALL_CALLS else (0,))
def test_a_disk_that_is_full_from_any_call_on(count: tuple[str, list[str]], tmp_path: Path, part: int) -> None:
    fail_each(count, range(part, len(count[1]), 6), part, tmp_path, gives_up=True, stays=True)


# Syncs


def test_records_that_replace_cut_records_do_not_count_as_synced(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data", "never", START)
    broker.ask(create_topic("orders"), 7)
    broker.ask(produce_request("orders", batch()), 9)
    broker.ask(produce_request("orders", batch(count=2)), 9)
    broker.store.close(START)
    broker = Broker(tmp_path / "data", "never", START)
    partition = broker.engine.cluster.topics["orders"].partitions[0]
    broker.engine.controller.truncate(partition, 1, START)
    assert [only(broker.ask(produce_request("orders", batch()), 9)).base_offset for _ in range(2)] == [1, 2]
    broker.store.abandon()

    def recovery_point(engine: Engine) -> int:
        log: Any = engine.cluster.topics["orders"].partitions[0].log
        return int(log.recovery_point)

    assert opened_again(tmp_path / "data", START, recovery_point) == 1


@pytest.mark.parametrize(("offset", "lasts"), [(4, False), (1, False), (1, True)])
def test_a_truncation_is_whole_although_the_disk_refuses(
    offset: int, lasts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has four segments. One is cut, or all are removed, because the log start is in the cut batch."""
    disk = Disk(tmp_path, monkeypatch)
    for number in range(1000):
        broker = Broker(place := tmp_path / f"{number}", "never", START)
        broker.ask(create_topic("orders"), 7)
        for _ in range(4):
            for count in (2, 1):
                broker.ask(produce_request("orders", batch(count=count, timestamp=broker.now)), 9)
            broker.passes(2000)
        partition = broker.engine.cluster.topics["orders"].partitions[0]
        assert [each.base_offset for each in partition.log.segments] == [0, 3, 6, 9]
        partition.delete_records(1, broker.now)
        disk.failed = 0
        disk.failure = Failure(len(disk.calls) + number, errno.ENOSPC if lasts else errno.EIO, stays=lasts)
        broker.engine.controller.truncate(partition, offset, broker.now)
        failed, end = disk.failed, partition.log_end_offset
        assert end == {4: 3, 1: 1}[offset]
        if lasts:
            disk.failure = Failure(len(disk.calls), stays=True)
            assert only(broker.ask(produce_request("orders", batch()), 9)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.repair()
        assert only(broker.ask(produce_request("orders", batch()), 9)).base_offset == end
        held = [read_header(each).base_offset for each in partition.log.batches(1)]
        broker.store.abandon()
        assert opened_again(place, START, lambda engine: held_of(engine, 1)) == held
        if not failed:
            break
    assert number > 5


def test_a_log_that_was_cut_is_not_compacted_beyond_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker is killed before the disk takes the new checkpoint."""
    disk = Disk(tmp_path, monkeypatch)
    broker = Broker(tmp_path / "data", "never", START)
    broker.ask(create_topic("orders"), 7)
    for _ in range(2):
        broker.ask(produce_request("orders", batch(count=3)), 9)
    partition = broker.engine.cluster.topics["orders"].partitions[0]
    log: Any = partition.log
    log.directory.set_cleaned(log.where, 5)
    disk.failure = Failure(len(disk.calls), stays=True)
    broker.engine.controller.truncate(partition, 3, broker.now)
    broker.engine.restart("kill", broker.now)
    assert (log.end_offset, log.cleaned_to) == (3, 3)
    disk.repair()
    log.start_at(1, broker.now)
    assert log.cleaned_to == 1
    broker.store.abandon()


def test_the_rest_of_a_truncation_is_made_at_the_next_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log begins at 2, within the batch that is cut. The checkpoint does not know this start yet."""
    disk = Disk(tmp_path, monkeypatch)
    broker = Broker(tmp_path / "data", "never", START)
    broker.ask(create_topic("orders"), 7)
    broker.ask(produce_request("orders", batch(count=3)), 9)
    partition = broker.engine.cluster.topics["orders"].partitions[0]
    partition.delete_records(2, broker.now)
    disk.failure = Failure(len(disk.calls), stays=True)
    broker.engine.controller.truncate(partition, 2, broker.now)
    broker.passes(60_000)
    disk.repair()
    broker.passes(60_000)
    assert [path.name for path in partition.log.folder.glob("*.log")] == [f"{2:020d}.log"]  # type: ignore[attr-defined]
    broker.store.abandon()
    assert opened_again(tmp_path / "data", START, lambda engine: engine.cluster.partition("orders", 0).log_end_offset) == 2


def test_a_log_that_ends_before_its_old_start_opens_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an unclean election the broker is killed before the disk takes the new start offset."""
    disk = Disk(tmp_path, monkeypatch)
    broker = Broker(tmp_path / "data", "never", START)
    broker.ask(create_topic("orders"), 7)
    broker.ask(produce_request("orders", batch()), 9)
    partition = broker.engine.cluster.topics["orders"].partitions[0]
    prefix = partition.prefix(broker.now)
    broker.ask(produce_request("orders", batch(count=3)), 9)
    partition.delete_records(3, broker.now)
    broker.store.checkpoint()
    disk.failure = Failure(len(disk.calls), stays=True)
    partition.take_over(prefix)
    assert (partition.log_start_offset, partition.log_end_offset) == (0, 1)
    broker.store.abandon()
    disk.repair()
    assert opened_again(tmp_path / "data", START, lambda engine: held_of(engine, 3)) == [1]


def held_of(engine: Engine, start: int) -> list[int]:
    partition = engine.cluster.topics["orders"].partitions[0]
    return [read_header(each).base_offset for each in partition.log.batches(start)]


# Restarts within the process


@pytest.mark.parametrize("mode", ["clean", "kill"])
def test_a_restart_ends_on_a_disk_that_refuses(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path, monkeypatch)
    for number in (-1, *range(0, 1000, 3)):
        broker = Broker(place := tmp_path / f"{number}", "never", START)
        broker.ask(create_topic("orders"), 7)
        broker.ask(find_coordinator("team"), 4)
        for offset in (0, 3):
            assert only(broker.ask(produce_request("orders", batch(count=3)), 9)).base_offset == offset
            assert not only(broker.ask(offset_commit("team", offset), 8)).error_code
        first, disk.failed = len(disk.calls), 0
        disk.failure = Failure(first, stays=True) if number < 0 else Failure(first + number, errno.EIO)
        broker.engine.restart(mode, broker.now)
        disk.repair()
        assert broker.engine.deadline() is not None, "the timers run"
        assert only(broker.ask(produce_request("orders", batch()), 9)).base_offset == 6
        broker.store.abandon()
        assert opened_again(place, START, lambda engine: engine.cluster.topics["orders"].partitions[0].log_end_offset) == 7
        assert opened_again(place, START, kept)["offset team ('orders', 0)"] == 3
        if not disk.failed:
            break
    assert number > 20
