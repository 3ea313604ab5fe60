"""Folds batches into runs; `reading.linker` says what a run is. Whole audits, audits since a report, and streams all fold their
pieces in this way.

A table of runs is the state of the fold. `merged` adds runs up; it is commutative and associative, so the parts of a log may be
folded in any order and in any groups, on any machine. `folded` merges chunk by chunk in the workers, so Spark gets a few rows
and not millions; `joined` merges the runs of several pieces. No Spark here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkawire.batches import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from wirebroker_audit.reading.linker import NO_RUN, Array, Events, follows, is_numbered
from wirebroker_audit.reading.scan import is_intact

HEADER = pa.struct(
    [
        pa.field("position", pa.int64()), pa.field("base_offset", pa.int64()), pa.field("last_offset", pa.int64()),
        pa.field("base_sequence", pa.int32()), pa.field("last_sequence", pa.int32()),
        pa.field("max_timestamp", pa.int64()), pa.field("producer_epoch", pa.int16()),
    ]
)  # fmt: skip
"""The fields of a batch that a run keeps."""
RUNS = pa.schema(
    [
        pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("segment", pa.string()),
        pa.field("run", pa.int64()), pa.field("producer_id", pa.int64()), pa.field("kind", pa.int16()),
        pa.field("first", HEADER), pa.field("data", HEADER), pa.field("last", HEADER), pa.field("open", HEADER),
        pa.field("last_bytes", pa.int64()), pa.field("last_crc", pa.int64()),
        pa.field("marked", pa.int64()), pa.field("batches", pa.int64()), pa.field("records", pa.int64()),
        pa.field("bytes", pa.int64()), pa.field("committed", pa.int64()), pa.field("aborted", pa.int64()),
        pa.field("max_timestamp", pa.int64()), pa.field("compacted_to", pa.int64()),
    ]
)  # fmt: skip
"""`kind`: transactional and control, as in the attributes of the first batch; a marker that ends no transaction of its run is a
run of its own · `first`, `last`: the first and the last batch, `data`: the last batch that is not a marker · `open`: the first
batch of the transaction that is open at the run's end · `last_bytes`, `last_crc`: the size and the CRC of the last batch ·
`marked`: the position of the last marker, −1 if there is none · `batches`, `records`: the numbers of data batches and of their
records · `committed`, `aborted`: the numbers of markers · `compacted_to`: the end of the last batch that was visibly compacted,
−1 without such a batch."""
AT_FIRST = ("topic", "partition", "segment", "run", "producer_id", "kind", "first")
AT_LAST = ("last", "last_bytes", "last_crc")
SUMS = ("batches", "records", "bytes", "committed", "aborted")
HIGHEST = ("marked", "max_timestamp", "compacted_to")
FAR = 1 << 62
"""A position beyond all others."""
HELD = 50_000
"""A worker that holds more runs than this emits the runs that cannot continue."""


def merged(runs: pa.RecordBatch, order: Array, starts: Array) -> pa.RecordBatch:
    """Takes the runs in `order`, and merges each group of them into one run. `starts` has the index in `order` at which each
    group begins. The merged run begins with the first run of its group.
    """
    at, sizes = np.arange(len(order)), np.diff(np.append(starts, len(order)))

    def numbers(name: str) -> Array:
        result: Array = runs.column(name).to_numpy()[order]
        return result

    def taken(name: str, chosen: Array) -> pa.Array:
        return runs.column(name).take(pa.array(order[chosen], mask=chosen < 0))

    def at_highest(places: Array) -> Array:
        """Returns the index of the run with the highest place in each group, or −1 if all places of the group are negative."""
        is_highest = (places >= 0) & (places == np.repeat(np.maximum.reduceat(places, starts), sizes))
        result: Array = np.maximum.reduceat(np.where(is_highest, at, -1), starts)
        return result

    last = at_highest(_of_batch(runs, "last")[order])
    highest = {name: np.maximum.reduceat(numbers(name), starts) for name in HIGHEST}
    columns = {name: taken(name, starts) for name in AT_FIRST} | {name: taken(name, last) for name in AT_LAST}
    columns |= {name: pa.array(np.add.reduceat(numbers(name), starts)) for name in SUMS}
    columns |= {name: pa.array(each) for name, each in highest.items()}
    columns["data"] = taken("data", at_highest(_of_batch(runs, "data")[order]))
    begun = _of_batch(runs, "open")[order]
    begun = np.where(begun > np.repeat(highest["marked"], sizes), FAR - begun, -1)  # the first batch since the last marker
    columns["open"] = taken("open", at_highest(begun))
    return pa.RecordBatch.from_arrays([columns[field.name] for field in RUNS], schema=RUNS)


def runs_of(batches: pa.RecordBatch) -> pa.RecordBatch:
    """Makes each batch a separate run, except batches with untrusted headers."""
    if batches.column("problem").null_count < len(batches):
        batches = batches.filter(is_intact(batches))

    def numbers(name: str) -> Array:
        result: Array = batches.column(name).to_numpy()
        return result

    attributes, marker = numbers("attributes"), numbers("marker")
    is_data = attributes & CONTROL == 0
    parts = [batches.column(field.name) for field in HEADER]
    header = pa.StructArray.from_arrays(parts, fields=list(HEADER))
    data, begun = (
        pa.StructArray.from_arrays(parts, fields=list(HEADER), mask=pa.array(~chosen))
        for chosen in (is_data, attributes & (CONTROL | TRANSACTIONAL) == TRANSACTIONAL)
    )
    columns = {
        **{name: batches.column(name) for name in ("topic", "partition", "segment", "run", "producer_id", "max_timestamp")},
        "kind": pa.array(attributes & (TRANSACTIONAL | CONTROL)), "first": header, "last": header, "data": data, "open": begun,
        "last_bytes": batches.column("bytes"), "last_crc": batches.column("crc_stored"),
        "marked": pa.array(np.where(is_data, -1, numbers("position"))), "batches": pa.array(is_data.astype(np.int64)),
        "records": pa.array(np.where(is_data, numbers("records"), 0)), "bytes": batches.column("bytes"),
        "committed": pa.array((marker == 1).astype(np.int64)), "aborted": pa.array((marker == 0).astype(np.int64)),
        "compacted_to": pa.array(_compacted_to(numbers)),
    }  # fmt: skip
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in RUNS], schema=RUNS)


def _compacted_to(numbers: Callable[[str], Array]) -> Array:
    """Returns an offset for each batch: the offset after the batch if it has fewer records than offsets or a delete horizon,
    else −1."""
    last = numbers("last_offset")
    shown = numbers("records") < last - numbers("base_offset") + 1
    shown |= numbers("attributes") & DELETE_HORIZON != 0
    result: Array = np.where(shown, last + 1, -1)
    return result


def fold(batches: pa.RecordBatch) -> pa.RecordBatch:
    """Folds these batches into runs; batches with the same run number form one run. The batches without a producer form one run
    in each piece."""
    return _by_number(runs_of(batches))


def _by_number(runs: pa.RecordBatch) -> pa.RecordBatch:
    if not len(runs):
        return runs
    keys = (_codes(runs.column("segment")), runs.column("run").to_numpy())
    order = np.lexsort((_of_batch(runs, "first"), *keys[::-1]))
    return merged(runs, order, _begins(order, *keys))


def _begins(order: Array, *keys: Array) -> Array:
    """Returns the indexes in `order` at which any key differs from its predecessor."""
    changes = np.ones(len(order), bool)
    changes[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    return np.flatnonzero(changes)


def _codes(texts: pa.Array) -> Array:
    """Returns a number for each text; equal texts have equal numbers."""
    result: Array = texts.dictionary_encode().indices.to_numpy()
    return result


def _of_batch(runs: pa.RecordBatch, batch: str, name: str = "position") -> Array:
    """Returns one field (`name`) of one batch of each run; `batch` is the column: `first`, `last`, `data` or `open`."""
    result: Array = pc.fill_null(pc.struct_field(runs.column(batch), name), -1).to_numpy()
    return result


def folded(chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the runs of batches that arrive chunk by chunk. Each run is whole if the batches come in log order."""
    held = NONE
    for rows in chunks:
        held = _by_number(_together([held, runs_of(rows)]))
        if len(held) > HELD:
            latest = _latest(held)
            yield held.filter(pa.array(~latest))
            held = held.filter(pa.array(latest))
    if len(held):
        yield held


