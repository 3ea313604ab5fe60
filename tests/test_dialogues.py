"""Random dialogues recorded on Kafka 4.3.1 are replayed on wirebroker. In each step, wirebroker has the same responses."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkawire.registry import KEYS
from random_dialogues.replay import Dialogue, Step, describe, load, prefix_for, replay, save
from random_dialogues.symbols import Symbols
from wirebroker import MockKafka
from wirebroker.apis import SERVED
from wirebroker.core.java_order import abs_hash
from wirebroker.core.releases import release
from wirebroker_tools.conformance.own_broker import OwnBroker
from wirebroker_tools.conformance.recording import BASE_SETTINGS

DATA = Path(__file__).parent / "data"
SCRIPT = Path(__file__).parent.parent / "scripts" / "record"
GROUPS = list(load(DATA / "dialogues-groups.jsonl.gz"))
TRANSACTIONS = list(load(DATA / "dialogues-transactions.jsonl.gz"))
LOGS = list(load(DATA / "dialogues-logs.jsonl.gz"))
ADMIN = list(load(DATA / "dialogues-admin.jsonl.gz"))
QUOTAS = list(load(DATA / "dialogues-quotas.jsonl.gz"))
SHARES = list(load(DATA / "dialogues-shares.jsonl.gz"))
STREAMS = list(load(DATA / "dialogues-streams.jsonl.gz"))
MIXED = list(load(DATA / "dialogues-mixed.jsonl.gz"))
ADMINISTRATION = list(load(DATA / "dialogues-administration.jsonl.gz"))
ODD = list(load(DATA / "dialogues-odd.jsonl.gz"))
REPLAYED = ADMIN + LOGS + GROUPS + SHARES + STREAMS + QUOTAS + MIXED + ODD + (TRANSACTIONS if "EndTxn" in SERVED else [])


@pytest.fixture(scope="module")
def broker() -> Iterator[OwnBroker]:
    """A broker for most dialogues. These dialogues do not affect each other, because each has its own names."""
    with OwnBroker(BASE_SETTINGS) as own:
        yield own


@pytest.fixture(scope="module")
def another_broker() -> Iterator[OwnBroker]:
    """A broker for mixed dialogues. The mixed dialogues need their own broker, because the dialogues about quotas set quotas
    for IP addresses that the mixed dialogues also use.
    """
    with OwnBroker(BASE_SETTINGS) as own:
        yield own


@pytest.fixture(scope="module")
def third_broker() -> Iterator[OwnBroker]:
    """A broker for dialogues that change feature levels. These dialogues need their own broker, because the responses in other
    dialogues depend on the levels.
    """
    with OwnBroker(BASE_SETTINGS) as own:
        yield own


@pytest.mark.parametrize("dialogue", ADMINISTRATION, ids=lambda dialogue: str(dialogue.head.seed))
def test_kafka_responds_to_administrators(dialogue: Dialogue, third_broker: OwnBroker) -> None:
    difference = replay(dialogue, third_broker.address).difference
    if difference is not None:
        pytest.fail(describe(difference), pytrace=False)


@pytest.mark.parametrize("dialogue", REPLAYED, ids=lambda dialogue: f"{dialogue.head.subject}-{dialogue.head.seed}")
def test_kafka_responds(dialogue: Dialogue, broker: OwnBroker, another_broker: OwnBroker) -> None:
    where = another_broker if dialogue.head.subject == "mixed" else broker
    difference = replay(dialogue, where.address).difference
    if difference is not None:
        pytest.fail(describe(difference), pytrace=False)


def test_an_id_that_a_broker_makes_from_a_name_of_the_dialogue_has_no_random_part() -> None:
    assert Symbols("dialogue-").symbol("dialogue-u-92be7f77-b917-40f4-a9e1-7bf6922dbbf9") == "@u-(random)"


def test_the_recordings_are_whole() -> None:
    assert (len(ADMIN), len(LOGS), len(GROUPS), len(TRANSACTIONS), len(SHARES), len(QUOTAS)) == (27, 80, 60, 151, 41, 30)
    assert (len(STREAMS), len(MIXED), len(ADMINISTRATION), len(ODD)) == (39, 39, 25, 38)
    assert sum(len(dialogue.steps) for dialogue in ODD) == 1520
    assert sum(len(dialogue.steps) for dialogue in ADMINISTRATION) == 1000
    assert sum(len(dialogue.steps) for dialogue in ADMIN) > 1100
    assert sum(len(dialogue.steps) for dialogue in LOGS) == 4800
    assert sum(len(dialogue.steps) for dialogue in GROUPS) > 2500
    assert sum(len(dialogue.steps) for dialogue in TRANSACTIONS) > 5900
    assert sum(len(dialogue.steps) for dialogue in SHARES) == 2255
    assert sum(len(dialogue.steps) for dialogue in QUOTAS) == 1200
    assert sum(len(dialogue.steps) for dialogue in MIXED) > 1900
    assert sum(len(dialogue.steps) for dialogue in STREAMS) > 2200


@pytest.mark.slow
def test_hardly_any_replay_ends_because_another_leader_was_chosen(broker: OwnBroker) -> None:
    agreed = sum(replay(dialogue, broker.address).agreed for dialogue in GROUPS)
    assert agreed > 0.95 * sum(len(dialogue.steps) for dialogue in GROUPS)


def _altered(step: Step, *, without: bool = False, more: bool = False) -> Step:
    """Returns a changed copy of the step: with another response, without a response, or with an additional response."""
    responses = copy.deepcopy(step.responses)
    number = step.ask.connection
    if more:
        responses[number + 1] = {}
    elif without:
        del responses[number]
    else:
        responses[number]["error_code"] = "74 FENCED_LEADER_EPOCH"
    return replace(step, responses=responses)


@pytest.mark.parametrize("change", [{}, {"without": True}, {"more": True}], ids=["other", "unexpected", "missing"])
def test_a_doctored_response_is_a_difference(change: dict[str, bool]) -> None:
    dialogue = next(each for each in GROUPS if each.steps[0].responses)
    doctored = replace(dialogue, steps=[_altered(dialogue.steps[0], **change), *dialogue.steps[1:]])
    with OwnBroker(BASE_SETTINGS) as broker:
        replayed = replay(doctored, broker.address, within=0.05)
    assert replayed.difference is not None
    assert (replayed.difference.index, replayed.agreed) == (0, 0)
    told = describe(replayed.difference)
    assert told.startswith(f"groups, seed {dialogue.head.seed}, step 0")
    assert "expected" in told


def test_groups_are_in_partitions_of_their_own() -> None:
    prefix = prefix_for(["g", "h", "i"])
    assert [abs_hash(prefix + group) % 4 for group in "ghi"] == [1, 2, 3]
    with pytest.raises(ValueError, match="g, k"):
        prefix_for(["g", "k"])


def _record(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "dialogues", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_a_dialogue_of_a_release_asks_in_versions_that_it_has(tmp_path: Path) -> None:
    file = tmp_path / "recorded.jsonl"
    with MockKafka(profile="kafka-2.8") as kafka:
        done = _record(
            "transactions", "--release", "2.8", "--bootstrap", kafka.bootstrap_servers, "--count", "1", "--steps", "30",
            "--out", str(file),
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (recorded,) = load(file)
    announced = release("2.8").announced
    assert [step.ask for step in recorded.steps if step.ask.version > announced[KEYS[step.ask.api]][1]] == []


def test_what_the_script_records_can_be_replayed(tmp_path: Path) -> None:
    file = tmp_path / "recorded.jsonl"
    with MockKafka() as kafka:
        done = _record("groups", "--bootstrap", kafka.bootstrap_servers, "--count", "2", "--steps", "12", "--out", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 dialogues agree" in done.stdout
    recorded = list(load(file))
    assert [len(dialogue.steps) for dialogue in recorded] == [12, 12]
    with OwnBroker({}) as broker:
        assert [replay(dialogue, broker.address).difference for dialogue in recorded] == [None, None]
    save(tmp_path / "again.jsonl", recorded)
    assert (tmp_path / "again.jsonl").read_text() == file.read_text()
    assert json.loads(file.read_text().splitlines()[1])["seed"] == 2


def test_the_script_compares_two_brokers() -> None:
    with MockKafka() as one, MockKafka(configs={"group.max.session.timeout.ms": "30000"}) as other:
        compared = ("--bootstrap", one.bootstrap_servers, "--compare", other.bootstrap_servers)
        done = _record("groups", "--count", "1", "--steps", "30", *compared)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "26 INVALID_SESSION_TIMEOUT" in done.stdout.partition("got ")[2]
    assert "0 of 1 dialogues agree" in done.stdout


def test_the_script_says_what_it_cannot_do() -> None:
    assert _record("groups", "--bootstrap", "nowhere").returncode == 2
    assert _record("groups", "--bootstrap", "127.0.0.1:1", "--count", "1").returncode == 2
