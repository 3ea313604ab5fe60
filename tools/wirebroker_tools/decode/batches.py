"""Converts record data to plain data and back. The plain data of a batch are the fields of its header, the result of the CRC
check, and its records."""

from __future__ import annotations

from typing import Any

from kafkawire.batches import (
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC_AT,
    TRANSACTIONAL,
    BatchHeader,
    CorruptBatch,
    Record,
    crc_of,
    iter_records,
    next_batch_size,
    read_header,
    record_bytes,
    seal,
    write_record,
)
from kafkawire.compression import NAMES, CodecMissing, compress
from kafkawire.errors import ProtocolError
from kafkawire.primitives import Buffer
from wirebroker_tools.decode.embedded import embedded_bytes, in_marker, in_record
from wirebroker_tools.decode.message_sets import entry_bytes, plain_entry
from wirebroker_tools.decode.plain import PlainError, bytes_of, plain_bytes

FLAGS = {
    LOG_APPEND_TIME: "log_append_time", TRANSACTIONAL: "transactional", CONTROL: "control", DELETE_HORIZON: "delete_horizon",
}  # fmt: skip
NUMBERS = (
    "base_offset", "partition_leader_epoch", "magic", "last_offset_delta", "base_timestamp", "max_timestamp", "producer_id",
    "producer_epoch", "base_sequence", "records_count",
)  # fmt: skip
"""The fields of a batch header that are copied as numbers."""
CODEC_MASK = 0x07
MAGIC = 2
"""The magic byte of a batch. An entry of a message set has the magic byte 0 or 1 at the same position."""


CUT = "cut_batch_of"
"""In plain data, the field with the full size of a batch that is cut off."""


class RecordData:
    """Reads record data. `complaints` has a sentence about each damaged part, with the position of the part in the whole
    input. With `may_be_cut`, an incomplete last batch is not damage: Kafka cuts the records of a Fetch response at
    `partition_max_bytes`."""

    def __init__(self, may_be_cut: bool = False) -> None:
        self.complaints: list[str] = []
        self._may_be_cut = may_be_cut

    def read(self, data: Buffer, topic: str | None, at: int, path: str) -> list[dict[str, Any]]:
        """Returns the batches. Bytes that are not a whole batch become `{"hex": …}`. `at` is the position of `data` in the
        whole input."""
        view, pos = memoryview(data), 0
        found: list[dict[str, Any]] = []
        while pos < len(view):
            where = f"{path}[{len(found)}] at byte {at + pos}"
            try:
                size = next_batch_size(view, pos)
            except CorruptBatch as damage:
                self._complain(f"{where}: {damage}")
                size = None
            else:
                if self._may_be_cut and (size is None or size > len(view) - pos):
                    found.append(({} if size is None else {CUT: size}) | {"hex": bytes(view[pos:]).hex()})
                    break
                if size is None or size > len(view) - pos:
                    self._complain(f"{where}: the batch has {size or 'more'} bytes, and {len(view) - pos} are left")
            whole = size is not None and size <= len(view) - pos
            plain = self._entry(view[pos : pos + size], topic, where) if whole and size is not None else None
            if plain is None or size is None:
                found.append({"hex": bytes(view[pos:]).hex()})
                break
            found.append(plain)
            pos += size
        return found

    def _complain(self, sentence: str) -> None:
        self.complaints.append(sentence)

    def _entry(self, entry: memoryview, topic: str | None, where: str) -> dict[str, Any] | None:
        """Returns a whole batch or an entry of a message set as plain data, or None if it cannot be parsed."""
        magic = entry[MAGIC_AT]
        if magic == MAGIC and len(entry) >= HEADER_SIZE:
            return self._batch(entry, topic, where)
        try:
            if magic < MAGIC:
                plain, complaint = plain_entry(entry, topic)
                if complaint:
                    self._complain(f"{where}: {complaint}")
                return plain
            self._complain(f"{where}: a batch of {len(entry)} bytes is shorter than its header")
        except ProtocolError as damage:
            self._complain(f"{where}: {damage}")
        return None

    def _batch(self, batch: memoryview, topic: str | None, where: str) -> dict[str, Any]:
        header, computed = read_header(batch), crc_of(batch)
        flags = [name for bit, name in FLAGS.items() if header.attributes & bit]
        flags += [f"bit {bit}" for bit in range(7, 16) if header.attributes >> bit & 1]
        codec = header.compression
        plain: dict[str, Any] = {name: getattr(header, name) for name in NUMBERS} | {
            "crc": f"{header.crc:#010x}", "crc_right": header.crc == computed,
            "compression": NAMES[codec] if codec < len(NAMES) else f"codec {codec}", "flags": flags,
        }  # fmt: skip
        if header.crc != computed:
            self._complain(f"{where}: the batch has the CRC {header.crc:#010x}, and its bytes have {computed:#010x}")
        body = bytes(batch[HEADER_SIZE:])
        try:
            records = list(iter_records(batch))
            plain["records"] = [_record(each, header, topic) for each in records]
            if _body(records) != record_bytes(batch, header):
                plain["body"] = {"hex": body.hex()}
        except (ProtocolError, CodecMissing) as damage:
            self._complain(f"{where}: its records cannot be read: {damage}")
            plain["body"] = {"hex": body.hex()}
        return plain


