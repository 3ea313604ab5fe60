"""Log directories in an object store, read through pyarrow from a small S3. No Spark here."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

import pyarrow as pa

from audit_spark.synthetic import Writer, make_directory
from audit_spark.tiny_s3 import serving
from wirebroker import MockKafka
from wirebroker_audit.logs.directory import NotALogDirectory, read_directory
from wirebroker_audit.logs.places import BadPlace, log_path
from wirebroker_audit.logs.planning import find_pieces
from wirebroker_audit.reading import remote
from wirebroker_audit.reading.pieces import Piece
from wirebroker_audit.reading.reader import read_piece
from wirebroker_audit.reading.remote import RemotePath, place


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Starts an S3, puts its address into the environment, and returns the folder of its buckets."""
    (tmp_path / "s3").mkdir()
    with serving(tmp_path / "s3") as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "any")
        remote._s3.cache_clear()
        yield tmp_path / "s3"
    remote._s3.cache_clear()


def rows(piece: Piece) -> list[dict[str, Any]]:
    return [row | {"detail": ""} for chunk in read_piece(piece) for row in chunk.rows.to_pylist()]


def test_every_batch_and_every_damage_is_read_as_from_a_disk(s3: Path) -> None:
    logs = s3 / "faults" / "logs"
    make_directory(logs, seed=5, partitions=4)
    here, there = find_pieces(logs), find_pieces(log_path("s3a://faults/logs", "--path"))
    assert [(each.segment, each.begin, each.end, each.is_active) for each in there] == [
        (each.segment, each.begin, each.end, each.is_active) for each in here
    ]
    assert str(there[0].path).startswith("s3a://faults/logs/")
    assert [rows(each) for each in there] == [rows(each) for each in here]


def test_a_brokers_checkpoints_and_metadata_are_read(s3: Path) -> None:
    with MockKafka(topics=["orders:2", "table:1:cleanup.policy=compact"], data=s3 / "broker" / "logs") as kafka:
        for number in range(5):
            kafka.produce("orders", value=f"{number}", partition=number % 2)
    here, there = read_directory(s3 / "broker" / "logs"), read_directory(place("s3a://broker/logs"))
    names = ("topic", "partition", "begins_at", "cleaned_until", "topic_id", "high_watermark", "was_stopped", "node")
    facts = [[tuple(getattr(each, name) for name in names) for each in found.partitions] for found in (here, there)]
    assert facts[0] == facts[1]
    assert len(facts[0]) == 3
    assert there.problems == here.problems == []
    with pytest.raises(NotALogDirectory, match="holds no topic payments"):
        read_directory(place("s3a://broker/logs"), ("payments",))


def test_what_a_store_refuses_is_an_os_error(s3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a store refuses access, as Azure does without credentials, Arrow raises an exception that is not an OSError."""

    def refuse(path: object) -> None:
        raise pa.ArrowException("Unknown error: no token\nSee Azure")

    monkeypatch.setattr("wirebroker_audit.reading.remote._system", refuse)
    with pytest.raises(OSError, match="no token") as refused:
        place("s3a://broker/logs").is_dir()
    assert (refused.value.filename, refused.value.strerror) == ("s3a://broker/logs", "Unknown error: no token")


def test_places_that_are_not_there(s3: Path) -> None:
    (s3 / "empty").mkdir()
    with pytest.raises(NotALogDirectory, match=r"s3a://empty/logs does not exist"):
        read_directory(place("s3a://empty/logs"))
    with pytest.raises(BadPlace, match="the audit cannot open ftp: addresses"):
        log_path("ftp://host/logs", "--path")


def test_segments_of_tiered_storage_are_named_and_not_taken_for_a_log(s3: Path) -> None:
    folder = s3 / "tiered" / "orders-4KVWbYsSQ6CGrd1Rcczhqg" / "0"
    folder.mkdir(parents=True)
    (folder / "00000000000000000042-xtzWWN4bTjitpL3kfd9s5g.log").write_bytes(b"x")
    for root in (s3 / "tiered", place("s3a://tiered/orders-4KVWbYsSQ6CGrd1Rcczhqg")):
        with pytest.raises(NotALogDirectory, match=r"holds segments of tiered storage, such as .*/0{18}42-xtz.*--bootstrap"):
            read_directory(root)


def test_what_tiered_storage_has_taken_over_is_not_missing(tmp_path: Path) -> None:
    log = Writer("orders", 0, random.Random(1))
    for number in range(6):
        log.roll() if number == 3 else None
        log.data(1, count=2)
    log.save(tmp_path)
    (tmp_path / "orders-0" / f"{0:020d}.log").unlink()  # with tiered storage the log start offset stays 0
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 0\n")
    (only,) = read_directory(tmp_path).partitions
    assert only.begins_at == 6


def test_an_address_is_a_path_that_keeps_its_scheme_and_travels(tmp_path: Path) -> None:
    path = place("S3A://bucket/logs") / "orders-0"
    assert isinstance(path, RemotePath)
    assert (str(path), path.name, str(path.parent)) == ("s3a://bucket/logs/orders-0", "orders-0", "s3a://bucket/logs")
    assert pickle.loads(pickle.dumps(path)) == place(str(path)) == path
    assert place(tmp_path) == tmp_path
    assert os.fspath(place("logs")) == "logs"
