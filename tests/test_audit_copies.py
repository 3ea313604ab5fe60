"""`copied` finds batches if all or some of their sequences are stored already. It finds the same batches as a slow
comparison.
"""

from __future__ import annotations

import random

import pytest

from wirebroker.audit.copies import Copied, copied

Extents = list[tuple[int, int]]


def compared(extents: Extents) -> list[Copied]:
    """Returns the result that `copied` must return. This slow model checks each sequence."""
    owners: dict[int, int] = {}
    found = []
    for batch, (start, end) in enumerate(extents):
        known = [place for place in range(start, end + 1) if place in owners]
        if known:
            first, last = known[0], known[-1]
            found.append(Copied(batch, first, last, len(known), owners[first], owners[last]))
        for place in range(start, end + 1):
            owners.setdefault(place, batch)
    return found


def test_it_equals_a_comparison_of_all_places() -> None:
    chance = random.Random(4)
    for _ in range(2000):
        width, longest = chance.choice([(4, 4), (30, 3), (30, 30)])
        starts = [chance.randint(-width, width) for _ in range(chance.randint(0, 9))]
        extents = [(start, start + chance.randrange(longest)) for start in starts]
        assert list(copied(extents)) == compared(extents), extents


def test_a_batch_of_which_only_the_ends_are_known() -> None:
    assert list(copied([(5, 9), (0, 4), (20, 24), (3, 21)])) == [Copied(3, 3, 21, 9, 1, 2)]


MANY = 20_000
ISLANDS: dict[str, Extents] = {
    "all the same": [(0, 9)] * MANY,
    "all records again, with other batch borders": [(10 * n, 10 * n + 9) for n in range(MANY // 2)]
    + [(10 * n + 5, 10 * n + 14) for n in range(MANY // 2)],
    "larger and larger": [(-n, n) for n in range(MANY)],
    "smaller and smaller": [(n, 2 * MANY - n) for n in range(MANY)],
    "small batches, and then large batches": [(n, n) for n in range(MANY // 2)] + [(0, MANY)] * (MANY // 2),
    "backwards": [(n, n + 10) for n in reversed(range(MANY))],
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("island", ISLANDS)
def test_many_that_overlap_do_not_take_long(island: str) -> None:
    """If the function compared each pair of batches, this would take minutes."""
    extents = ISLANDS[island]
    assert len(list(copied(extents))) >= MANY // 2
