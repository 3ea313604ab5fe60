"""The rule of each check, written once for both audits.

The audit in memory calls a rule with numbers; the audit on Spark calls it with NumPy arrays or with SQL columns. Each audit has
its own way to pair neighbouring rows, and a rule decides about the two rows of a pair. Only `choose` and `modulo` differ
between numbers, arrays and columns. The operators `&` and `|` replace `and` and `or`.
"""

from __future__ import annotations

from typing import Any

from kafkawire.batches import SEQUENCES


class Rules:
    """The rules, for plain numbers.

    Each rule compares batches of one producer on one partition, or all batches of one partition.
    """

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """Returns `yes` where the condition holds, and `no` elsewhere."""
        return yes if condition else no

    def modulo(self, number: Any, divisor: int) -> Any:
        """Returns the remainder, which is never negative."""
        return number % divisor

    # Sequences

    def continues(self, epoch: Any, last_sequence: Any, next_epoch: Any, first_sequence: Any) -> Any:
        """Tells whether a batch begins with the next sequence of its epoch, or with sequence 0 of a newer epoch."""
        follows = first_sequence == self.modulo(last_sequence + (1 + SEQUENCES), SEQUENCES)  # a number of 64 bits, also in SQL
        return ((next_epoch == epoch) & follows) | ((next_epoch > epoch) & (first_sequence == 0))

    def distance(self, earlier: Any, later: Any) -> Any:
        """Returns the signed distance between two sequences.

        Sequences count modulo 2³¹. Of the two ways round, the shorter one is the distance.
        """
        forwards = self.modulo(later - earlier, SEQUENCES)
        return self.choose(forwards >= SEQUENCES // 2, forwards - SEQUENCES, forwards)

    def is_gap(self, place: Any, reach: Any) -> Any:
        """Tells whether sequences are missing before the batch at this place. `reach` is the last place of the earlier
        batches."""
        return place > reach + 1

    def is_late_start(self, place: Any, lower_epoch: Any, epoch: Any) -> Any:
        """Tells whether a new epoch of a known producer begins at another sequence than 0. The batch before the new epoch has
        the `lower_epoch`."""
        return (place > 0) & (lower_epoch >= 0) & (lower_epoch < epoch)

    def is_unexplained(self, missing: Any, holes: Any) -> Any:
        """Tells whether a gap is unexplained: more sequences are `missing` between two batches than `holes` can explain.

        `holes` is the number of offsets that compaction or damage removed between the two batches.
        """
        return holes < missing

    def is_disorder(self, place: Any, place_before: Any) -> Any:
        """Tells whether a batch has earlier sequences than the previous stored batch of the same epoch.

        The caller leaves out copies, because they count as duplicates.
        """
        return place < place_before

    # Epochs and lives

    def is_epoch_regression(self, epoch: Any, epoch_before: Any) -> Any:
        """Tells whether a batch has an older epoch than the batch before it."""
        return epoch < epoch_before

    def is_forgotten(self, pause_ms: Any, expiration_ms: Any, is_idle: Any) -> Any:
        """Tells whether the broker has forgotten a producer after a pause of this length.

        `is_idle` tells whether the producer has no open transaction. The broker does not forget a producer with an open
        transaction.
        """
        return (pause_ms >= expiration_ms) & is_idle

    # Offsets

    def is_offset_regression(self, base_offset: Any, last_before: Any) -> Any:
        """Tells whether a batch begins at or before the last offset of the batch before it."""
        return base_offset <= last_before
