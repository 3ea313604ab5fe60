"""Damage to a data directory: a start refuses with a sentence, or serves what was acknowledged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wirebroker.mock import MockKafka
from wirebroker.storage.folder.faults import DamagedFile

LOG = f"{0:020d}.log"


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A directory that was stopped cleanly, with six batches in orders-0."""
    data = tmp_path / "data"
    with MockKafka(data=data, topics=["orders"]) as kafka:
        for number in range(6):
            kafka.produce("orders", value=b"%d" % number)
    return data


def test_a_log_that_ends_inside_a_batch_after_a_clean_stop_is_refused_at_once(stopped: Path) -> None:
    path = stopped / "orders-0" / LOG
    size = path.stat().st_size
    os.truncate(path, size - 1)
    with pytest.raises(DamagedFile) as refused:
        MockKafka(data=stopped).start()
    assert (refused.value.path, refused.value.position) == (path, size // 6 * 5)
