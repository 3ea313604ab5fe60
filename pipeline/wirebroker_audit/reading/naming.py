"""Names a record by two 64-bit hashes of its topic, its key and its value. No Spark here."""

from __future__ import annotations

from binascii import unhexlify
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wirebroker.audit.findings import INTERNAL_TOPICS
from wirebroker_audit.reading.linker import Array

HASHES = [pa.field("hash", pa.int64()), pa.field("check", pa.int64())]
"""The columns of a name. They are null for a record of an internal topic, and for a row without a topic or with a `problem`."""
WIDTH = 64
"""The number of hexadecimal digits of a SHA-256."""


def with_names(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Adds the columns `HASHES` to rows that have a topic, a key and a value's SHA-256."""
    topics = rows.column("topic").dictionary_encode()
    names = [name for name in topics.dictionary.to_pylist() if name not in INTERNAL_TOPICS]
    seeds = np.array([_lanes(sha256(name.encode()).digest()) for name in [*names, ""]], np.uint64)
    which = np.array([names.index(name) if name in names else -1 for name in [*topics.dictionary.to_pylist(), None]], np.int64)
    topic = which[topics.indices.fill_null(len(which) - 1).to_numpy()]
    key, value = _lanes_of_keys(rows.column("key")), lanes_of(rows.column("value_hash"))
    made = _mixed(_mixed(seeds[topic] + value) + key)
    unnamed = (topic < 0) | rows.column("problem").is_valid().to_numpy(zero_copy_only=False)
    columns = [pa.array(np.ascontiguousarray(made[:, lane]).view(np.int64), mask=unnamed) for lane in (0, 1)]
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=with_hashes(rows.schema))


def with_hashes(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with the columns `HASHES`."""
    return pa.schema([*schema, *HASHES])


def _lanes(digest: bytes) -> tuple[int, int]:
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")


_NULL_DIGEST = sha256(b"null").digest()
_NULL = _lanes(_NULL_DIGEST)


def _lanes_of_keys(keys: pa.Array) -> Array:
    if keys.null_count == len(keys):
        return np.array([_NULL], np.uint64)
    digests = b"".join([_NULL_DIGEST if key is None else sha256(key).digest() for key in keys.to_pylist()])
    lanes: Array = np.frombuffer(digests, "<u8").reshape(-1, 4)[:, :2]
    return lanes


def lanes_of(hashes: pa.Array) -> Array:
    """Returns the first 128 bits of each SHA-256 in hexadecimal, as two numbers. Raises ValueError."""
    made = np.full((len(hashes), 2), np.array(_NULL, np.uint64))
    if not len(known := hashes.drop_null()):
        return made
    least, most = pc.min_max(pc.binary_length(known)).values()
    if not least.as_py() == most.as_py() == WIDTH:
        raise ValueError("a SHA-256 has 64 digits")
    begin = int(np.frombuffer(known.buffers()[1], np.int32)[known.offset])
    digits = memoryview(known.buffers()[2])[begin : begin + len(known) * WIDTH]
    made[hashes.is_valid().to_numpy(zero_copy_only=False)] = np.frombuffer(unhexlify(digits), "<u8").reshape(-1, 4)[:, :2]
    return made


def _mixed(numbers: Array) -> Array:
    """Mixes the bits of each number, as the end of SplitMix64 does."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = numbers ^ (numbers >> np.uint64(31))
    return mixed
