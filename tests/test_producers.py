"""Tests the validator alone. Each row has the stored batches, a received batch, and the expected verdict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.batches import SEQUENCES, BatchHeader
from wirebroker.core.producers import (
    Accept,
    Duplicate,
    Origin,
    Reject,
    advance,
    explain,
    judge,
    last_batch_only,
    last_offset,
    last_timestamp,
    pack,
    poison,
    unpack,
)
from wirebroker.core.profile import PROFILES, Rules, profile
from wirekit import NOW, header

MAX = SEQUENCES - 1
KAFKA = PROFILES["kafka-4.3"]


def after(*batches: tuple[int, int] | tuple[int, int, int], rules: Rules = KAFKA) -> tuple[bytes | None, int]:
    """Stores batches. Each is given as (first sequence, count[, epoch]). Returns the producer's state and the log end
    offset.
    """
    state, end = None, 0
    for first, count, *epoch in batches:
        state = advance(state, header(first, count, epoch=epoch[0] if epoch else 0), end, NOW + end, rules)
        end += count
    return state, end


def verdict(state: bytes | None, end: int, batch: BatchHeader, rules: Rules = KAFKA, **options: object) -> object:
    return judge(state, batch, rules, end, **options)  # type: ignore[arg-type]


SIX = [(0, 2), (2, 2), (4, 2), (6, 2), (8, 2), (10, 2)]

ROWS = [
    # name, batches in the log, received batch (first, count, epoch), verdict
    ("A3_first", [], (0, 3, 0), Accept(0, "first")),
    ("A3_next", [(0, 3)], (3, 1, 0), Accept(3, "next")),
    ("A13_kafka_takes_any_first_sequence", [], (114, 7, 0), Accept(0, "first")),
    ("A4_retry_of_the_last", [(0, 3)], (0, 3, 0), Duplicate(0, NOW, 1, 1, "retry")),
    ("A4_retry_of_the_fifth_last", SIX, (2, 2, 0), Duplicate(2, NOW + 2, 5, 5, "retry")),
    ("A6_retry_older_than_the_window", SIX, (0, 2, 0), Reject(45, "before_window", 0, 12)),
    ("A5_gap", [(0, 3)], (5, 1, 0), Reject(45, "gap", 5, 3)),
    ("A7_overlap_at_the_head", [(0, 3)], (2, 3, 0), Reject(45, "overlap", 2, 3)),
    ("A7_prefix", [(0, 3)], (0, 2, 0), Reject(45, "before_window", 0, 3)),
    ("A7_suffix", [(0, 3)], (1, 2, 0), Reject(45, "before_window", 1, 3)),
    ("A7_superset", [(0, 3)], (0, 4, 0), Reject(45, "overlap", 0, 3)),
    ("A7_two_merged", [(0, 2), (2, 2)], (0, 4, 0), Reject(45, "before_window", 0, 4)),
    ("A8_new_epoch_from_zero", [(0, 3)], (0, 1, 1), Accept(3, "new_epoch")),
    ("A8_new_epoch_from_elsewhere", [(0, 3)], (3, 1, 1), Reject(45, "new_epoch_not_zero", 3, 0)),
    ("A9_old_epoch", [(0, 3, 2)], (3, 1, 1), Reject(47, "epoch_fenced", 1, 2)),
    ("A9_old_epoch_comes_before_the_sequence", [(0, 3, 2)], (77, 1, 1), Reject(47, "epoch_fenced", 1, 2)),
    ("A12_after_the_largest_comes_zero", [(MAX, 1)], (0, 1, 0), Accept(1, "next")),
    ("A12_wrap_inside_a_batch", [(MAX - 1, 4)], (2, 1, 0), Accept(4, "next")),
    ("A12_retry_of_a_batch_that_wraps", [(MAX - 1, 4)], (MAX - 1, 4, 0), Duplicate(0, NOW, 1, 1, "retry")),
    ("A12_gap_after_the_largest", [(MAX, 1)], (1, 1, 0), Reject(45, "gap", 1, 0)),
    ("epoch_minus_two", [], (0, 1, -2), Reject(47, "epoch_fenced", -2, -1)),
    ("no_epoch_is_not_checked", [(0, 1, -1)], (7, 1, -1), Accept(1, "no_epoch")),
    ("a_real_epoch_after_none_begins_anywhere", [(0, 1, -1)], (7, 1, 0), Accept(1, "new_epoch")),
]


@pytest.mark.parametrize(("stored", "came", "decided"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_kafka(stored: list[tuple[int, int]], came: tuple[int, int, int], decided: object) -> None:
    state, end = after(*stored)
    assert verdict(state, end, header(came[0], came[1], epoch=came[2])) == decided


PROFILE_ROWS = [
    ("A13_textbook", "textbook", [], (5, 1), Reject(45, "first_not_zero", 5, 0)),
    ("A14_single_knows_the_last", "single", [(0, 2), (2, 2)], (2, 2), Duplicate(2, NOW + 2, 1, 1, "retry")),
    ("A14_single_forgets_the_one_before", "single", [(0, 2), (2, 2)], (0, 2), Reject(45, "before_window", 0, 4, True)),
    ("A14_single_gap", "single", [(0, 2)], (3, 1), Reject(45, "gap", 3, 2, True)),
    ("A14b_highest_outside_the_window", "highest", SIX, (0, 2), Duplicate(-1, -1, 0, 5, "at_or_below_highest")),
    ("A14b_highest_inside_the_window", "highest", SIX, (10, 2), Duplicate(10, NOW + 10, 1, 5, "retry")),
    ("A14b_highest_gap", "highest", SIX, (13, 1), Reject(45, "gap", 13, 12)),
    ("A15_pulsar_below", "pulsar", [(10, 1)], (10, 1), Duplicate(-1, -1, 1, 1, "retry")),
    ("A15_pulsar_far_below", "pulsar", [(10, 1)], (3, 1), Duplicate(-1, -1, 0, 1, "at_or_below_highest")),
    ("A15_pulsar_gap", "pulsar", [(10, 1)], (99, 1), Accept(1, "above_highest")),
    ("kafka_2_3_first", "kafka-2.3", [], (5, 1), Reject(59, "first_not_zero", 5, 0)),
    ("kafka_0_11_stale", "kafka-0.11", [(0, 2), (2, 2)], (0, 2), Reject(45, "before_window", 0, 4)),
    ("kafka_0_11_first", "kafka-0.11", [], (5, 1), Reject(45, "first_not_zero", 5, 0)),
    ("kafka_0_11_gap", "kafka-0.11", [(0, 2)], (3, 1), Reject(45, "gap", 3, 2)),
]


@pytest.mark.parametrize(
    ("name", "stored", "came", "decided"), [row[1:] for row in PROFILE_ROWS], ids=[row[0] for row in PROFILE_ROWS]
)
def test_profiles(name: str, stored: list[tuple[int, int]], came: tuple[int, int], decided: object) -> None:
    rules = profile(name)
    state, end = after(*stored, rules=rules)
    assert verdict(state, end, header(*came), rules) == decided


def test_a13_textbook_unissued_producer_id() -> None:
    got = verdict(None, 0, header(0, 1, pid=99), profile("textbook"), issued=False)
    assert got == Reject(59, "unissued_producer_id", 99, -1)
    assert verdict(None, 0, header(0, 1, pid=99), KAFKA, issued=False) == Accept(0, "first")


def test_a_stale_retry_can_be_a_duplicate_sequence_number() -> None:
    rules = profile("kafka-4.3", stale="46")
    state, end = after(*SIX, rules=rules)
    assert verdict(state, end, header(0, 2), rules) == Reject(46, "before_window", 0, 12)
    assert verdict(state, end, header(13, 1), rules) == Reject(45, "gap", 13, 12)


def test_a14_single_is_refused_until_it_has_a_new_id() -> None:
    rules = profile("single")
    state, end = after((0, 2), rules=rules)
    assert state is not None
    assert verdict(poison(state), end, header(2, 1), rules) == Reject(45, "refused_until_new_id", 2, -1)
    assert isinstance(verdict(poison(state), end, header(0, 2), rules), Duplicate)


@pytest.mark.parametrize("window", [1, 2, 5, 10])
def test_a16_the_window_is_a_setting(window: int) -> None:
    rules = profile("kafka-4.3", window=window)
    state, end = after(*[(i, 1) for i in range(20)], rules=rules)
    known = [i for i in range(20) if isinstance(verdict(state, end, header(i, 1), rules), Duplicate)]
    assert known == list(range(20 - window, 20))


def test_only_a_clients_batches_are_checked() -> None:
    state, end = after((0, 3))
    assert verdict(state, end, header(99, 1), origin=Origin.COORDINATOR) == Accept(3, "unchecked")


def test_a11_judging_changes_nothing_and_a_rejected_epoch_does_not_bump() -> None:
    state, end = after((0, 3))
    verdict(state, end, header(9, 1, epoch=5))
    assert verdict(state, end, header(3, 1)) == Accept(3, "next")


def test_d1_a_restart_keeps_the_last_batch_of_the_window() -> None:
    state, end = after(*SIX)
    assert state is not None
    kept = last_batch_only(state)
    assert isinstance(verdict(kept, end, header(10, 2)), Duplicate)
    assert verdict(kept, end, header(8, 2)) == Reject(45, "before_window", 8, 12)
    assert verdict(kept, end, header(12, 1)) == Accept(12, "next")


def test_a_new_epoch_clears_the_window() -> None:
    state, end = after((0, 3), (0, 1, 1))
    assert state is not None
    assert [b.first_sequence for b in unpack(state).batches] == [0]
    assert isinstance(verdict(state, end, header(0, 3, epoch=1)), Reject)


def test_packing_is_lossless_and_small() -> None:
    state, _ = after(*SIX)
    assert state is not None
    assert pack(unpack(state)) == state
    assert len(state) <= 160
    assert (last_offset(state), last_timestamp(state)) == (11, NOW + 10)


def test_explain_names_the_received_and_expected_sequences_and_the_window() -> None:
    state, end = after((0, 3), (3, 4))
    came = header(9, 1, pid=12)
    got = judge(state, came, KAFKA, end)
    assert explain(got, came, state, "orders", 3) == (
        "rejected 45 OUT_OF_ORDER_SEQUENCE_NUMBER: expected sequence 7 for producer 12 epoch 0 on orders-3, got 9; "
        "batches in the window: 0–2 @0, 3–6 @3"
    )


# A slow model of the validator, which shares no code with the packed implementation.


class SlowModel:
    """Applies Kafka's rules to plain lists. A producer's state is (epoch, [(sequences, offset)])."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.epoch: int | None = None
        self.stored: list[tuple[list[int], int]] = []
        self.end = 0

    def send(self, first: int, count: int, epoch: int) -> tuple[str, int]:
        sequences = [(first + i) % 2**31 for i in range(count)]
        if self.epoch == epoch:
            for known, offset in self.stored[-self.window :]:
                if known[0] == sequences[0] and known[-1] == sequences[-1] and len(known) == len(sequences):
                    return "duplicate", offset
        if self.epoch is not None:
            if epoch < self.epoch:
                return "rejected", 47
            wanted = (self.stored[-1][0][-1] + 1) % 2**31 if epoch == self.epoch else 0
            if first != wanted:
                return "rejected", 45
        if self.epoch != epoch:
            self.epoch, self.stored = epoch, []
        self.stored.append((sequences, self.end))
        self.end += count
        return "accepted", self.end - count


