"""Reads the unclean elections from the metadata under a directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kafkawire.disk.elections import UNKNOWN, History, UncleanElection, read_history, unclean_elections
from kafkawire.disk.names import METADATA_FOLDER
from kafkawire.disk.properties import META_PROPERTIES, read_properties
from wirebroker_audit.logs.durability import Durability, durability_in
from wirebroker_audit.reading.folders import PartitionFolder
from wirebroker_audit.reading.remote import is_remote


class Elections(NamedTuple):
    """The unclean elections of a cluster, how far each node's metadata reaches, and the topics' settings."""

    found: Sequence[UncleanElection] = ()
    ends: Mapping[int, int] = {}
    """the end offset of each node's `__cluster_metadata`: the node has learned of the elections at lower offsets"""
    begins_ms: int = UNKNOWN
    """elections before this time are not known; −1 without metadata"""
    durability: Mapping[str, Durability] = {}
    """the settings of each topic; empty without metadata"""


def read_elections(root: Path, folders: Iterable[PartitionFolder]) -> Elections:
    """Returns the elections in the metadata of the folders' log directories and of the directories in `root`."""
    log_dirs = {each.path.parent for folder in folders for each in (folder, *folder.others)} | {root}
    if not is_remote(root):  # in a remote file system each folder would cost a request
        with suppress(OSError):
            log_dirs |= {each for each in root.iterdir() if (each / METADATA_FOLDER).is_dir()}  # metadata.log.dir
    histories: list[History] = []
    ends: dict[int, int] = {}
    for log_dir in sorted(log_dirs):
        if (history := read_history(log_dir)) is None:
            continue
        histories.append(history)
        with suppress(OSError, ValueError):
            ends[int(read_properties(log_dir / META_PROPERTIES).get("node.id", ""))] = history.end
    begins = [each.begins_ms for each in histories if each.begins_ms >= 0]
    newest = max(histories, key=lambda each: (each.leader_epoch, each.end), default=None)
    settings = {} if newest is None else durability_in(newest.image)
    return Elections(unclean_elections(histories), ends, min(begins, default=UNKNOWN), settings)
