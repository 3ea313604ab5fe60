"""meta.properties and partition.metadata: small files of names and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kafkawire.checksums import crc32c
from kafkawire.disk.damage import DamagedFile
from kafkawire.disk.opening import read_text
from kafkawire.primitives import format_uuid, parse_uuid

META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLUSTER_ID = "cluster.id"
_CRC = "#crc32c="


def read_properties(path: Path) -> dict[str, str]:
    """Returns the pairs in a file of Java properties, in the form that Kafka writes. Raises DamagedFile."""
    pairs = {}
    text = _text(path)
    before, mark, crc = text.rpartition(_CRC)
    if mark and crc.strip() != _crc_of(before):
        raise DamagedFile(
            path, f"the CRC in its last line does not match; correct it, or remove the line '{_CRC}{crc.strip()}'"
        )
    for line in text.splitlines():
        if line.strip() and not line.startswith(("#", "!")):
            name, _, value = line.partition("=")
            pairs[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return pairs


def two_clusters(cluster_ids: Iterable[tuple[Path, str]]) -> str:
    """Returns a sentence about two of these directories that belong to different clusters, or "" if all belong to the same
    cluster."""
    pairs = list(cluster_ids)
    for directory, cluster_id in pairs[1:]:
        first, first_id = pairs[0]
        if cluster_id != first_id:
            return f"{directory} belongs to the cluster {cluster_id}, and {first} to the cluster {first_id}"
    return ""


def properties_text(pairs: Mapping[str, str]) -> str:
    """Returns the pairs as Kafka writes them, with their CRC in a comment."""
    text = "#\n" + "".join(f"{name}={value}\n" for name, value in pairs.items())
    return f"{text}{_CRC}{_crc_of(text)}\n"


def _crc_of(text: str) -> str:
    return f"{crc32c(text.encode()):08x}"


def read_partition_metadata(path: Path) -> bytes:
    """Returns the topic id in a partition.metadata. Raises DamagedFile."""
    pairs = dict(line.partition(":")[::2] for line in _text(path).splitlines())
    if pairs.get("version", "").strip() != "0":
        raise DamagedFile(path, "the file is not a partition.metadata of version 0")
    try:
        return parse_uuid(pairs.get("topic_id", "").strip())
    except ValueError:
        raise DamagedFile(path, f"the topic id {pairs.get('topic_id', '').strip()!r} is not an id") from None


def partition_metadata_text(topic_id: bytes) -> str:
    """Returns the text of the file that holds the topic id of a folder (PartitionMetadataFile)."""
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}\n"


def _text(path: Path) -> str:
    try:
        text = read_text(path)
    except UnicodeDecodeError:
        raise DamagedFile(path, "this is not text") from None
    if "\0" in text:
        raise DamagedFile(path, "this is not text", text.index("\0"))
    return text