def _latest(runs: pa.RecordBatch) -> Array:
    """Tells whether each run is the last run of its producer in the segment. Only these runs may continue."""
    keys = (_codes(runs.column("segment")), runs.column("producer_id").to_numpy())
    order = np.lexsort((_of_batch(runs, "first"), *keys[::-1]))
    result = np.zeros(len(runs), bool)
    result[order[np.append(_begins(order, *keys)[1:], len(order)) - 1]] = True
    return result


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole = pa.Table.from_batches(batches, RUNS).combine_chunks().to_batches()
    return whole[0] if whole else NONE


NONE = pa.RecordBatch.from_pylist([], schema=RUNS)


# Runs of several pieces


def joined(runs: pa.Table, expiration_ms: int) -> pa.Table:
    """Joins the runs of one segment where they continue from piece to piece, as if the segment had been read whole.

    Pieces with successive offsets form one stretch. The runs of a joined stretch have negative numbers. Their batches keep
    their earlier run numbers and are found by position.
    """
    whole = _together(runs.to_batches())
    if not len(whole):
        return runs
    order = np.argsort(_of_batch(whole, "first"), kind="stable")
    ordered = whole.take(pa.array(order))
    stretch, begins = _stretches(ordered)
    number = ordered.column("run").to_numpy() >> 32
    alone = np.isin(stretch, np.flatnonzero([len(np.unique(number[stretch == each])) == 1 for each in range(len(begins))]))
    rest = ordered.filter(pa.array(~alone))
    if not len(rest):
        return pa.Table.from_batches([ordered])
    stretch = stretch[~alone]
    made = _chained(rest, stretch, begins, expiration_ms)
    return pa.Table.from_batches([ordered.filter(pa.array(alone)), made])