STEPS = st.lists(st.tuples(st.integers(-9, 5), st.integers(1, 3), st.integers(-1, 1)), min_size=1, max_size=60)


@given(start=st.sampled_from([0, 114, MAX - 3]), window=st.integers(1, 6), steps=STEPS)
def test_the_validator_agrees_with_a_slow_model(start: int, window: int, steps: list[tuple[int, int, int]]) -> None:
    rules = profile("kafka-4.3", window=window)
    model = SlowModel(window)
    state, end = None, 0
    for shift, count, epoch_shift in steps:
        expected = start if model.epoch is None else (model.stored[-1][0][-1] + 1) % 2**31
        epoch = max((model.epoch or 0) + epoch_shift, 0)
        first = 0 if epoch_shift > 0 and shift < 3 else (expected + min(shift, 2)) % 2**31
        came = header(first, count, epoch=epoch)
        got = judge(state, came, rules, end)
        said = model.send(first, count, epoch)
        if isinstance(got, Accept):
            assert said == ("accepted", got.base_offset)
            state = advance(state, came, end, NOW, rules)
            end += count
        elif isinstance(got, Duplicate):
            assert said == ("duplicate", got.base_offset)
        else:
            assert said == ("rejected", got.code)
    assert end == model.end


@given(first=st.integers(0, MAX), epoch=st.integers(0, 3), counts=st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_advance_in_order_decides_as_judge_does(first: int, epoch: int, counts: list[int]) -> None:
    """The next batch in order is accepted without a search of the window, because no cached batch can equal it."""
    state, end, seq = None, 0, first
    for count in counts:
        came = header(seq, count, epoch=epoch)
        for cached in unpack(state).batches if state else ():
            assert (cached.first_sequence, cached.last_sequence) != (came.base_sequence, came.last_sequence)
        assert isinstance(judge(state, came, KAFKA, end), Accept)
        state = advance(state, came, end, NOW, KAFKA)
        end, seq = end + count, (seq + count) % SEQUENCES
