"""Compiled modules behave exactly like their sources: they have the same results, exceptions, messages and responses."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fuzzing.batches import damaged_batch, good_batch
from kafkawire.batches import HEADER_SIZE, read_header
from kafkawire.record_walk import walk_records
from purekit import both, is_compiled, pure
from wirekit import lacking

NOW = 1_700_000_000_000
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def compiled() -> None:
    """Skip the tests if the modules are not compiled."""
    if not is_compiled(walk_records):
        lacking("compiled", "the modules are not compiled; scripts/compile does it")


def plain(value: Any) -> Any:
    """Converts a result so that `==` can compare a compiled module's result with the pure module's result."""
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(plain, value)]
    return value


def outcome(function: Any, *arguments: Any) -> Any:
    """Calls a function. Returns its result, or its exception."""
    try:
        return plain(function(*arguments))
    except Exception as error:
        return [type(error).__name__, str(error)]


def each(function: Any, arguments: Any) -> list[Any]:
    """Returns all items of an iterator."""
    return list(function(*arguments))


def batches(seed: int) -> list[bytes]:
    """Returns valid batches and batches with one or more errors."""
    random, made = Random(seed), []
    for _ in range(40):
        batch = good_batch(random, NOW, producer_id=random.choice((-1, 5)), epoch=0, sequence=random.choice((-1, 0, 7)))
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            batch = damaged_batch(random, batch)
        made.append(batch)
    return made


def test_every_module_that_is_named_is_compiled() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for source in project["tool"]["wirebroker"]["compiled"]:
        module = import_module(".".join(Path(source).with_suffix("").parts[1:]))
        assert str(module.__file__).endswith((".so", ".pyd")), source
        assert (ROOT / source).is_file()


def test_pure_modules_are_beside_and_not_instead() -> None:
    before = sys.modules["kafkawire.record_walk"]
    fast, slow = both("kafkawire.record_walk")
    assert fast is before is sys.modules["kafkawire.record_walk"]
    assert not is_compiled(slow.walk_records)


@pytest.mark.parametrize("seed", range(25))
def test_records_and_batches(seed: int) -> None:
    walks, slow_walks = both("kafkawire.record_walk")
    wire, slow_wire = both("kafkawire.batches")
    for batch in batches(seed):
        for name in ("walk_records", "walk_in_order"):
            for count in (1, 2, 40, int.from_bytes(batch[57:61], "big", signed=True)):
                call = (memoryview(batch)[HEADER_SIZE:], max(0, min(count, 10**6)))
                assert outcome(getattr(walks, name), *call) == outcome(getattr(slow_walks, name), *call), (name, batch)
        few = (batch, 1 << 16)  # the second argument limits the decompressed size
        assert outcome(wire.may_be_compacted, *few) == outcome(slow_wire.may_be_compacted, *few), batch
        for name in ("read_header", "crc_of", "transactional_header"):
            assert outcome(getattr(wire, name), batch) == outcome(getattr(slow_wire, name), batch), (name, batch)
        spans = (memoryview(batch * 3), 1)
        assert outcome(wire.batch_spans, *spans) == outcome(slow_wire.batch_spans, *spans), batch
        for name, call in (("iter_batches", (batch,)), ("iter_records", few)):
            fast, slow = (outcome(each, getattr(module, name), call) for module in (wire, slow_wire))
            assert fast == slow, (name, batch)


@pytest.mark.parametrize("seed", range(12))
def test_the_walk_of_the_audit(seed: int) -> None:
    fast, slow = both("wirebroker_audit.reading.walking")

    def lists(walked: Any) -> list[Any]:
        return [walked.positions.tolist(), walked.crcs.tolist(), walked.contents.tolist(), walked.end]

    log = b"".join(batches(seed))
    for pos in (0, 7, Random(seed).randrange(len(log))):
        for stop in (pos, pos + 200, len(log)):
            assert lists(fast.walk(log, pos, stop)) == lists(slow.walk(log, pos, stop)), (seed, pos, stop)


@pytest.mark.parametrize("seed", range(12))
def test_the_checks_of_a_batch(seed: int) -> None:
    checks, slow = both("wirebroker.core.record_checks")
    random = Random(seed)
    for batch in batches(seed):
        settings = {
            "topic": "orders-0", "compression": random.choice(("producer", "producer", "gzip", "uncompressed")),
            "append_time": random.random() < 0.2, "compacted": random.random() < 0.2,
            "before_max_ms": random.choice((1000, 2**63 - 1)),
        }  # fmt: skip
        full, at_once, version = random.random() < 0.8, random.random() < 0.5, random.choice((3, 9))
        fast_result, slow_result = (
            outcome(module.check, memoryview(batch), module.RecordPolicy(**settings), NOW, version, full, at_once)
            for module in (checks, slow)
        )
        assert fast_result == slow_result, (batch, settings)


@pytest.mark.parametrize("seed", range(12))
def test_verdicts_and_states(seed: int) -> None:
    judge, slow = both("wirebroker.core.producers")
    random = Random(seed)
    states: list[bytes | None] = [None]
    for step in range(300):
        state = random.choice(states[-6:])
        first, count = random.choice((0, 5, 10, 2**31 - 5, 2**31 - 1, random.randrange(40))), random.choice((1, 5, 10))
        batch = read_header(good_batch(random, NOW, producer_id=5, epoch=random.choice((0, 0, 0, 1)), sequence=first))
        batch = batch._replace(last_offset_delta=count - 1, records_count=count, attributes=random.choice((0, 0, 0, 0x10)))
        rules = {
            "window": random.choice((1, 5)),
            "stale": random.choice(("45", "46", "acknowledge")),
            "unissued": random.choice(("accept", "59")),
        }
        found, issued, verified = [], random.random() < 0.8, random.random() < 0.3
        for module in (judge, slow):
            made = sys.modules["wirebroker.core.profile"].Rules(**rules)
            origin = module.Origin.CLIENT
            verdict = outcome(module.judge, state, batch, made, step, origin, issued, None, verified)
            after = outcome(module.advance, state, batch, step, NOW + step, made)
            fields = (batch.producer_epoch, first, count - 1, step, NOW, rules["window"])
            in_order = outcome(module.advance_in_order, state, *fields) if state is not None else None
            found.append((verdict, after, in_order, None if state is None else outcome(module.unpack, state)))
        assert found[0] == found[1], (state, batch)
        states.append(judge.advance(state, batch, step, NOW + step, made))


def transcript(seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], str]:
    """Plays a case of the fuzzer without time limits. Returns all responses, and the fuzzer's finding."""
    for limit in ("SLOW", "SLICE"):
        monkeypatch.setattr(import_module("fuzzing.world"), limit, 600.0)
    case, responses = import_module("fuzzing.cases").Case(seed), []
    answered = case.world._answered

    def note(link: Any, raw: bytes) -> Any:
        responses.append(bytes(raw))
        return answered(link, raw)

    case.world._answered = note
    return responses, str(case.run().finding)


@pytest.mark.parametrize(
    "seed", [seed for seed in range(2000, 2020) if seed % 5 != 2]
)  # cases with seed % 5 == 2 use directories with random names
def test_whole_sessions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = transcript(seed, monkeypatch)
    with pure():
        slow = transcript(seed, monkeypatch)
    assert fast[0]
    assert fast == slow
