"""Several log directories on disk: where partitions are, how they are moved, and which files remain after a kill during a
move.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crashkit import crash_once
from inprocess import InProcess
from kafkawire.disk.damage import DamagedFile, DataError
from kafkawire.disk.metadata import written_image
from kafkawire.disk.properties import read_properties
from kafkawire.messages.describe_cluster import DescribeClusterRequest
from kafkawire.primitives import format_uuid
from requesting import delete_records, plain
from responses import sole
from wirebroker.mock import MockKafka
from wirebroker.storage import files, moves
from wirebroker.storage.log import FolderLog
from wirekit import client

ORDERS = "orders-0"


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b"]


@pytest.fixture
def two_volumes(tmp_path: Path) -> Iterator[list[Path]]:
    """Two log directories on different volumes. Renaming cannot move a folder from one to the other."""
    first, shared = tmp_path / "a", Path("/dev/shm")
    if not os.access(shared, os.W_OK) or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second volume here")
    second = Path(tempfile.mkdtemp(prefix="wirebroker-", dir=shared))
    yield [first, second / "b"]
    shutil.rmtree(second)


@pytest.fixture(params=["dirs", "two_volumes"])
def places(request: pytest.FixtureRequest) -> list[Path]:
    """Two log directories. The test runs twice: with both directories on one volume, and on two volumes."""
    return list(request.getfixturevalue(request.param))


def held(kafka: MockKafka) -> list[tuple[str, list[tuple[str, int, bool]]]]:
    """For each log directory, returns its name and its partitions. A partition has three values: the topic, the index, and
    whether this is a future replica."""
    results = client(kafka).request(plain("DescribeLogDirs", topics=None), 5).results
    return [
        (Path(each.log_dir).name, [(t.name, p.partition_index, p.is_future_key) for t in each.topics for p in t.partitions])
        for each in results
    ]


def ask_to_move(kafka: MockKafka, to: Path, topic: str = "orders", index: int = 0) -> int:
    wanted = {"path": str(to.resolve()), "topics": [{"name": topic, "partitions": [index]}]}
    return int(sole(sole(client(kafka).request(plain("AlterReplicaLogDirs", dirs=[wanted]), 1).results).partitions).error_code)


def move(kafka: MockKafka, to: Path, topic: str = "orders", index: int = 0) -> None:
    """Moves the partition to the directory `to`, and waits until the move is complete."""
    assert ask_to_move(kafka, to, topic, index) == 0
    kafka.wait_until(lambda: (to / f"{topic}-{index}").is_dir() and not moving(kafka))


def moving(kafka: MockKafka) -> bool:
    return any(future for _, partitions in held(kafka) for _, _, future in partitions)


def values(kafka: MockKafka, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in kafka.records(topic)]


def test_partitions_are_spread_and_found_again(dirs: list[Path]) -> None:
    with MockKafka(data=dirs, topics=["orders", "payments"]) as kafka:
        kafka.produce("orders", value=b"a")
        kafka.produce("payments", value=b"b")
        told = held(kafka)
        assert told == [("a", [("orders", 0, False)]), ("b", [("payments", 0, False)])]
        assert not (dirs[1] / ".kafka_cleanshutdown").exists()
    ids = []
    for each in dirs:
        assert (each / ".kafka_cleanshutdown").exists()
        assert (each / "recovery-point-offset-checkpoint").exists()
        properties = read_properties(each / "meta.properties")
        assert properties["node.id"] == "1"
        ids.append(properties["directory.id"])
    assert ids[0] != ids[1]
    written = written_image(dirs[0])
    assert written is not None
    assert not (dirs[1] / "__cluster_metadata-0").exists()
    assigned = {topic.name: format_uuid(*topic.partitions[0].directories) for topic in written.image.topics.values()}
    assert assigned == {"orders": ids[0], "payments": ids[1]}
    with MockKafka(data=dirs) as kafka:
        assert held(kafka) == told
        assert (values(kafka), values(kafka, "payments")) == ([b"a"], [b"b"])


def test_a_directory_that_is_added_gets_the_next_partitions(dirs: list[Path]) -> None:
    with MockKafka(data=dirs[0], topics=["orders"]):
        pass
    with MockKafka(data=dirs, topics=["payments"]) as kafka:
        assert held(kafka) == [("a", [("orders", 0, False)]), ("b", [("payments", 0, False)])]


@pytest.mark.parametrize("ends", ["clean", "kill"])
def test_a_partition_moves_with_everything_in_it(places: list[Path], ends: str, tmp_path: Path) -> None:
    with MockKafka(data=places, topics=["orders"]) as kafka:
        kafka._call(lambda engine: engine.store.checkpoint())
        for value in (b"a", b"b", b"c"):
            kafka.produce("orders", value=value)
        client(kafka).request(delete_records(1), 2)
        move(kafka, places[1])
        assert not (places[0] / ORDERS).exists()
        assert sorted(each.name for each in places[1].glob("orders*")) == [ORDERS]
        kafka.produce("orders", value=b"d")
        assert values(kafka) == [b"b", b"c", b"d"]
        if ends == "kill":
            kafka.wait_until(lambda: not any(places[0].glob("*-delete")))  # otherwise the copy may fail
            places = [Path(shutil.copytree(each, tmp_path / f"copy-{each.name}")) for each in places]
    for _ in range(2):
        with MockKafka(data=places) as kafka:
            assert values(kafka) == [b"b", b"c", b"d"]
            assert [partitions for _, partitions in held(kafka)] == [[], [("orders", 0, False)]]
    with MockKafka(data=places) as kafka:
        move(kafka, places[0])
        kafka.restart("kill" if ends == "kill" else "clean")
        assert values(kafka) == [b"b", b"c", b"d"]
        assert held(kafka)[0][1] == [("orders", 0, False)]


def test_a_partition_is_served_while_it_is_copied(two_volumes: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    copied, may_swap = threading.Event(), threading.Event()
    catch_up = moves.Copy.catch_up

    def caught_up(self: moves.Copy) -> None:
        catch_up(self)
        copied.set()
        assert may_swap.wait(10)

    monkeypatch.setattr(moves.Copy, "catch_up", caught_up)
    with MockKafka(data=two_volumes, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"0")
        assert ask_to_move(kafka, two_volumes[1]) == 0
        assert copied.wait(10)
        kafka.produce("orders", value=b"1")
        assert held(kafka) == [("a", [("orders", 0, False)]), ("b", [("orders", 0, True)])]
        may_swap.set()
        kafka.wait_until(lambda: not moving(kafka))
        assert held(kafka) == [("a", []), ("b", [("orders", 0, False)])]
        assert values(kafka) == [b"0", b"1"]
    with MockKafka(data=two_volumes) as kafka:
        assert values(kafka) == [b"0", b"1"]


def state_after_kill(dirs: list[Path], state: str) -> None:
    """Makes a partition with a record in `a`. Also makes the files that remain after a kill during the partition's move to
    `b`.
    """
    with MockKafka(data=dirs, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
    here, future = dirs[0] / ORDERS, dirs[1] / f"{ORDERS}.{bytes(16).hex()}-future"
    if state == "asked":
        future.mkdir()
        return
    shutil.copytree(here, future)
    if state in ("copying", "lost"):
        (future / "partition.metadata").unlink()
    if state == "swapping":
        here.rename(dirs[0] / f"{ORDERS}.{bytes(16).hex()}-delete")
    if state == "lost":
        shutil.rmtree(here)


@pytest.mark.parametrize("state", ["asked", "copying", "copied", "swapping"])
def test_a_start_finishes_the_move_that_a_kill_has_interrupted(dirs: list[Path], state: str) -> None:
    state_after_kill(dirs, state)
    with MockKafka(data=dirs) as kafka:
        kafka.wait_until(lambda: not moving(kafka))
        assert values(kafka) == [b"a"]
        assert held(kafka) == [("a", []), ("b", [("orders", 0, False)])]
    assert [path.name for each in dirs for path in each.glob("orders*")] == [ORDERS]


@pytest.mark.parametrize("seed", range(2))
def test_a_kill_loses_nothing_that_was_acknowledged_while_partitions_move(places: list[Path], seed: int) -> None:
    crash_once(places, seed)


def test_an_incomplete_copy_does_not_stand_in_for_a_lost_folder(dirs: list[Path]) -> None:
    state_after_kill(dirs, "lost")
    with pytest.raises(DamagedFile, match=r"a/orders-0: it is missing, but the metadata has the partition"):
        MockKafka(data=dirs).start()


def test_a_move_that_fails_leaves_the_partition_where_it_is(dirs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(log: FolderLog, directory: Any, put: Callable[[Path], None]) -> None:
        raise OSError(28, "No space left on device")

    with MockKafka(data=dirs, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
        monkeypatch.setattr(FolderLog, "move", fails)
        assert ask_to_move(kafka, dirs[1]) == 0
        kafka.wait_until(lambda: not moving(kafka))
        monkeypatch.undo()
        kafka.produce("orders", value=b"b")
        assert held(kafka)[0][1] == [("orders", 0, False)]
        move(kafka, dirs[1])
        assert values(kafka) == [b"a", b"b"]


def test_a_swap_that_fails_in_the_middle_is_taken_back(places: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def fails(path: Path, target: Path) -> Path:
        if path.name.endswith("-future"):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    with MockKafka(data=places, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
        monkeypatch.setattr(Path, "rename", fails)
        assert ask_to_move(kafka, places[1]) == 0
        kafka.wait_until(lambda: not moving(kafka))
        monkeypatch.undo()
        kafka.produce("orders", value=b"b")
        assert values(kafka) == [b"a", b"b"]
    assert len([each for each in places if (each / ORDERS).is_dir()]) == 1


def test_a_move_is_complete_although_a_sync_after_it_fails(places: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    sync = files.sync

    def fails(path: Path) -> None:
        if path == places[1] and (path / ORDERS).is_dir():
            raise OSError(5, "Input/output error")
        sync(path)

    with MockKafka(data=places, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")
        monkeypatch.setattr(files, "sync", fails)
        move(kafka, places[1])
        monkeypatch.undo()
        where = kafka._call(lambda engine: engine.cluster.log_dirs.of(engine.cluster.topics["orders"].partitions[0], 1))
        assert where == str(places[1].resolve())
        assert values(kafka) == [b"a"]


def test_a_directory_that_cannot_be_written_to_takes_no_partition(dirs: list[Path]) -> None:
    with MockKafka(data=dirs, topics=["orders"]) as kafka:
        shutil.move(dirs[1], dirs[1].with_name("gone"))
        assert ask_to_move(kafka, dirs[1]) == 56
        shutil.move(dirs[1].with_name("gone"), dirs[1])


def test_a_move_is_given_up_for_another_and_for_a_deletion(dirs: list[Path], tmp_path: Path) -> None:
    dirs.append(tmp_path / "c")
    with MockKafka(data=dirs, topics=["orders"]) as kafka:
        kafka.produce("orders", value=b"a")

        def asked(engine: Any) -> None:
            (partition,) = engine.cluster.topics["orders"].partitions
            for each in (dirs[1], dirs[2], dirs[2]):
                engine.cluster.log_dirs.move(partition, 1, str(each.resolve()))
            assert [each.parent.name for each in tmp_path.glob("*/*-future")] == ["c"]
            assert engine.cluster.log_dirs.future(partition, 1) == str(dirs[2].resolve())

        kafka._call(asked)
        kafka.wait_until(lambda: not moving(kafka))
        assert [name for name, partitions in held(kafka) if partitions] == ["c"]
        assert values(kafka) == [b"a"]

        def back(engine: Any) -> None:
            (partition,) = engine.cluster.topics["orders"].partitions
            for each in (dirs[0], dirs[2]):
                engine.cluster.log_dirs.move(partition, 1, str(each.resolve()))

        kafka._call(back)
        kafka.wait_until(lambda: not moving(kafka))
        assert [name for name, partitions in held(kafka) if partitions] == ["c"]
        assert ask_to_move(kafka, dirs[0]) == 0
        kafka.delete_topic("orders")
        kafka.wait_until(lambda: not list(tmp_path.glob("*/orders*")))
        assert [partitions for _, partitions in held(kafka)] == [[], [], []]


def test_each_broker_keeps_its_own_placement(dirs: list[Path]) -> None:
    with MockKafka(data=dirs, brokers=2) as kafka:
        kafka.create_topic("orders", replication_factor=2)
        kafka.produce("orders", value=b"a")
        leader = kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0].leader)
        other = 3 - leader

        def asked(engine: Any) -> None:
            (partition,) = engine.cluster.topics["orders"].partitions
            engine.cluster.log_dirs.move(partition, other, str((dirs[1] / f"node-{other}").resolve()))

        kafka._call(asked)
    assert (dirs[0] / f"node-{leader}" / ORDERS).is_dir()
    with MockKafka(data=dirs, brokers=2) as kafka:
        placed = kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0].log_dirs)
        roots = {leader: dirs[0], other: dirs[1]}
        assert placed == {node: str((root / f"node-{node}").resolve()) for node, root in roots.items()}
        assert values(kafka) == [b"a"]


def test_a_restart_that_completes_a_reassignment_forgets_the_directories_of_removed_replicas() -> None:
    broker = InProcess(brokers=3, configs={"log.dirs": "/a,/b"}, topics={"orders": 1})
    partition = broker._call(lambda engine: engine.cluster.topics["orders"].partitions[0])
    (before,) = partition.replicas
    to = [node for node in (1, 2, 3) if node != before]
    broker.kill_broker(to[0])
    wanted = [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": to}]}]
    asked = plain("AlterPartitionReassignments", topics=wanted, timeout_ms=1000)
    assert client(broker, to[1] - 1).request(asked, 0).error_code == 0
    broker.restart("clean")
    assert partition.replicas == to
    assert partition.log_dirs.keys() == {*to}


def reassign(kafka: MockKafka, node: int) -> None:
    wanted = [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [node]}]}]
    assert client(kafka).request(plain("AlterPartitionReassignments", topics=wanted, timeout_ms=1000), 0).error_code == 0


def test_a_replica_that_comes_back_is_where_its_files_still_are(dirs: list[Path]) -> None:
    """The other directory has fewer partitions when the replica comes back."""
    with MockKafka(data=dirs, brokers=2, topics={"orders": 1}) as kafka:
        (partition,) = kafka._call(lambda engine: engine.cluster.topics["orders"].partitions)
        first = partition.leader
        there = {first: str((dirs[0] / f"node-{first}").resolve())}
        assert partition.log_dirs == there
        reassign(kafka, 3 - first)
        kafka.create_topic("more", partitions=2)
        reassign(kafka, first)
        assert partition.log_dirs == there
    with MockKafka(data=dirs, brokers=2) as kafka:
        assert kafka._call(lambda engine: engine.cluster.topics["orders"].partitions[0].log_dirs) == there


def test_a_move_is_given_up_when_its_replica_goes_to_another_broker(dirs: list[Path]) -> None:
    with MockKafka(data=dirs, brokers=2, topics={"orders": 1}) as kafka:
        (partition,) = kafka._call(lambda engine: engine.cluster.topics["orders"].partitions)
        first = partition.leader

        def asked(engine: Any) -> None:
            engine.cluster.log_dirs.move(partition, first, str((dirs[1] / f"node-{first}").resolve()))
            engine.controller.reassign(partition, [3 - first], engine.now)

        kafka._call(asked)
        kafka.wait_until(lambda: not kafka._call(lambda engine: dict(engine.cluster.log_dirs.moves)))
        assert partition.log_dirs.keys() == {3 - first}


def test_directories_that_do_not_belong_together_are_refused(dirs: list[Path], tmp_path: Path) -> None:
    with MockKafka(data=dirs, topics=["orders"]):
        pass
    with pytest.raises(DataError, match="a holds the metadata; name it before .*b"):
        MockKafka(data=dirs[::-1]).start()
    shutil.copytree(dirs[0] / ORDERS, dirs[1] / ORDERS)
    with pytest.raises(DataError, match="orders-0 and .*b/orders-0 are the same partition; move one of them elsewhere"):
        MockKafka(data=dirs).start()
    shutil.rmtree(dirs[1] / ORDERS)
    text = (dirs[1] / "meta.properties").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for name, value, why in (
        ("cluster.id", "another", "belongs to the cluster another"),
        ("node.id", "7", "the data of broker 7"),
    ):
        changed = [f"{name}={value}" if line.startswith(name) else line for line in lines]
        (dirs[1] / "meta.properties").write_text("\n".join(changed) + "\n")
        with pytest.raises(DataError, match=why):
            MockKafka(data=dirs).start()
    (dirs[1] / "meta.properties").write_text(text)
    with pytest.raises(ValueError, match=r"data: .*a is named twice"):
        MockKafka(data=[dirs[0], dirs[0]])
    with pytest.raises(ValueError, match="log.dirs is only for directories in memory"):
        MockKafka(data=dirs, configs={"log.dirs": "/a,/b"})
    with MockKafka(data=dirs) as kafka:
        assert held(kafka)[0][1] == [("orders", 0, False)]


def cluster_ids(*roots: Path) -> set[str]:
    return {read_properties(each)["cluster.id"] for root in roots for each in root.rglob("meta.properties")}


def test_each_new_cluster_has_an_id_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    def started(name: str, seed: int, brokers: int = 2) -> set[str]:
        roots = [tmp_path / name / part for part in "ab"]
        with MockKafka(data=roots, brokers=brokers, random_seed=seed) as kafka:
            told = client(kafka).request(DescribeClusterRequest(), 0).cluster_id  # type: ignore[attr-defined]
        assert cluster_ids(*roots) == {told}, "all log directories of all brokers have the cluster's id"
        return cluster_ids(*roots)

    first = started("first", 1)
    assert started("second", 2).isdisjoint(first)
    assert started("same seed", 1) == first, "--random-seed makes it again"
    assert started("first", 3) == first, "a restart keeps it"
    shutil.rmtree(tmp_path / "first" / "a")
    assert started("first", 3) == first, "a new log directory gets the id of the others"
    started("one", 1, brokers=1)
    with pytest.raises(DataError, match=r"one.a belongs to the cluster .*, and .*node-1 to the cluster "):
        MockKafka(data=[tmp_path / "second" / "a" / "node-1", tmp_path / "one" / "a"]).start()


def test_a_directory_that_is_missing_is_named(dirs: list[Path]) -> None:
    with MockKafka(data=dirs, topics=["orders", "payments"]):
        pass
    with pytest.raises(DamagedFile, match=r"payments-0: .* in another log directory"):
        MockKafka(data=dirs[0]).start()
    with MockKafka(data=dirs) as kafka:
        assert values(kafka, "payments") == []


@pytest.mark.parametrize(("release", "code"), [("2.1", 3), ("2.3", 17), ("4.4", 17)])
def test_a_move_of_an_unknown_partition_with_a_long_name(dirs: list[Path], release: str, code: int) -> None:
    """The expected responses are from real brokers."""
    with MockKafka(data=dirs, profile=f"kafka-{release}") as kafka:  # type: ignore[arg-type]
        assert ask_to_move(kafka, dirs[1], "x" * 249) == code
