"""The runs of a segment are the same whether the segment is read in parts or at once."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra wirebroker[audit] is not installed")
pytest.importorskip("pyspark", reason="the extra wirebroker[audit] is not installed")

from audit_spark.synthetic import make_directory  # noqa: E402
from wirebroker.audit.findings import EXPIRATION_MS  # noqa: E402
from wirebroker_audit.folding.runs import RUNS, fold, joined  # noqa: E402
from wirebroker_audit.logs.planning import find_pieces  # noqa: E402
from wirebroker_audit.reading.pieces import Piece  # noqa: E402
from wirebroker_audit.reading.reader import read_piece  # noqa: E402


def rows_of(split: Piece) -> pa.Table:
    return pa.Table.from_batches([chunk.rows for chunk in read_piece(split)])


def runs_of(split: Piece) -> pa.Table:
    (batches,) = rows_of(split).combine_chunks().to_batches()
    return pa.Table.from_batches([fold(batches)], RUNS)


def parts_of(split: Piece, ends: list[int]) -> list[Piece]:
    """Divides a split at the positions in `ends` into the parts that a stream would read. A part's number is its first
    position."""
    marks = [split.begin._replace(position=at) for at in (split.begin.position, *ends, split.end.position)]
    return [replace(split, number=begin.position, begin=begin, end=end) for begin, end in pairwise(marks)]


def without_number(runs: pa.Table) -> Counter[str]:
    return Counter(map(str, runs.drop_columns(["run"]).to_pylist()))


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> list[Piece]:
    """Segments with all kinds of faults, except missing offsets and damage, because no run crosses these."""
    path = tmp_path_factory.mktemp("logs") / "logs"
    make_directory(path, seed=11, partitions=60)
    found = []
    for split in find_pieces(path):
        rows = rows_of(split)
        if rows.num_rows > 2 and rows["problem"].null_count == rows.num_rows and not any(rows["missing"].to_pylist()):
            found.append(split)
    return found


@pytest.mark.parametrize("breadth", [2, 8])
def test_joined_runs_are_those_of_the_whole_segment(splits: list[Piece], breadth: int) -> None:
    dice = random.Random(breadth)
    markers = 0
    for split in splits:
        positions = rows_of(split)["position"].to_pylist()[1:]
        ends = sorted(dice.sample(positions, min(len(positions), dice.randint(1, 30))))
        parts: list[Any] = [runs_of(part) for part in parts_of(split, ends)]
        while len(parts) > 1:  # join groups of parts until one part is left, as a stream joins folders
            some = [pa.concat_tables(parts[at : at + breadth]) for at in range(0, len(parts), breadth)]
            parts = [joined(each, EXPIRATION_MS) for each in some]
        assert without_number(parts[0]) == without_number(runs_of(split)), split.segment
        numbers = parts[0]["run"].to_pylist()
        assert max(numbers) < 0, "a joined run has a number that no batch has"
        assert len({number >> 32 for number in numbers}) == 1, "the parts form one stretch"
        assert len(set(numbers)) == len(numbers)
        markers += sum(parts[0]["committed"].to_pylist())
    assert len(splits) > 20
    assert markers > 20


def test_a_pause_in_which_the_producer_is_forgotten_divides_a_run(splits: list[Piece]) -> None:
    known = forgotten = 0
    for split in splits:
        ends = rows_of(split)["position"].to_pylist()[1:]
        runs = pa.concat_tables([runs_of(part) for part in parts_of(split, ends)])
        known += joined(runs, EXPIRATION_MS).num_rows
        forgotten += joined(runs, 0).num_rows
    assert known < forgotten


def test_stretches_with_offsets_missing_between_them_stay_apart(splits: list[Piece]) -> None:
    split = next(each for each in splits if rows_of(each).num_rows > 4)
    ends = rows_of(split)["position"].to_pylist()[1:4]
    first, second, _, last = (runs_of(part) for part in parts_of(split, ends))
    apart = pa.concat_tables([first, second, last])
    made = joined(apart, EXPIRATION_MS)
    assert len({number >> 32 for number in made["run"].to_pylist()}) == 2
