"""The checks, applied to artificial histories: they find every planted fault and nothing else, and they find no fault in a
healthy history.
"""

from __future__ import annotations

import hashlib
import json
import random
import runpy
from pathlib import Path
from typing import Any

import pytest

from audit_histories import ALONE, EXPIRATION, FAULTS, START, WRAP, Expected, History
from simulation.schedule import Schedule
from simulation.world import TOPIC
from wirebroker.audit.checks import Bounds, check_partition
from wirebroker.audit.content import content_hash, digest
from wirebroker.audit.findings import KINDS, OF_DIRECTORIES, BatchRow, Damage, Finding, RecordRow, severity_of
from wirebroker.audit.journal import Intended
from wirebroker.audit.reconcile import reconcile
from wirebroker.audit.report import AuditReport
from wirebroker.audit.stored import snapshot

SEEDS = range(120)


def found(history: History) -> list[Finding]:
    return check_partition(history.entries, Bounds(history.log_start, history.cleaned_to, EXPIRATION))


def brief(finding: Finding) -> Expected:
    return Expected(finding.kind, *finding[4:10])


def hold(history: History, seed: int) -> None:
    findings = found(history)
    assert sorted(map(brief, findings)) == sorted(history.expected), (
        f"seed {seed}, log start {history.log_start}, cleaned to {history.cleaned_to}\n" + "\n".join(map(str, history.entries))
    )


def test_innocent_histories_give_no_finding() -> None:
    for seed in SEEDS:
        hold(History(seed), seed)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_found_and_nothing_else(fault: str) -> None:
    for seed in SEEDS:
        hold(History(seed, (fault,)), seed)


def test_several_faults_at_once() -> None:
    together = [*ALONE, "crc", "bad_batch", "unreadable", "torn_tail"]
    for seed in SEEDS:
        hold(History(seed, tuple(random.Random(seed).sample(together, 4))), seed)


# An example of each kind of finding


def batch(offset: int, first: int, count: int = 5, *, pid: int = 12, epoch: int = 0, **more: int) -> BatchRow:
    last = (first + count - 1) % WRAP if first >= 0 else -1
    row = BatchRow(
        "orders",
        0,
        offset,
        offset + count - 1,
        0,
        pid,
        epoch,
        first,
        last,
        count,
        0,
        START + offset,
        7,
        7,
        100,
        "0.log",
        offset,
    )
    return row._replace(**more)


