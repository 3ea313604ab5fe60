"""For the same deeds, wirebroker's coordinators and controller write the same records as those of a real Kafka."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from coordinator_deeds import SETTINGS, Deeds
from inprocess import InProcess
from kafkawire.batches import iter_batches, iter_records
from wirebroker.core.cluster import Cluster
from wirebroker.core.groups.metadata_hash import metadata_hash
from wirebroker.core.profile import ProfileName

RECORDED = json.loads(lzma.decompress((Path(__file__).parent / "data/coordinator-records.json.xz").read_bytes()))
"""For each profile: the names of the deeds, and the records that a real Kafka wrote for each deed."""


@pytest.mark.parametrize("profile", RECORDED)
def test_every_deed_leaves_kafkas_records(profile: ProfileName) -> None:
    broker = InProcess(configs=SETTINGS, profile=profile)
    deeds = Deeds(broker.link().request, lambda seconds: broker.clock.advance(seconds=seconds))
    played = json.loads(json.dumps(list(deeds.play())))
    assert [name for name, _ in played] == [name for name, _ in RECORDED[profile]]
    expected = {name: records for name, records in RECORDED[profile] if records}
    assert {name: records for name, records in played if records} == expected


PARTITION, PARTITION_CHANGE = 3, 5
"""The numbers of those kinds of records that are about partitions."""
TOPICS = {
    "d1": ("5d5d4525196b4aa8a3a39d7cf46f5e95", 3), "d2": ("6f553c216337418b9d907acfb72b6f56", 2),
    "wide": ("c684af5bce3949918a81661eaebb24ae", 70), "x" * 60: ("a30d207d410d41128dd29bad3af3c3bc", 30),
}  # fmt: skip


@pytest.mark.parametrize(
    ("names", "hashed"),
    [
        ([], 0), (["d1"], -5618565307261673313), (["d2", "d1"], -2937186618069289118), (["wide"], -2036349944036361141),
        (["x" * 60], -5312473848997299500), ([*TOPICS], -4999743952345842681),
    ],
)  # fmt: skip
def test_the_hash_of_a_groups_topics_is_kafkas(names: list[str], hashed: int) -> None:
    cluster: Cluster = InProcess().engine.cluster
    facts: dict[str, Any] = {name: (bytes.fromhex(TOPICS[name][0]), TOPICS[name][1]) for name in names}
    assert metadata_hash(facts, cluster) == hashed


@pytest.mark.parametrize(("profile", "version"), [("kafka-3.9", 1), ("kafka-4.0", 2), ("kafka-4.4", 2)])
def test_records_of_partitions_have_the_version_of_the_metadata_level(
    tmp_path: Path, profile: ProfileName, version: int
) -> None:
    broker = InProcess(data=tmp_path, profile=profile)
    broker.create_topic("orders", 3)
    broker.restart()  # the leaders of the partitions change
    store = broker.engine.store
    assert store is not None
    values = [record.value for batch in iter_batches(store.metadata.path.read_bytes()) for record in iter_records(batch)]
    kinds = [(value[1], value[2]) for value in values if value and value[1] in (PARTITION, PARTITION_CHANGE)]
    assert {kind for kind, _ in kinds} == {PARTITION, PARTITION_CHANGE}
    assert {each for _, each in kinds} == {version}
    store.close(broker.clock.now())
    assert len(InProcess(data=tmp_path, profile=profile).engine.cluster.topics["orders"].partitions) == 3
