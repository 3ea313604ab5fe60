"""Records of __cluster_metadata and __remote_log_metadata in Kafka's own format: frame version, kind and version (unsigned
varints), then a message (AbstractApiMessageSerde)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from kafkawire.codec import decode, encode
from kafkawire.declare import Message
from kafkawire.errors import ProtocolError
from kafkawire.metadata_records import METADATA_RECORDS
from kafkawire.primitives import Buffer, read_uvarint
from kafkawire.remote_records import REMOTE_RECORDS

FRAME_VERSION = 1
BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25
"""These records have a kind and no content. Records between BEGIN and END take effect together; records between BEGIN and ABORT
never take effect.
"""


class Transactions:
    """Holds back the records of a transaction. At the transaction's end, returns all of them together, or drops them."""

    def __init__(self) -> None:
        self._pending: list[Message] | None = None

    def take(self, kind: int, record: Message | None) -> list[Message]:
        """Returns the records that take effect with this record. `kind` and `record` are the values that `read_metadata`
        returned."""
        if kind == BEGIN_TRANSACTION:
            self._pending = []
        elif kind in (END_TRANSACTION, ABORT_TRANSACTION):
            ended, self._pending = self._pending or [], None
            return ended if kind == END_TRANSACTION else []
        elif record is not None and self._pending is not None:
            self._pending.append(record)
        elif record is not None:
            return [record]
        return []


def metadata_bytes(record: Message, version: int) -> bytes:
    """Returns the bytes of a record's value. `version` is the version of the record's class. Kinds and versions are below 128,
    so each takes one byte."""
    kind = record.__schema__.key
    assert kind is not None
    return bytes([FRAME_VERSION, kind, version]) + encode(record, version)


def read_metadata(value: Buffer) -> tuple[int, Message | None]:
    """Returns the kind of a record, and the record itself if the kind is in `METADATA_RECORDS`. Raises ProtocolError."""
    return _read(value, "metadata_records", METADATA_RECORDS)


def read_remote(value: Buffer) -> tuple[int, Message | None]:
    """Returns the kind of a record of __remote_log_metadata, and the record itself if the kind is in `REMOTE_RECORDS`. Raises
    ProtocolError."""
    return _read(value, "remote_records", REMOTE_RECORDS)


def _read(value: Buffer, package: str, kinds: Mapping[int, tuple[str, str]]) -> tuple[int, Message | None]:
    try:
        frame, at = read_uvarint(value, 0)
        kind, at = read_uvarint(value, at)
        version, at = read_uvarint(value, at)
    except IndexError as short:
        raise ProtocolError(f"a metadata record of {len(value)} bytes") from short
    if frame != FRAME_VERSION:
        raise ProtocolError(f"the metadata record has the frame version {frame}, expected {FRAME_VERSION}")
    if kind not in kinds:
        return kind, None
    record, _ = decode(_record_class(package, *kinds[kind]), value, version, at)
    return kind, record


@cache
def _record_class(package: str, module: str, name: str) -> type[Message]:
    found: type[Message] = getattr(import_module(f"kafkawire.{package}.{module}"), name)
    return found