def _stretches(ordered: pa.RecordBatch) -> tuple[Array, Array]:
    """Returns two arrays: the stretch of each run, and the number of the first piece in each stretch. The runs are in log
    order."""
    number = ordered.column("run").to_numpy() >> 32
    pieces, first, piece = np.unique(number, return_index=True, return_inverse=True)
    in_log = np.argsort(first)
    base, last = _of_batch(ordered, "first", "base_offset"), _of_batch(ordered, "last", "last_offset")
    ends = np.full(len(pieces), -1, np.int64)
    np.maximum.at(ends, piece, last)
    stretch_of, reach = np.zeros(len(pieces), np.int64), -1
    begins: list[int] = []
    for each in in_log.tolist():
        if not begins or base[first[each]] != reach + 1:
            begins.append(int(pieces[each]))
            reach = -1
        stretch_of[each] = len(begins) - 1
        reach = max(reach, int(ends[each]))
    return stretch_of[piece], np.array(begins)


def _chained(runs: pa.RecordBatch, stretch: Array, begins: Array, expiration_ms: int) -> pa.RecordBatch:
    producer = runs.column("producer_id").to_numpy()
    order = np.lexsort((_of_batch(runs, "first"), producer, stretch))
    seen = _events(runs).at(order)
    topic = runs.column("topic")[0].as_py()
    goes_on = follows(seen, expiration_ms, is_numbered(topic), stretch[order])
    nobody = (producer[order] < 0) & np.append(False, np.diff(stretch[order]) == 0)
    goes_on |= nobody & np.append(False, producer[order][:-1] < 0)
    starts = np.flatnonzero(~goes_on)
    made = merged(runs, order, starts)
    high = begins[stretch[order[starts]]]
    low = np.where(producer[order[starts]] < 0, NO_RUN, np.arange(len(starts)))
    numbers = ~(np.where(high >= 0, high, ~high) << 32 | low)
    return made.set_column(made.schema.get_field_index("run"), "run", pa.array(numbers))


def _events(runs: pa.RecordBatch) -> Events:
    """Converts the runs to events, the form that `follows` reads."""
    events = Events.zeros(len(runs))
    events["producer_id"], events["kind"] = runs.column("producer_id").to_numpy(), runs.column("kind").to_numpy()
    for name, batch, field in (
        ("first_epoch", "first", "producer_epoch"), ("first_sequence", "first", "base_sequence"),
        ("first_offset", "first", "base_offset"), ("first_timestamp", "first", "max_timestamp"),
        ("last_epoch", "last", "producer_epoch"), ("last_offset", "last", "last_offset"),
        ("last_timestamp", "last", "max_timestamp"), ("data_epoch", "data", "producer_epoch"),
        ("data_sequence", "data", "last_sequence"),
    ):  # fmt: skip
        events[name] = _of_batch(runs, batch, field)
    is_data = events["kind"] & CONTROL == 0
    events["is_closed"] = is_data & (runs.column("marked").to_numpy() >= _of_batch(runs, "last"))
    return events
