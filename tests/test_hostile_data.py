"""Data directories made by an attacker. A broker serves or refuses such a directory, and never reads or changes anything
outside the directory.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hostilekit import start, with_records
from kafkawire.disk.damage import DataError
from kafkawire.metadata_records.config_record import ConfigRecord
from kafkawire.metadata_records.partition_record import PartitionRecord
from kafkawire.metadata_records.producer_ids_record import ProducerIdsRecord
from kafkawire.metadata_records.topic_record import TopicRecord
from wirebroker import MockKafka
from wirebroker.commands.cli import main
from wirebroker.storage import files, metadata

LOG = "orders-0/00000000000000000000.log"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile") / "data"
    with MockKafka(data=root, topics={"orders": 1}) as kafka:
        kafka.produce("orders", value=b"v")
    return root


@pytest.fixture
def data(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "data"))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.mkdir()
    (path / "precious").write_bytes(b"precious\n" * 100)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(data: Path) -> str:
    """Starts a broker on a directory that it must refuse. Returns the message."""
    said = start(data)
    assert said, "the broker did not refuse the directory"
    assert said.isprintable(), "the message must be one line without control characters"
    return said


PLACES = (
    "meta.properties", "meta.properties.tmp", ".lock", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint",
    "recovery-point-offset-checkpoint.tmp", "replication-offset-checkpoint.tmp", "cleaner-offset-checkpoint",
    LOG, "orders-0/00000000000000000000.index", "orders-0/00000000000000000001.snapshot", "orders-0/partition.metadata",
    "orders-0/leader-epoch-checkpoint.tmp", "orders-0/00000000000000000000.log.swap", "orders-0", "orders-1",
    "__cluster_metadata-0/00000000000000000000.log", "__cluster_metadata-0",
)  # fmt: skip


def symbolic(path: Path, target: Path) -> None:
    path.symlink_to(target)


def dangling(path: Path, target: Path) -> None:
    path.symlink_to(target.with_name("made"))


def hard(path: Path, target: Path) -> None:
    if target.is_dir():
        pytest.skip("folders have no hard links")
    os.link(target, path)


def pipe(path: Path, target: Path) -> None:
    os.mkfifo(path)


def listening(path: Path, target: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the path of a Unix socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(before)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders, and links only for administrators")
@pytest.mark.parametrize("lead", [symbolic, dangling, hard, pipe, listening])
@pytest.mark.parametrize("place", PLACES)
def test_nothing_but_files_and_folders_is_taken(
    data: Path, outside: Path, place: str, lead: Callable[[Path, Path], None]
) -> None:
    path, before = data / place, contents(outside)
    target = outside / "precious"
    if path.is_dir():
        path.rename(outside / "folder")
        target, before = outside / "folder", contents(outside)
    path.unlink(missing_ok=True)
    lead(path, target)
    assert str(path) in refusal(data)
    assert contents(outside) == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has links only for administrators")
def test_the_command_says_it_in_one_sentence(data: Path, outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / LOG).unlink()
    (data / LOG).symlink_to(outside / "precious")
    assert main(["serve", "--port", "0", "--data", str(data)]) == 2
    assert capsys.readouterr().err == (
        f"wirebroker serve: {data / LOG}: this is a symbolic link; a log directory holds only files and folders. Put "
        "the file or folder itself here\n"
    )


@pytest.mark.skipif(os.name == "nt", reason="Windows has links only for administrators")
def test_the_folder_of_a_broker_is_one(tmp_path: Path, outside: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "node-2").symlink_to(outside)
    with pytest.raises(DataError, match="node-2: this is a symbolic link"):
        MockKafka(brokers=2, data=data).start()
    assert list(contents(outside)) == ["precious"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has links only for administrators")
def test_a_link_that_is_made_later_leads_nowhere(data: Path, outside: Path) -> None:
    """While a broker runs, another user creates links at paths where the broker will create files."""
    before = contents(outside)
    with MockKafka(data=data) as kafka:
        for name in ("recovery-point-offset-checkpoint.tmp", "cleaner-offset-checkpoint.tmp"):
            (data / name).symlink_to(outside / "precious")
        (data / "made-0").symlink_to(outside)
        with pytest.raises(OSError, match="made-0: this is a symbolic link"):
            kafka.create_topic("made")
        kafka._call(lambda engine: engine.store.checkpoint())  # type: ignore[union-attr]
    assert contents(outside) == before


def test_without_flags_of_the_system_links_are_seen(outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs without O_NOFOLLOW and O_NONBLOCK, which Windows does not have."""
    for module in (files.opening, files):
        monkeypatch.setattr(module, "PLAIN", 0)
    monkeypatch.setattr(files.opening, "_NO_LINKS", 0)
    before, path = contents(outside), tmp_path / "file"
    files.write(path, b"one")
    files.write(path, b"2")
    files.replace(path, path.read_bytes() + b"3")
    assert path.read_bytes() == b"23"
    for target in ("precious", "missing"):
        path.unlink()
        path.symlink_to(outside / target)
        with pytest.raises(OSError, match="this is a symbolic link|File exists"):
            files.write(path, b"x")
        with pytest.raises(OSError, match="this is a symbolic link|No such file"):
            files.opening.read_whole(path)
    assert contents(outside) == before


