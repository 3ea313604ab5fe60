"""In every situation of tests/situations wirebroker responds as Kafka 4.3.1 and 4.4.0 did (scripts/record-situations)."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from inprocess import InProcess
from situations import SETTINGS, TABLES, recorded_by
from situations.side import Side

RELEASES = {"kafka-4.3": "4.3.1", "kafka-4.4": "4.4.0"}


@pytest.mark.parametrize("profile", RELEASES)
@pytest.mark.parametrize("table", TABLES)
def test_each_situation_ends_as_on_kafka(table: str, profile: str) -> None:
    packed = Path(__file__).with_name("data").joinpath(recorded_by(RELEASES[profile])).read_bytes()
    recorded = json.loads(lzma.decompress(packed))[table]
    played = TABLES[table](Side(InProcess(profile=profile, configs=SETTINGS)))
    assert len(recorded) > 40
    assert played == recorded
