"""Finds the open transactions that hang (KIP-664): joins each open transaction with the state that its coordinator has written
to `__transaction_state`.

A transaction hangs if its coordinator has forgotten the transaction. Then the coordinator never writes the marker, and
read_committed consumers wait forever. `kafka-transactions.sh abort` ends the transaction. No Spark here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkawire.batches import LOG_OVERHEAD, iter_records, read_header
from kafkawire.coordinator_log import read_record
from kafkawire.coordinator_records import TRANSACTION_RECORDS
from kafkawire.coordinator_records.transaction_log import TransactionLogKey, TransactionLogValue
from kafkawire.disk.metadata import written_image
from kafkawire.disk.names import LOG, file_name, offsets_in
from kafkawire.disk.opening import open_to_read
from kafkawire.errors import ProtocolError
from kafkawire.primitives import Buffer
from wirebroker.audit.findings import Severity
from wirebroker_audit.reading.folders import PartitionFolder
from wirebroker_audit.reading.scan import stored_crc
from wirebroker_audit.reading.segments import whole_batches

TRANSACTION_TOPIC = "__transaction_state"
ONGOING, COMMITTING, ABORTING, FENCING = 1, 2, 3, 7
"""The states in which a coordinator still has to end a transaction (TransactionState)."""
NAMES = {"Ongoing": ONGOING, "PrepareCommit": COMMITTING, "PrepareAbort": ABORTING, "PrepareEpochFence": FENCING}
"""The same states by the names that DescribeTransactions returns."""
_DECIDED = {COMMITTING: "commit", ABORTING: "abort", FENCING: "abort"}


class Open(NamedTuple):
    """An open transaction on one partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    open_ms: int = 0
    """ms from the first batch of the transaction to the end of the log"""

    @property
    def command(self) -> str:
        """The command that aborts the transaction."""
        return (
            f"kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {self.topic} --partition {self.partition} "
            f"--start-offset {self.first_offset}"
        )


class Told(NamedTuple):
    """What a coordinator's state adds to the finding about an open transaction: words, evidence and a severity."""

    words: str
    """the text after the finding's sentence; "" if nothing is known"""
    evidence: str
    """fields of JSON, without braces"""
    severity: Severity = "certain"
    """info if the coordinator will end the transaction in time"""


