"""Converts records to rows: the fast reader of single-record batches returns the same rows as the general reader."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kafkawire.batches import HEADER, Record, build_batch, read_header, seal
from kafkawire.compression import GZIP
from wirebroker_audit.reading import records
from wirebroker_audit.reading.linker import Linker
from wirebroker_audit.reading.pieces import Mark, Piece
from wirebroker_audit.reading.scan import Chunk, batch_rows
from wirebroker_audit.reading.singles import find_singles
from wirebroker_audit.reading.walking import walk

ONES = [
    Record(0, 0, None, b"plain"), Record(0, 0, b"k", None), Record(0, 0, b"", b""), Record(3, 5, b"k" * 70, b"v" * 9000),
    Record(0, -7, None, b"early"), Record(0, 0, None, None),
]  # fmt: skip
OTHERS = [[Record(0, 2**40, None, b"a long varint")], [Record(0, 0, b"k", b"v", [("h", b"1")])],
          [Record(0, 0, None, b"one"), Record(1, 0, None, b"two")]]  # fmt: skip
ABOUT: dict[str, Any] = {"base_timestamp": 1000, "producer_id": 9, "producer_epoch": 2}


def chunk_of(batches: list[bytes]) -> Chunk:
    data = b"".join(batches)
    piece = Piece("orders", 0, Mark(), Mark())
    return Chunk(memoryview(data), batch_rows(data, walk(data, 0, len(data)), piece, Linker(0, "orders"), 0), 0)


def rows_of(chunk: Chunk) -> list[dict[str, Any]]:
    found = [row for made in records.record_rows([chunk]) for row in made.to_pylist()]
    return sorted(found, key=lambda row: (row["position"], row["offset"] or 0))


def one_by_one(chunk: Chunk, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Returns the rows that the general reader makes."""
    none = np.empty(0, np.int64)
    with monkeypatch.context() as patched:
        patched.setattr(records, "find_singles", lambda view, places: find_singles(view, none))
        return rows_of(chunk)


def test_records_read_together_have_the_rows_of_records_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [build_batch([each], base_offset=10 * n, base_sequence=n, **ABOUT) for n, each in enumerate(ONES)]
    batches += [build_batch(each, base_offset=100 + 10 * n, base_sequence=n, **ABOUT) for n, each in enumerate(OTHERS)]
    batches += [build_batch(ONES[:1], base_offset=200, compression=GZIP), build_batch(ONES[:1], base_offset=300)]
    header = read_header(batches[0])
    appended = header._replace(attributes=header.attributes | 8, max_timestamp=5000, base_offset=400)
    batches.append(seal(appended, batches[0][HEADER.size :]))
    chunk = chunk_of(batches)
    monkeypatch.setattr(records, "ROWS", 3)
    singles = find_singles(chunk.view, chunk.rows.column("position").to_numpy())
    assert singles.which.tolist() == [*range(len(ONES)), len(batches) - 2, len(batches) - 1]
    found = rows_of(chunk)
    assert found == one_by_one(chunk, monkeypatch)
    assert len(found) == len(batches) + 1
    assert found[-1]["timestamp"] == 5000


def test_whatever_a_record_holds_both_readings_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    good = build_batch([Record(0, 0, b"k", b"v" * 20)], base_sequence=0, **ABOUT)
    header, body = read_header(good), good[HEADER.size :]
    for at in range(len(body)):
        for change in (1, 2, 0x7F, 0x80):
            damaged = bytearray(body)
            damaged[at] = (damaged[at] + change) % 256
            chunk = chunk_of([good, seal(header._replace(base_offset=1, base_sequence=1), damaged)])
            found = rows_of(chunk)
            assert found == one_by_one(chunk, monkeypatch)
            if at in (0, len(body) - 1):  # the bytes with the record's size and its number of headers
                assert [row["problem"] for row in found] == [None, "bad_batch"]