CASES: dict[str, tuple[list[BatchRow | Damage], list[str]]] = {
    "one sequence far too high is one gap and one disorder": (
        [batch(0, 0), batch(5, 1000), *(batch(5 * n, 5 * (n - 1)) for n in range(2, 9))],
        [
            "orders-0: sequences 5–9 of producer 12 epoch 0 are stored out of order: at offsets 10–14, after 1000–1004 at "
            "offsets 5–9",
            "orders-0: sequences 40–999 of producer 12 epoch 0 are missing: 39 is stored at offset 44 and 1000 at offset 5",
        ],
    ),
    "across the end of the sequences": (
        [batch(0, WRAP - 3), batch(5, 2), batch(10, WRAP - 3), batch(15, 9)],
        [
            "orders-0: sequences 7–8 of producer 12 epoch 0 are missing: 6 is stored at offset 9 and 9 at offset 15",
            "orders-0: sequences 2147483645–1 of producer 12 epoch 0 are stored twice: at offsets 0–4 and at 10–14",
        ],
    ),
    "three times": (
        [batch(0, 0), batch(5, 0), batch(10, 0, 1), batch(11, 5)],
        [
            "orders-0: sequences 0–4 of producer 12 epoch 0 are stored twice: at offsets 0–4 and at 5–9",
            "orders-0: sequence 0 of producer 12 epoch 0 is stored twice: at offset 0 and at 10",
        ],
    ),
    "two batches are stored again as one": (
        [batch(0, 0), batch(5, 5), batch(10, 0, 10)],
        ["orders-0: sequences 0–9 of producer 12 epoch 0 are stored twice: at offsets 0–9 and at 10–19"],
    ),
    "two batches that were stored in the wrong order are stored again as one, twice": (
        [batch(0, 5), batch(5, 0), batch(10, 0, 10), batch(20, 0, 10)],
        [
            "orders-0: sequences 0–4 of producer 12 epoch 0 are stored out of order: at offsets 5–9, after 5–9 at offsets "
            "0–4",
            "orders-0: sequences 0–9 of producer 12 epoch 0 are stored twice: from 0 at offset 5 to 9 at offset 4, and again "
            "at offsets 10–19",
            "orders-0: sequences 0–9 of producer 12 epoch 0 are stored twice: from 0 at offset 5 to 9 at offset 4, and again "
            "at offsets 20–29",
        ],
    ),
    "new sequences between old ones": (
        [batch(0, WRAP - 5, 3), batch(3, 2), batch(8, WRAP - 4, 10)],
        [
            "orders-0: 6 of sequences 2147483644–5 of producer 12 epoch 0 are stored twice: from 2147483644 at offset 1 to 5 "
            "at offset 6, and again at offsets 8–17",
        ],
    ),
    "new sequences on both sides of old ones": (
        [batch(0, 5), batch(5, 0, 15), batch(20, 15)],
        ["orders-0: sequences 5–9 of producer 12 epoch 0 are stored twice: at offsets 0–4 and at 10–14"],
    ),
    "missing after sequences that were stored twice": (
        [batch(0, 3, 2), batch(2, 0), batch(7, 9)],
        [
            "orders-0: sequences 5–8 of producer 12 epoch 0 are missing: 4 is stored at offset 1 and 9 at offset 7",
            "orders-0: sequences 3–4 of producer 12 epoch 0 are stored twice: at offsets 0–1 and at 5–6",
        ],
    ),
    "a new epoch that does not begin at zero": (
        [batch(0, 0), batch(5, 3, epoch=1)],
        [
            "orders-0: sequences 0–2 of producer 12 epoch 1 are missing: the epoch begins after offset 4, at offset 5 with "
            "sequence 3"
        ],
    ),
    "a new epoch that begins at one": (
        [batch(0, 0), batch(5, 1, epoch=1)],
        [
            "orders-0: sequence 0 of producer 12 epoch 1 is missing: the epoch begins after offset 4, at offset 5 with "
            "sequence 1"
        ],
    ),
    "an older epoch": (
        [batch(0, 0), batch(5, 0, epoch=1), batch(10, 5, 1)],
        [
            "orders-0: sequence 5 of producer 12 epoch 0 is stored at offset 10, after epoch 1 of the same producer at "
            "offsets 5–9"
        ],
    ),
    "a marker of an older epoch": (
        [batch(0, 0, epoch=1, attributes=0x10), batch(5, -1, 1, attributes=0x30)],
        [
            "orders-0: a marker of producer 12 epoch 0 is stored at offset 5, after epoch 1 of the same producer at offsets "
            "0–4"
        ],
    ),
    "a transaction without an end": (
        [batch(0, 0, attributes=0x10), batch(5, 5, attributes=0x10), batch(10, 0, pid=3, max_timestamp=START + 61_000)],
        [
            "orders-0: the transaction that producer 12 epoch 0 began at offset 0 has been neither committed nor aborted; "
            "it is still open 61.0 s later, at the end of the log"
        ],
    ),
    "a checksum": (
        [batch(0, 0), batch(5, 5, crc_computed=0x1F), batch(10, 10)],
        [
            "orders-0: the batch at offset 5, position 5 of 0.log, fails its checksum: its header has 0x00000007, its bytes "
            "have 0x0000001f"
        ],
    ),
    "counts": (
        [batch(0, 0, records=4), batch(5, 5, last_offset=4), batch(10, 10, last_sequence=13), batch(15, -1),
         batch(20, 0, bytes=60)],
        [
            f"orders-0: the batch at position {at} of 0.log, near offset {at}, is damaged: {reason}"
            for at, reason in {
                0: "it counts 4 records but spans 5 offsets",
                5: "it ends at offset 4 and counts 5 records",
                10: "it spans 5 offsets, but its sequences go from 10 to 13",
                15: "it has the producer id 12 but no sequence",
                20: "it has 60 bytes, but a header alone has 61",
            }.items()
        ],
    ),
    "offsets": (
        [batch(0, 0), batch(3, 5)],
        ["orders-0: a batch begins at offset 3, but the batch before it ends at offset 4"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_explanations_are_sentences(case: str) -> None:
    rows, sentences = CASES[case]
    findings = check_partition(rows)
    assert [each.explanation for each in findings] == sentences
    for each in findings:
        assert each.severity == severity_of(each.kind) == "certain"
        assert json.loads(each.evidence)


def test_a_coordinators_topic_says_nothing_by_its_sequences() -> None:
    rows = [batch(5 * n, 0, attributes=0x10) for n in range(3)] + [batch(15, -1, 1, attributes=0x30)]
    assert len(check_partition(rows)) == 2
    assert check_partition(rows, Bounds(internal=True)) == []


def test_a_header_that_may_lie_begins_no_transaction() -> None:
    garbage = batch(5, 77, pid=9999, epoch=12, attributes=0x10, crc_computed=1)
    assert [each.kind for each in check_partition([batch(0, 0), garbage, batch(10, 5)])] == ["crc"]
    data, marker = batch(0, 0, attributes=0x10), batch(5, -1, 1, attributes=0x30)
    bad_data, bad_marker = data._replace(crc_computed=1), marker._replace(crc_computed=1)
    for rows in ([bad_marker], [bad_data, marker], [data, bad_marker]):
        assert [each.kind for each in check_partition(rows)] == ["crc"]


def test_a_producer_without_an_epoch_is_not_checked_and_the_first_epoch_may_begin_anywhere() -> None:
    """A real Kafka accepts batches with a producer id and without an epoch."""
    rows = [batch(0, 7, epoch=-1), batch(5, 7, epoch=-1), batch(10, 3), batch(15, 8)]
    assert check_partition(rows) == []
    forgotten = [batch(0, 0), batch(5, 7, epoch=-1), batch(10, 3, epoch=1)]
    assert [each.kind for each in check_partition(forgotten)] == ["epoch_regression"]


def test_holes_excuse_no_more_than_they_can_hold() -> None:
    rows = [batch(0, 0), batch(8, 8)]
    assert [each.kind for each in check_partition(rows)] == ["gap"], "nothing was compacted"
    assert [each.kind for each in check_partition(rows, Bounds(cleaned_to=7))] == ["gap"], (
        "three sequences cannot be in two compacted offsets"
    )
    assert check_partition(rows, Bounds(cleaned_to=8)) == []
    assert check_partition([batch(0, 0, records=0), batch(5, 5)], Bounds(cleaned_to=5)) == []


def plain(offset: int) -> BatchRow:
    return batch(offset, -1, pid=-1, epoch=-1)


def test_offsets_that_nothing_explains_are_missing_once() -> None:
    (told,) = check_partition([plain(0), plain(8)])
    assert told.explanation == "orders-0: offsets 5–7 are missing, and neither retention nor compaction explains that"
    assert (told.kind, told.first_offset, told.last_offset, told.producer_id) == ("offset_gap", 5, 7, -1)
    assert [each[-4:-2] for each in check_partition([plain(3)])] == [(0, 2)], "the log starts at 0"
    damage = Damage("orders", 0, "bad_batch", "0.log", 5000, 40, "it is spoiled")
    assert [each.kind for each in check_partition([plain(0), damage, plain(8)])] == ["bad_batch"]
    for bounds in (Bounds(log_start=8), Bounds(cleaned_to=8), Bounds(internal=True)):
        assert check_partition([plain(0), plain(8)], bounds) == []
    assert [each[-4:-2] for each in check_partition([plain(0), plain(8)], Bounds(cleaned_to=6))] == [(6, 7)]
    rows = [batch(0, 0), plain(5), plain(14), batch(19, 8)]
    assert [each.kind for each in check_partition(rows)] == ["gap", "offset_gap"], "more offsets than sequences are missing"
    assert [each.kind for each in check_partition([*rows[:2], plain(12), batch(17, 7)])] == ["gap"]


def test_every_kind_can_be_found() -> None:
    foretold = {"overlap": "duplicate", "epoch_gap": "gap", "unreadable": "bad_batch"}
    planted = {foretold.get(fault, fault) for fault in FAULTS}
    assert planted | set(KINDS_OF_CONTENT) == set(KINDS) - OF_DIRECTORIES


# By content

KINDS_OF_CONTENT = (
    "epoch_duplicate", "session_duplicate", "application_duplicate", "partition_duplicate", "lost", "unacknowledged_stored",
)  # fmt: skip
Told = tuple[str, str, int, int]
"""The kind, the severity, the partition and the offset of a finding about a record."""


class Shop:
    """A topic with two partitions. All records differ until faults are planted."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rows: list[RecordRow] = []
        self.journal: list[Intended] = []
        self.expected: set[Told] = set()
        self.ends = [0, 0]
        for number in range(self.chance.randint(10, 30)):
            self._record(number)
        self.chance.shuffle(self.rows)
        self.chance.shuffle(self.journal)

    def _store(self, partition: int, value: bytes, **fields: Any) -> RecordRow:
        offset = self.ends[partition]
        self.ends[partition] += 1
        row = RecordRow(
            "orders", partition, offset, START + sum(self.ends), 1, 0, offset, "none", None, digest(value),
            content_hash(None, digest(value)),
        )._replace(**fields)  # fmt: skip
        self.rows.append(row)
        return row

    def _record(self, number: int) -> None:
        value, partition = b"%d" % number, self.chance.choice([0, 1])
        meant = Intended("orders", None, value, self.chance.choice([None, partition]), self.chance.choice([None, True]))
        named = self.chance.random() < 0.7
        fate = self.chance.choice(["well"] * 4 + ["failed", "failed and stored", "aborted", *KINDS_OF_CONTENT[:5], "retried"])
        if fate in ("lost", "aborted", "failed", "failed and stored"):
            self._misses(fate, meant, partition, value)
            return
        first = self._store(partition, value, transaction=self.chance.choice(["none", "committed"]))
        if named:
            self.journal.append(meant)
        if fate == "well":
            return
        changes: dict[str, dict[str, Any]] = {
            "epoch_duplicate": {"producer_epoch": 1}, "session_duplicate": {"producer_id": 2},
            "application_duplicate": {}, "retried": {"sequence": first.sequence}, "partition_duplicate": {},
        }  # fmt: skip
        elsewhere = fate == "partition_duplicate"
        again = self._store(1 - partition if elsewhere else partition, value, **changes[fate])
        if elsewhere and named and meant.partition is None and self.chance.random() < 0.5:
            self.journal.append(meant)  # the application sends it twice on purpose
        else:
            kind = "duplicate" if fate == "retried" else fate
            self.expected.add((kind, "certain" if named or kind == "duplicate" else "likely", again.partition, again.offset))

    def _misses(self, fate: str, meant: Intended, partition: int, value: bytes) -> None:
        """Plants a fault: a record is lost, or a record is stored although it should not be."""
        if fate == "failed and stored":
            row = self._store(partition, value)
            self.expected.add(("unacknowledged_stored", "certain", partition, row.offset))
        elif fate == "aborted":
            self._store(partition, value, transaction=self.chance.choice(["aborted", "open"]))
        failed = fate.startswith("failed")
        self.journal.append(meant._replace(acknowledged=False) if failed else meant)
        if not failed:
            self.expected.add(("lost", "certain", -1 if meant.partition is None else meant.partition, len(self.journal)))


def each_record(findings: list[Finding]) -> list[Told]:
    return [
        (each.kind, each.severity, each.partition, offset)
        for each in findings
        for offset in range(each.first_offset, each.last_offset + 1)
    ]


def test_the_fate_of_records_follows_from_their_content_and_the_journal() -> None:
    for seed in SEEDS:
        shop = Shop(seed)
        told = each_record(reconcile(shop.rows, shop.journal))
        lost = [each for each in shop.expected if each[0] == "lost"]
        assert sorted(each for each in told if each[0] != "lost") == sorted(shop.expected - set(lost)), f"seed {seed}"
        assert sorted(each[:3] for each in told if each[0] == "lost") == sorted(each[:3] for each in lost), f"seed {seed}"


def test_without_a_journal_nothing_is_lost_and_copies_are_likely() -> None:
    for seed in SEEDS:
        shop = Shop(seed)
        shop_copies = {each[:1] + each[2:] for each in shop.expected if each[0].endswith("duplicate")}
        told = each_record(reconcile(shop.rows))
        assert {severity for kind, severity, *_ in told if kind != "duplicate"} <= {"likely"}
        assert shop_copies <= {each[:1] + each[2:] for each in told}, "without a journal, intended copies are also reported"


YES, NO, WHO_KNOWS = True, False, None


@pytest.mark.parametrize(
    ("stored", "meant", "found"),
    [
        ([0], [(None, YES)], []),
        ([0], [(None, NO), (None, YES)], []),
        ([0, 0], [(None, NO), (None, YES)], ["unacknowledged_stored"]),
        ([0, 0, 0], [(None, NO), (None, YES)], ["application_duplicate", "unacknowledged_stored"]),
        ([0], [(None, WHO_KNOWS), (None, YES)], ["lost"]),
        ([], [(None, NO)], []),
        ([], [(None, WHO_KNOWS), (None, NO)], ["lost"]),
        ([0, 1], [(0, YES), (1, YES)], []),
        ([0, 1], [(None, YES), (0, YES)], []),
        ([1, 1], [(0, YES), (None, YES)], ["application_duplicate", "lost"]),
        ([0, 1], [(None, YES), (0, WHO_KNOWS)], []),
        ([1, 0, 0], [(None, YES), (0, WHO_KNOWS), (1, WHO_KNOWS)], []),
        ([0, 1], [(None, YES), (0, NO)], ["unacknowledged_stored"]),
        ([0], [(None, YES), (0, WHO_KNOWS)], ["lost"]),
        ([1], [(0, YES)], ["lost"]),
        ([0, 1], [(1, YES)], ["partition_duplicate"]),
        ([0, 0, 1], [(1, YES), (0, YES)], ["application_duplicate"]),
    ],
)
def test_the_journal_says_how_often_a_record_is_meant_to_be_there(
    stored: list[int], meant: list[tuple[int | None, bool | None]], found: list[str]
) -> None:
    rows = [
        RecordRow("orders", where, n, START + n, 1, 0, n, "none", b"k", digest(b"v"), content_hash(b"k", digest(b"v")))
        for n, where in enumerate(stored)
    ]
    journal = [Intended("orders", b"k", b"v", partition, said) for partition, said in meant]
    for order in (journal, journal[::-1]):
        assert sorted(each.kind for each in reconcile(rows, order)) == found


def test_a_finding_by_sequence_is_not_repeated_by_content() -> None:
    rows = [
        RecordRow("orders", 0, n, START, 1, 0, 7, "none", None, digest(b"v"), content_hash(None, digest(b"v")))
        for n in range(2)
    ]
    assert [each.kind for each in reconcile(rows)] == ["duplicate"]
    assert reconcile(rows, told=[("orders", 0, 1)]) == []


def equal(topic: str, value: bytes, count: int, start: int = 0) -> list[RecordRow]:
    """Returns `count` records that all have the same content."""
    return [
        RecordRow(topic, 0, n, START, 1, 0, n, "none", None, digest(value), content_hash(None, digest(value)))
        for n in range(start, start + count)
    ]


def test_many_equal_records_take_no_time() -> None:
    rows = equal("orders", b"ping", 20_000)
    notices: list[str] = []
    assert reconcile(rows, notices=notices) == []
    assert notices == [
        "orders: 20,000 records whose content is stored more than 20 times were not compared; only a journal (intended=…) can "
        "say which of these records are stored twice"
    ]
    assert reconcile(rows, [Intended("orders", None, b"ping")] * 20_000) == []
    assert len(reconcile(rows, [Intended("orders", None, b"ping")])) == 19_999


@pytest.mark.parametrize("count", [2, 5, 20])
def test_a_content_with_few_copies_is_found_beside_a_frequent_one(count: int) -> None:
    rows = equal("orders", b"ping", 500) + equal("orders", b"tea", count, 500) + equal("others", b"tea", count)
    notices: list[str] = []
    found = [(each.topic, each.first_offset) for each in reconcile(rows, notices=notices)]
    assert found == [("orders", 501 + n) for n in range(count - 1)] + [("others", 1 + n) for n in range(count - 1)]
    assert len(notices) == 1


def test_repeated_states_are_not_copies() -> None:
    rows = [row for n in range(300) for row in equal("states", b"%d" % n, 5, 5 * n)]
    notices: list[str] = []
    assert reconcile(rows, notices=notices) == []
    assert [each.split(";")[0] for each in notices] == [
        "states: contents of records repeat too often to identify duplicates, so they were not compared"
    ]
    assert len(reconcile(rows[: 5 * 200], notices=notices)) == 800, "up to a thousand records are compared one by one"


def tombstones(count: int) -> list[RecordRow]:
    """Returns `count` tombstones with the same key."""
    return [RecordRow("orders", 0, n, START + n, 1, 0, n, "none", b"17", None, content_hash(b"17", None)) for n in range(count)]


def test_a_key_may_be_deleted_again() -> None:
    rows = tombstones(2)
    assert reconcile(rows) == []
    assert reconcile(rows, [Intended("orders", b"other", b"v")], deleted={("orders", 0): 1})[0].kind == "lost"
    found = reconcile(rows, [Intended("orders", b"17", None)])
    assert [(each.kind, each.severity) for each in found] == [("application_duplicate", "certain")], (
        "the journal has only one of the two tombstones"
    )
    keyless = [row._replace(key=None, content=content_hash(None, None)) for row in rows]
    assert [each.kind for each in reconcile(keyless)] == ["application_duplicate"]


def test_hashes_equal_those_of_sparks_functions() -> None:
    """The formula is sha2(concat_ws(':', sha2(key, 256), sha2(value, 256), …), 256). For null, the text has a dash instead of a
    hash.
    """
    assert digest(b"a") == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    parts = [digest(b"k"), digest(b""), digest(b"name"), "-"]
    assert content_hash(b"k", digest(b""), [("name", None)]) == hashlib.sha256(":".join(map(str, parts)).encode()).hexdigest()
    assert content_hash(None, None) == hashlib.sha256(b"-:-").hexdigest()
    assert content_hash(None, digest(b"")) != content_hash(None, None), "a null value is not an empty value"


# Logs that the broker writes after random requests


def test_no_failure_of_the_network_leaves_a_trace_in_the_log() -> None:
    """After lost connections, restarts and failed writes, the audit finds nothing in the simulator's logs."""
    for seed in range(25):
        schedule = Schedule(seed)
        schedule.run()
        cluster = schedule.world.engine.cluster
        sent = [
            Intended(TOPIC, None, value.encode(), producer.partition)
            for producer in schedule.producers
            for batch in producer.batches
            for value in batch.values
        ]
        partitions = snapshot([cluster.topics[TOPIC]], cluster.configs.integer("producer.id.expiration.ms"), schedule.world.now)
        report = AuditReport(partitions, intended=sent)
        report.assert_exactly_once()
        assert report.summary()["records"] >= len(sent) > 0


def test_the_page_that_explains_the_checks_shows_what_they_find(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = Path(__file__).resolve().parent.parent / "scripts"
    monkeypatch.syspath_prepend(str(scripts))
    script = runpy.run_path(str(scripts / "explain-audit"))
    assert script["written"]() == script["PAGE"].read_text(encoding="utf-8")