class Coordinators:
    """For some producers, the latest states that their coordinators have.

    The constructor reads the states that the coordinators wrote into `folders`. `of_cluster` takes the states that the
    coordinators of a live cluster returned.
    """

    def __init__(self, folders: Sequence[PartitionFolder], producers: Iterable[int]) -> None:
        self._wanted = frozenset(producers)
        self._states: dict[str, TransactionLogValue | None] = {}
        self._latest_ms = -1
        self._ended: frozenset[Open] = frozenset()
        for folder in folders:
            for batch in _batches(folder.path):
                self._take(batch)
        self._is_whole = _has_all(folders)

    @classmethod
    def of_cluster(
        cls, states: Mapping[str, TransactionLogValue], now_ms: int, ended: Iterable[Open], *, is_whole: bool
    ) -> Coordinators:
        """Makes the object from the responses of a live cluster: the `states` by transactional id, the transactions that have
        `ended` since the log was read, and whether the coordinators returned all states (`is_whole`).
        """
        made = cls((), ())
        made._states.update(states)
        made._latest_ms, made._ended, made._is_whole = now_ms, frozenset(ended), is_whole
        return made

    def _take(self, batch: Buffer) -> None:
        for record in iter_records(batch):
            read = read_record(TRANSACTION_RECORDS, record.key or b"", record.value)
            if read is None or not isinstance(read.key, TransactionLogKey):
                continue
            name, value = read.key.transactional_id, read.value
            state = value if isinstance(value, TransactionLogValue) else None
            if state is not None:
                self._latest_ms = max(self._latest_ms, state.transaction_last_update_timestamp_ms)
            if name in self._states or (state is not None and state.producer_id in self._wanted):
                self._states[name] = state

    def about(self, opened: Open, began_ms: int) -> Told:
        """Returns the words, evidence and severity to add to the finding about this transaction. The log was read at `began_ms`
        (ms since the epoch)."""
        if opened in self._ended:
            return _told("It has ended since the log was read", "info", ended=True)
        found = [(name, state) for name, state in self._states.items() if state and state.producer_id == opened.producer_id]
        if not found:
            if not self._is_whole:
                return Told("", json.dumps({"abort": opened.command})[1:-1])
            return _hangs(opened, f"no coordinator knows a transactional id of producer {opened.producer_id}")
        name, state = found[0]
        if state.transaction_last_update_timestamp_ms >= began_ms:
            return _told(f"The coordinator of {name!r} has continued since the log was read", "info", transactional_id=name)
        if (opened.topic, opened.partition) in _partitions(state) and state.producer_epoch >= opened.producer_epoch:
            severity = self._severity(opened, state)
            if (decision := _DECIDED.get(state.transaction_status)) is not None:
                words = f"The coordinator has decided to {decision} it for {name!r}, and has not written the marker here yet"
                return _told(words, severity, transactional_id=name, decision=decision)
            if state.transaction_status == ONGOING:
                seconds = state.transaction_timeout_ms / 1000
                late = "" if severity == "info" else "; that time is over"
                return _told(f"It belongs to {name!r}, and the coordinator aborts it {seconds:,.0f} s after its start{late}",
                             severity, transactional_id=name, timeout_ms=state.transaction_timeout_ms)  # fmt: skip
        return _hangs(
            opened,
            f"the coordinator of {name!r} has no open transaction of this producer on this partition",
            transactional_id=name,
        )

    def _severity(self, opened: Open, state: TransactionLogValue) -> Severity:
        """Returns info if the transaction is younger than its timeout, else certain. The age comes from times in the logs, not
        from this machine's clock: a copy of a directory may be audited long after the copy was made."""
        since_ms = state.transaction_last_update_timestamp_ms
        if state.transaction_status == ONGOING:
            since_ms = state.transaction_start_timestamp_ms
        in_time = max(self._latest_ms - since_ms, opened.open_ms) <= state.transaction_timeout_ms
        return "info" if in_time else "certain"


def _hangs(opened: Open, why: str, **evidence: object) -> Told:
    words = f"It hangs: {why}, so no coordinator will end it. This command aborts it: {opened.command}"
    return _told(words, "certain", hangs=True, abort=opened.command, **evidence)


def _told(words: str, severity: Severity, **evidence: object) -> Told:
    return Told(f". {words}", json.dumps(evidence)[1:-1], severity)


def _partitions(state: TransactionLogValue) -> set[tuple[str, int]]:
    return {(each.topic, number) for each in state.transaction_partitions or () for number in each.partition_ids}


def _has_all(folders: Sequence[PartitionFolder]) -> bool:
    """Tells whether `folders` has as many partitions of `__transaction_state` as the cluster's metadata lists. The directory of
    a single broker may lack some of these partitions."""
    images = [written.image for each in {each.path.parent for each in folders} if (written := written_image(each)) is not None]
    counts = [len(each.partitions) for image in images for each in image.topics.values() if each.name == TRANSACTION_TOPIC]
    return bool(counts) and len(folders) >= max(counts)


def _batches(folder: Path) -> Iterator[bytes]:
    """Yields those sound batches of a partition that hold states. Leaves out damaged batches, and files that were deleted in
    the meantime."""
    try:
        for start in offsets_in(folder, LOG):
            path = folder / file_name(start, LOG)
            with open_to_read(path, 0) as file:
                for _, data, walked in whole_batches(file, 0, path.stat().st_size):
                    for at, crc in zip(walked.positions.tolist(), walked.crcs.tolist(), strict=True):
                        header = read_header(data, at)
                        if crc == stored_crc(data, at) and not header.is_control:
                            yield data[at : at + LOG_OVERHEAD + header.batch_length]
    except (OSError, ProtocolError):
        return
