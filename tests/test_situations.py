"""In every situation of tests/situations, wirebroker has the same responses as Kafka 4.3.1 and 4.4.0, which
scripts/record situations recorded.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from inprocess import InProcess
from kafkawire.declare import Struct
from kafkawire.entities import holders, lists, struct_lists
from kafkawire.registry import KEYS, request_class
from situations import SETTINGS, TABLES, recorded_by
from situations.lists import ALL
from situations.side import Side
from wirebroker.apis import SERVED

NEW = "CreateTopics"
"""In requests of this API, the topics of the partitions do not exist yet."""
RELEASES = {"kafka-4.3": "4.3.1", "kafka-4.4": "4.4.0"}


@pytest.mark.parametrize("profile", RELEASES)
@pytest.mark.parametrize("table", TABLES)
def test_each_situation_ends_as_on_kafka(table: str, profile: str) -> None:
    recorded = _recorded(table, RELEASES[profile])
    played = TABLES[table](Side(InProcess(profile=profile, configs=SETTINGS)))
    assert len(recorded) > 20
    assert played == recorded


def _recorded(table: str, version: str) -> dict[str, str]:
    packed = Path(__file__).with_name("data").joinpath(recorded_by(version)).read_bytes()
    recorded: dict[str, str] = json.loads(lzma.decompress(packed))[table]
    return recorded


def test_lists_are_played_for_every_api_that_has_them() -> None:
    assert {name for name in SERVED if _has_lists(request_class(KEYS[name]))} - {NEW} == {asked.api for asked in ALL}


def _has_lists(cls: type[Struct]) -> bool:
    """Tells whether a request has topics (by name or by id) that have lists of partitions."""
    elements = dict(struct_lists(cls))
    if holders(cls, "topicName") or holders(cls, "topicId"):
        partitions = holders(cls, "partition")
        if any(name in partitions or (name in elements and holders(elements[name], "partition")) for name in lists(cls)):
            return True
    return any(map(_has_lists, elements.values()))


@pytest.mark.parametrize("table", ["recreated", "waits"])
def test_a_fetch_in_slices_ends_as_on_kafka(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirebroker.apis.fetch.FEW", 0)
    assert TABLES[table](Side(InProcess(configs=SETTINGS))) == _recorded(table, "4.4.0")
