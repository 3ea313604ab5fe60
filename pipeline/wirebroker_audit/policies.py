"""Which topics are compacted, as the cluster's metadata says: it lies beside the logs, on every node of a cluster.

The cleaner's checkpoint says how far it came in a log of its own broker. A replica that was copied from one that had been
compacted has no line in it, and holes all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

from kafkawire.batches import iter_records, read_header
from kafkawire.declare import Message
from kafkawire.disk.metadata import BROKER, TOPIC, Image
from kafkawire.errors import ProtocolError
from kafkawire.metadata_log import Transactions, read_metadata
from wirebroker_audit.scan import walk

METADATA_FOLDER = "__cluster_metadata-0"
_SNAPSHOT = re.compile(r"(\d{20})-\d{10}\.checkpoint")
_SEGMENT = re.compile(r"(\d{20})\.log")


def compacted_topics(log_dir: Path) -> frozenset[str]:
    """The topics with `cleanup.policy` compact; none where there is no metadata, and as far as it can be read."""
    image = Image()
    with suppress(OSError, ProtocolError, KeyError):
        for record in _records(log_dir / METADATA_FOLDER):
            image.apply(record)
    default = image.settings.get((BROKER, ""), {}).get("log.cleanup.policy", "")
    names = (topic.name for topic in image.topics.values())
    return frozenset(
        name for name in names if "compact" in image.settings.get((TOPIC, name), {}).get("cleanup.policy", default)
    )


def _records(folder: Path) -> Iterator[Message]:
    """The newest snapshot, and what was written behind it. Raises OSError, ProtocolError."""
    files = sorted(folder.iterdir())
    snapshots = [(int(match[1]), each) for each in files if (match := _SNAPSHOT.fullmatch(each.name))]
    since, transactions = 0, Transactions()
    if snapshots:
        since, newest = snapshots[-1]
        yield from _records_in(newest, 0, transactions)
    segments = [(int(match[1]), each) for each in files if (match := _SEGMENT.fullmatch(each.name))]
    ends = [first for first, _ in segments[1:]]
    for (_, path), end in zip_longest(segments, ends):
        if end is None or end > since:  # the snapshot has what is in the others
            yield from _records_in(path, since, transactions)


def _records_in(path: Path, since: int, transactions: Transactions) -> Iterator[Message]:
    view = memoryview(path.read_bytes())
    for position in walk(view, 0, len(view)).positions:
        header = read_header(view[position:])
        if header.base_offset >= since and not header.is_control:
            for record in iter_records(view[position : position + header.size]):
                yield from transactions.take(*read_metadata(record.value or b""))
