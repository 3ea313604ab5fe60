"""Log directories in an object store, read through pyarrow from a small S3. No Spark here."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import make_directory
from audit_spark.tiny_s3 import serving
from wirebroker import MockKafka
from wirebroker_audit import remote
from wirebroker_audit.directory import NotALogDirectory, read_directory
from wirebroker_audit.places import BadPlace, log_path
from wirebroker_audit.remote import RemotePath, place
from wirebroker_audit.segments import Split, read_split
from wirebroker_audit.splits import find_splits


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the buckets of an S3 that the environment names."""
    (tmp_path / "s3").mkdir()
    with serving(tmp_path / "s3") as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "any")
        remote._s3.cache_clear()
        yield tmp_path / "s3"
    remote._s3.cache_clear()


def rows(split: Split) -> list[dict[str, Any]]:
    return [row | {"detail": ""} for chunk in read_split(split) for row in chunk.rows.to_pylist()]


def test_every_batch_and_every_damage_is_read_as_from_a_disk(s3: Path) -> None:
    logs = s3 / "faults" / "logs"
    make_directory(logs, seed=5, partitions=4)
    here, there = find_splits(logs), find_splits(log_path("s3a://faults/logs", "--path"))
    assert [(each.segment, each.start, each.stop, each.is_active) for each in there] == [
        (each.segment, each.start, each.stop, each.is_active) for each in here
    ]
    assert there[0].path.startswith("s3a:/faults/logs/")
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


def test_places_that_are_not_there(s3: Path) -> None:
    (s3 / "empty").mkdir()
    with pytest.raises(NotALogDirectory, match=r"s3a:/empty/logs does not exist"):
        read_directory(place("s3a://empty/logs"))
    with pytest.raises(BadPlace, match="the audit cannot open ftp: addresses"):
        log_path("ftp://host/logs", "--path")


def test_an_address_is_a_path_that_keeps_its_scheme_and_travels(tmp_path: Path) -> None:
    path = place("S3A://bucket/logs") / "orders-0"
    assert isinstance(path, RemotePath)
    assert (str(path), path.name, str(path.parent)) == ("s3a:/bucket/logs/orders-0", "orders-0", "s3a:/bucket/logs")
    assert pickle.loads(pickle.dumps(path)) == place(str(path)) == path
    assert place(tmp_path) == tmp_path
    assert os.fspath(place("logs")) == "logs"
