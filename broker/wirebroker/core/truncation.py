"""Truncation of a log and of the producers' state, as after an unclean election (UnifiedLog.truncateTo)."""

from __future__ import annotations

from kafkawire.batches import iter_records, read_header, read_marker
from wirebroker.core.partition import Partition
from wirebroker.core.producers import Key, advance, end_transaction, last_offset, open_transactions


def truncate(partition: Partition, offset: int, now: int) -> int:
    """Delete the batch that contains `offset` and all later batches. Returns the new log end offset.

    The state of a producer whose batches or markers were deleted is computed again from the remaining log. The leader epoch
    increases, so that consumers and followers detect the truncation. Raises ValueError if the offset is outside the log.
    """
    if not partition.log_start_offset <= offset <= partition.log_end_offset:
        raise ValueError(
            f"{partition.topic}-{partition.index} has offsets {partition.log_start_offset} to {partition.log_end_offset}; "
            f"it cannot be truncated to {offset}"
        )
    if offset < partition.log_end_offset:
        cut = {read_header(batch).producer_id for batch in partition.log.batches(offset)}
        partition.log.truncate_to(offset)
        if partition.log_end_offset < partition.log_start_offset:
            # DeleteRecords has moved the log start offset into the deleted batch. This offset never falls.
            partition.log.start_at(partition.log_start_offset, now)
        end = partition.log_end_offset
        kept = {key: state for key, state in partition.producers.items() if key not in cut and last_offset(state) < end}
        partition.producers = replayed(partition, kept)
        opened = open_transactions(partition.producers)
        partition.transactions.truncate(end, opened)
        partition.lead_from_here(now)
    return partition.log_end_offset


def replayed(partition: Partition, kept: dict[Key, bytes]) -> dict[Key, bytes]:
    """Returns the states of the producers. The states in `kept` stay as they are; the states of all other producers are
    computed from the log."""
    found: dict[Key, bytes] = {}
    for batch in partition.log.batches(partition.log_start_offset):
        header = read_header(batch)
        key = header.producer_id
        if key < 0:
            continue
        if header.is_control:
            marker = read_marker(next(iter(iter_records(batch))))
            if marker is not None:
                epochs = (header.producer_epoch, marker.coordinator_epoch)
                found[key] = end_transaction(found.get(key), *epochs, header.max_timestamp)
        else:
            found[key] = advance(found.get(key), header, header.base_offset, header.max_timestamp, partition.rules)
    return found | kept