NAMES = (
    "../../pwned1",
    "../up",
    "/abs",
    "a/b",
    "a\\b",
    "a\0b",
    ".",
    "..",
    "",
    "x" * 250,
    "y" * 10_000,
    "\x1b[31mred",
    "__cluster_metadata",
)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_a_topic_is_named_as_kafka_names_topics(data: Path, tmp_path: Path, name: str) -> None:
    with_records(data, [TopicRecord(name=name, topic_id=b"\7" * 16), _partition(b"\7" * 16)])
    before = sorted(tmp_path.rglob("*"))
    assert "a topic is named" in refusal(data)
    assert sorted(tmp_path.rglob("*")) == before


def _partition(topic_id: bytes, index: int = 0, epoch: int = 0) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], removing_replicas=[], adding_replicas=[], leader=1,
        leader_epoch=epoch, partition_epoch=0, directories=[bytes(16)],
    )  # fmt: skip


NEW = TopicRecord(name="new", topic_id=b"\7" * 16)
NUMBERS = {
    "the partitions 0, 2147483647; the numbers": [NEW, _partition(NEW.topic_id), _partition(NEW.topic_id, 2**31 - 1)],
    "the partitions -1; the numbers must": [NEW, _partition(NEW.topic_id, -1)],
    "leader epoch that is not": [NEW, _partition(NEW.topic_id, epoch=2**31 - 1)],
    "Two topics have this name": [NEW, TopicRecord(name="new", topic_id=b"\6" * 16)],
    "next producer id is": [ProducerIdsRecord(broker_id=1, broker_epoch=0, next_producer_id=2**63 - 1)],
}


@pytest.mark.parametrize("said", NUMBERS)
def test_numbers_that_no_kafka_writes_are_a_sentence(data: Path, said: str) -> None:
    with_records(data, NUMBERS[said])
    begun = time.process_time()
    assert said in refusal(data)
    assert time.process_time() - begun < 2


def test_a_start_makes_no_more_folders_than_it_may(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirebroker.storage.loading.FOLDERS_MADE", 20)
    with_records(data, [NEW, *(_partition(NEW.topic_id, index) for index in range(30))])
    assert "it names 31 partitions, but there are folders for only 1; a start makes at most 20 folders" in refusal(data)
    assert not (data / "new-0").exists()


def test_settings_that_nobody_could_have_set_are_left_out(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    def setting(kind: int, resource: str, name: str, value: str) -> ConfigRecord:
        return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)

    with_records(data, [
        setting(4, "../1", "log.retention.ms", "1"), setting(32, "g", "consumer.session.timeout.ms", "often"),
        setting(16, "s", "interval.ms", "never"), setting(4, "1", "log.dirs", "/elsewhere"),
    ])  # fmt: skip
    with MockKafka(data=data) as kafka:
        assert [record.value for record in kafka.records("orders")] == [b"v"]
    for what in ("broker '../1'", "group 'g'", "subscription 's'", "broker '1'"):
        assert f"of {what} are not used" in caplog.text


SPARSE = ("meta.properties", "recovery-point-offset-checkpoint", LOG, "orders-0/00000000000000000000.timeindex",
          "orders-0/partition.metadata", "orders-0/leader-epoch-checkpoint", "__cluster_metadata-0/00000000000000000000.log",
          "orders-0/00000000000000000001.snapshot", "orders-0/00000000000000000000.txnindex")  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="needs sparse files")
@pytest.mark.parametrize("place", SPARSE)
def test_a_file_of_a_terabyte_is_not_read_whole(data: Path, place: str) -> None:
    with (data / place).open("ab") as file:
        file.truncate(1 << 40)
    said = start(data)
    assert not said or f"{data / place}: it has {1 << 40} bytes" in said


def test_a_large_batch_is_read_once_its_crc_is_known(data: Path) -> None:
    path = data / LOG
    raw = bytearray(path.read_bytes())
    raw[8:12] = (1 << 30).to_bytes(4, "big")
    path.write_bytes(raw)
    with path.open("ab") as file:
        file.truncate((1 << 30) + 12)
    assert "the CRC of the batch does not match its bytes" in refusal(data)


def test_only_windows_refuses_the_names_of_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("nul.x", "CON.a.b", "com1.", "nul", "console.x", "lpt0.x")
    assert [metadata._name_error(name) for name in names] == [""] * 6
    monkeypatch.setattr(metadata.os, "name", "nt")
    assert [bool(metadata._name_error(name)) for name in names] == [True, True, True, False, False, False]


@pytest.mark.parametrize("number", ["9" * 5000, "²", "-1", "x"], ids=["long", "square", "negative", "letter"])
def test_the_id_of_a_broker_is_a_number(data: Path, number: str) -> None:
    (data / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id=c\n")
    assert "meta.properties: the node id is '" in refusal(data)