def _record(record: Record, header: BatchHeader, topic: str | None) -> dict[str, Any]:
    found = in_marker(record.key, record.value) if header.is_control else in_record(record.key, record.value, topic)
    key, value = found
    return {
        "offset_delta": record.offset_delta, "timestamp_delta": record.timestamp_delta,
        "key": plain_bytes(record.key) if key is None else key,
        "value": plain_bytes(record.value) if value is None else value,
        "headers": [[name, plain_bytes(content)] for name, content in record.headers],
    }  # fmt: skip


def _body(records: list[Record]) -> bytes:
    out = bytearray()
    for record in records:
        write_record(out, record)
    return bytes(out)


# Back


def record_data(plain: Any, path: str) -> bytes:
    """Returns the bytes of batches from their plain data. The lengths are computed. The CRC is computed, too, unless
    `crc_right` is false. Raises PlainError."""
    if isinstance(plain, dict):
        return bytes_of(plain, embedded_bytes, path) or b""
    if not isinstance(plain, list):
        raise PlainError(f"{path}: this is not a list of batches")
    return b"".join(_batch_bytes(each, f"{path}[{at}]") for at, each in enumerate(plain))


def _batch_bytes(plain: Any, path: str) -> bytes:
    if not isinstance(plain, dict):
        raise PlainError(f"{path}: this is not an object")
    if "hex" in plain and plain.keys() <= {"hex", CUT}:
        return bytes_of({"hex": plain["hex"]}, embedded_bytes, path) or b""
    try:
        if plain.get("magic", MAGIC) < MAGIC:
            return entry_bytes(plain, path)
        codec = _codec(plain.get("compression", "none"), path)
        records = plain.get("records", [])
        body = bytes_of(plain["body"], embedded_bytes, f"{path}.body") if "body" in plain else None
        if body is None:
            raw = _body([_record_of(each, at, f"{path}.records[{at}]") for at, each in enumerate(records)])
            body = bytes(compress(codec, raw)) if codec else raw
        last = {"records_count": len(records), "last_offset_delta": len(records) - 1, "magic": 2}
        numbers = _DEFAULTS | last | {name: plain[name] for name in NUMBERS if name in plain}
        header = BatchHeader(**numbers, batch_length=0, crc=0, attributes=codec | _flags(plain.get("flags", []), path))
        sealed = seal(header, body)
        return sealed if plain.get("crc_right", True) else _with_crc(sealed, int(plain["crc"], 0))
    except PlainError:
        raise
    except KeyError as absent:
        raise PlainError(f"{path}: there is no {absent}") from None
    except Exception as wrong:  # a number that does not fit, or a text in its place
        raise PlainError(f"{path}: this batch cannot be written: {wrong}") from wrong


_DEFAULTS = {
    "base_offset": 0, "partition_leader_epoch": -1, "base_timestamp": 0, "max_timestamp": 0, "producer_id": -1,
    "producer_epoch": -1, "base_sequence": -1,
}  # fmt: skip


def _with_crc(sealed: bytes, crc: int) -> bytes:
    header = read_header(sealed)
    return HEADER.pack(*header._replace(crc=crc)) + sealed[HEADER_SIZE:]


def _codec(name: str, path: str) -> int:
    if name in NAMES:
        return NAMES.index(name)
    if name.startswith("codec ") and name[6:].isdecimal():
        return int(name[6:]) & CODEC_MASK
    raise PlainError(f"{path}.compression: {name!r} is not one of {', '.join(NAMES)}")


def _flags(names: list[str], path: str) -> int:
    bits = (
        {name: bit for bit, name in FLAGS.items()} | {f"bit {bit}": 1 << bit for bit in range(7, 15)} | {"bit 15": -(1 << 15)}
    )
    unknown = [name for name in names if name not in bits]
    if unknown:
        raise PlainError(f"{path}.flags: {unknown[0]!r} is not one of {', '.join(FLAGS.values())}")
    return sum(bits[name] for name in set(names))


def _record_of(plain: Any, at: int, path: str) -> Record:
    if not isinstance(plain, dict):
        raise PlainError(f"{path}: this is not an object")
    headers = tuple((name, bytes_of(value, embedded_bytes, f"{path}.headers")) for name, value in plain.get("headers", ()))
    key, value = (bytes_of(plain.get(name), embedded_bytes, f"{path}.{name}") for name in ("key", "value"))
    return Record(plain.get("offset_delta", at), plain.get("timestamp_delta", 0), key, value, headers)
