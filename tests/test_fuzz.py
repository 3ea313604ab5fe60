"""Runs a few cases of each fuzzer with fixed seeds, and checks that the fuzzers detect broken brokers. `scripts/fuzz` runs the
fuzzers for hours.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fuzzing import readers
from fuzzing.campaign import play
from fuzzing.cases import Case, replay
from fuzzing.control import each_operation
from fuzzing.hostile import HostileCase
from fuzzing.relays import RelayCase
from fuzzing.script import Finding, Script, Setting, Step, load, minimise
from fuzzing.served import ServedCase
from kafkawire.disk import opening
from kafkawire.errors import EncodeError
from wirebroker.apis import describe_cluster, produce
from wirebroker.apis.exchange import Exchange
from wirebroker.core.groups import GroupCoordinator
from wirebroker.core.logs import memory
from wirebroker.core.partition import Partition
from wirebroker.engine.engine import Engine
from wirebroker.proxy import relay
from wirebroker.requests.effects import Respond
from wirebroker.storage import directory, loading
from wirebroker.storage.store import FolderStore

FAST, SLOW = range(16), range(1000, 1060)
CONTROL_EXAMPLES = 5


@pytest.fixture(autouse=True)
def garbage_of_other_tests() -> None:
    """Freezes the objects of earlier tests, so that the garbage collector does not scan them during a request."""
    gc.collect()
    gc.freeze()


def run(seed: int) -> None:
    """Runs one case of the fuzzer. The fuzzer must find nothing."""
    outcome = Case(seed).run()
    assert outcome.finding is None, f"scripts/fuzz requests --replay {seed}\n{outcome.finding}"


@pytest.mark.parametrize("seed", FAST)
def test_requests(seed: int) -> None:
    run(seed)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_more_requests() -> None:
    for seed in SLOW:
        run(seed)


@pytest.mark.parametrize("name", readers.READERS)
def test_readers(name: str) -> None:
    readers.run(name, 0, 40)


@pytest.mark.slow
@pytest.mark.parametrize("name", readers.READERS)
def test_readers_for_longer(name: str) -> None:
    readers.run(name, 1, 200)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_control() -> None:
    wrong: list[str] = []

    def tell(operation: str, found: BaseException | None) -> None:
        if found is not None:
            wrong.append(f"{operation}: {found}")

    assert each_operation(0, CONTROL_EXAMPLES, tell) > 0
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [0, 1])
def test_requests_to_a_server(seed: int) -> None:
    outcome = ServedCase(seed, patience=1.0).run()  # the limit is high, because any request can be slow on a busy machine
    assert outcome.finding is None, f"scripts/fuzz served --replay {seed}\n{outcome.finding}"
    assert outcome.responses > 100


def test_relays() -> None:
    for seed in range(12):
        outcome = RelayCase(seed).run()
        assert outcome.finding is None, f"scripts/fuzz relay --replay {seed}\n{outcome.finding}"
        assert outcome.responses > 0


HOSTILE = (*range(40), 1544, 1692, 2014, 5498)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders, and links only for administrators")
def test_data_directories_of_strangers() -> None:
    for seed in HOSTILE:
        outcome = HostileCase(seed).run()
        assert outcome.finding is None, f"scripts/fuzz hostile --replay {seed}\n{outcome.finding}"


def follows_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "check_entries", lambda root: None)
    monkeypatch.setattr(opening, "PLAIN", os.O_NONBLOCK)


def takes_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "check_image", lambda image, path: None)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders, and links only for administrators")
@pytest.mark.parametrize(
    ("broken", "kind", "first"), [(follows_links, HostileCase.link, 0), (takes_any_name, HostileCase.metadata, 120)]
)
def test_a_start_that_trusts_is_caught(
    broken: Callable[[pytest.MonkeyPatch], None], kind: Callable[[HostileCase], None], first: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    broken(monkeypatch)
    findings = (HostileCase(seed, [kind]).run().finding for seed in range(first, first + 80))
    assert any(finding is not None and finding.kind.startswith("outside") for finding in findings)


def passes_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "redirect", lambda response, locate: False)


def drops_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay.FrameReader, "keep", lambda self, data, needed=0: None)


def mistakes_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        relay.Relay, "_send", lambda self, parts: self.proxy.effects.append(Respond(self.connection, parts * 2))
    )


def expects_no_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_acks", lambda frame: relay._Acks(0, False))


BROKEN_RELAYS: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    passes_addresses: "a response names a broker: ",
    drops_the_rest: "a connection is closed",
    mistakes_responses: "a response",
    expects_no_response: "a connection is closed",
}


@pytest.mark.parametrize("broken", BROKEN_RELAYS)
def test_a_broken_relay_is_caught(broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    found = [outcome.finding.kind for seed in range(12) if (outcome := RelayCase(seed).run()).finding is not None]
    assert any(BROKEN_RELAYS[broken] in kind for kind in found), found


def test_a_seed_is_the_same_each_time() -> None:
    one, other = Case(5).run(), Case(5).run()
    assert one.script == other.script
    assert one.responses == other.responses > 0


# Each function breaks the broker in one way. The fuzzer must notice this.


def raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(request: Any, exchange: Exchange) -> Any:
        raise KeyError(exchange.version)

    monkeypatch.setattr(describe_cluster, "handle", handle)


def cannot_be_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(request: Any, exchange: Exchange) -> Any:
        raise EncodeError("DescribeClusterResponse v0 cannot be written")

    monkeypatch.setattr(describe_cluster, "handle", handle)


def does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    def park(self: Exchange) -> None:
        self.connection.parked = self

    monkeypatch.setattr(describe_cluster, "handle", lambda request, exchange: park(exchange) or produce.Outcome.PARKED)


def responds_to_another_request(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Exchange._deliver

    def send(self: Exchange, response: Any, parts: Any) -> None:
        if self.api_key == 60:
            parts[0][7] ^= 1
        original(self, response, parts)

    monkeypatch.setattr(Exchange, "_deliver", send)


def responds_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Exchange._deliver

    def send(self: Exchange, response: Any, parts: Any) -> None:
        original(self, response, parts)
        if self.api_key == 60:
            original(self, response, parts)

    monkeypatch.setattr(Exchange, "_deliver", send)


def takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    original = describe_cluster.handle

    def handle(request: Any, exchange: Exchange) -> Any:
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        return original(request, exchange)

    monkeypatch.setattr(describe_cluster, "handle", handle)


def closes_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Engine.close

    def close(self: Engine, connection: Any, reason: str, *, reset: bool = False) -> None:
        original(self, connection, " ", reset=reset)

    monkeypatch.setattr(Engine, "close", close)


def loses_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count(1)
    original = memory.MemoryLog.batches

    def batches(self: Any, start: int = 0) -> Any:
        return (each for each in original(self, start) if next(numbers) % 7)

    monkeypatch.setattr(memory.MemoryLog, "batches", batches)


def acknowledges_what_it_did_not_store(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Partition.append

    def append(self: Partition, *given: Any, **options: Any) -> Any:
        appended = original(self, *given, **options)
        return appended if appended.error_code else appended._replace(base_offset=appended.base_offset + 1)

    monkeypatch.setattr(Partition, "append", append)


def forgets_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderStore, "settle", lambda self, now, only=(): None)


def forgets_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    original = GroupCoordinator.load

    def load(self: Any, index: int, batches: Any, now: int) -> None:
        original(self, index, list(batches)[:-1], now)

    monkeypatch.setattr(GroupCoordinator, "load", load)


BROKEN: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    raises: "raised: KeyError at ",
    cannot_be_encoded: "raised: EncodeError in DescribeClusterResponse",
    does_not_respond: "answer",
    responds_to_another_request: "a response to another request",
    responds_twice: "a response",
    takes_long: "slow: DescribeCluster",
    closes_without_a_word: "a connection is closed without a reason",
    forgets_topics: "lost in a kill: ",
    forgets_offsets: "lost in a kill: the offsets of group",
    loses_a_batch: "offsets are not dense",
    acknowledges_what_it_did_not_store: "stored",
}


APIS: dict[Callable[[pytest.MonkeyPatch], None], list[str]] = {
    loses_a_batch: [],
    acknowledges_what_it_did_not_store: [],
    forgets_offsets: ["OffsetCommit"],
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_broker_is_caught(broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    for seed in (1, *range(60)):  # with seed 1 the broker handles long requests in slices
        found = Case(seed, APIS.get(broken, ["DescribeCluster"])).run()
        if found.finding is not None and BROKEN[broken] in found.finding.kind:
            return
    pytest.fail(f"60 cases found nothing wrong with: {broken.__name__}")


def test_a_finding_is_made_small_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raises(monkeypatch)
    shown: list[str] = []
    report = play(iter(range(3)), tmp_path, lambda _: None, lambda found: shown.append(found.replay), ("DescribeCluster",))
    (found,) = report.found.values()
    assert found.finding.kind.startswith("raised: KeyError at engine.py")
    (path,) = tmp_path.iterdir()
    assert shown == [found.replay] == [f"scripts/fuzz requests --replay {path}"]
    script = load(path)
    assert [step.what for step in script.steps] == ["send"]
    again = replay(script)
    assert again is not None
    assert again.kind == found.finding.kind


def test_a_script_is_read_as_it_was_written(tmp_path: Path) -> None:
    steps = (Step("open", 3), Step("send", 3, b"\0\xff"), Step("wait", ms=5), Step("restart", mode="kill"))
    script = Script(Setting(7, brokers=3, data=True, trace="all", faults="idle", sliced=True), steps)
    script.save(tmp_path / "case.json")
    assert load(tmp_path / "case.json") == script


def test_as_few_steps_are_kept_as_still_fail() -> None:
    steps = [Step("wait", ms=number) for number in range(40)]
    kept = minimise(steps, lambda tried: {3, 17, 30} <= {step.ms for step in tried}, lambda: True)
    assert [step.ms for step in kept] == [3, 17, 30]


def test_a_reader_that_raises_something_else_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(given: Any) -> None:
        raise KeyError(given)

    reader = readers.READERS["profiles"]
    monkeypatch.setitem(readers.READERS, "profiles", readers.Reader(reader.inputs, read, reader.errors))
    with pytest.raises(readers.Unfit, match="profiles: KeyError"):
        readers.run("profiles", 0, 5)


def test_the_finding_says_what_and_where() -> None:
    assert str(Finding("slow: Fetch", "Fetch v4 took 2 s")) == "slow: Fetch\nFetch v4 took 2 s"
