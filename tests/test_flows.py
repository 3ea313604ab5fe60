"""The client libraries, and also the client `wire`, play each of the flows B1 to B12 over TCP.

A scenario file has the expected outcome of its flow. These tests check each client's log in detail.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from wirebroker_tools.drivers import ClientName
from wirebroker_tools.scenarios.play import Result, play
from wirebroker_tools.scenarios.reading import find
from wirebroker_tools.scenarios.scenario import Part, Scenario

ALL: tuple[ClientName, ...] = ("kafka-python", "aiokafka", "confluent", "wire")
LIBRARIES = ALL[:3]
every_client = pytest.mark.parametrize("client", ALL)
every_library = pytest.mark.parametrize("client", LIBRARIES)


def runs(name: str, client: ClientName) -> dict[str, Result]:
    """Runs the parts of a flow at the same time, because they mostly wait. Returns the results by the names of the parts."""
    scenario = find(name)
    with ThreadPoolExecutor() as pool:
        return dict(
            zip(
                [p.name for p in scenario.parts],
                pool.map(lambda p: play(scenario, p, client), scenario.parts),
                strict=True,
            )
        )


def run(name: str, client: ClientName) -> Result:
    """Play a flow that has only one part, and return the result."""
    (result,) = runs(name, client).values()
    return result


def log(result: Result, topic: str = "orders", partition: int = 0) -> str:
    """Returns one letter for each stored record: the name of the record's batch. Markers are left out."""
    values = [r.value or b"" for r in result.log if (r.topic, r.partition, r.control) == (topic, partition, False)]
    return "".join(value.decode().rstrip("0123456789") for value in values)


def batches(result: Result) -> list[tuple[str, str]]:
    """For each batch that got a verdict, returns the batch and the verdict."""
    return [(event.what, event.row.verdict) for event in result.events if event.row is not None]


def acknowledged(result: Result) -> list[int]:
    """Returns the offsets that the client reported to the application, in the order of the application's records."""
    told = {each.value: each.offset for each in result.journal.told if not each.error}
    return [told[each.value] for each in result.journal.sent]


@every_client
def test_b1_five_batches_are_acknowledged_in_order(client: ClientName) -> None:
    result = run("B1", client)
    assert result.outcome.name == "recovers"
    assert batches(result) == [(letter, "accepted") for letter in "ABCDE"]
    assert acknowledged(result) == list(range(len(result.log)))
    if client == "wire":
        assert [(row.first_sequence, row.last_sequence) for row in result.rows] == [
            (114, 120), (121, 124), (125, 132), (133, 142), (143, 150),
        ]  # fmt: skip


@every_client
def test_b2_lost_acknowledgements_store_nothing_twice(client: ClientName) -> None:
    result = run("B2", client)
    assert result.met, result.differences
    assert acknowledged(result) == list(range(len(result.log))), "the callbacks get the original offsets"
    again = [letter for letter, verdict in batches(result) if verdict == "duplicate"]
    assert again == (["D"] if client in ("kafka-python", "aiokafka") else ["D", "E"]), "the others have D and E in flight"
    duplicate = next(row for row in result.rows if row.verdict == "duplicate")
    assert duplicate.base_offset == next(
        row.base_offset for row in result.rows if row.first_sequence == duplicate.first_sequence
    )


@every_client
def test_b3_a_batch_that_is_not_stored_leaves_a_gap_and_heals(client: ClientName) -> None:
    refused, swallowed = runs("B3", client).values()
    assert refused.met, refused.differences
    gap = [("D", "rejected"), ("E", "rejected")]
    if client in ("confluent", "wire"):
        assert (batches(refused)[2:4], batches(swallowed)[2:4]) == (gap, gap), "both have several batches in flight"
    else:
        assert batches(refused) == [(letter, "accepted") for letter in "ABCDE"], "D is sent after C's response"
    if client == "aiokafka":  # E has waited until C's request timed out
        assert swallowed.outcome.name in ("recovers", "fails cleanly")
        assert log(swallowed).startswith("ABCD")
    else:
        assert swallowed.met, swallowed.differences


@every_client
def test_b4_six_in_flight_store_a_duplicate(client: ClientName) -> None:
    result = run("B4", client)
    assert result.met, result.differences
    if client != "wire":
        assert (result.outcome.name, bool(result.refusal), result.rows) == ("refuses", True, [])
        return
    assert result.outcome.name == "duplicates"
    *first, (last, verdict) = batches(result)
    assert [v for _, v in first] == ["accepted"] * 6 + ["rejected"] + ["duplicate"] * 5
    rejected = first[6][0]
    assert (rejected, last, verdict) == ("A", "A", "accepted"), "A is no longer in the window when it is retried"
    assert (result.rows[-1].producer_epoch, result.rows[-1].first_sequence) == (1, 0)
    assert log(result) == "A" * 7 + "B" * 4 + "C" * 8 + "D" * 10 + "E" * 8 + "F" * 5 + "A" * 7
    (found,) = result.audit.findings
    assert found.kind == "epoch_duplicate", "the audit finds the duplicate"
    assert "at offsets 0–6 under epoch 0 and at 42–48 under epoch 1" in found.explanation


@every_client
def test_b5_the_three_failures_of_any_send_end_alike(client: ClientName) -> None:
    never, lost, died = runs("B5", client).values()
    for result in (never, lost, died):
        assert result.met, result.differences
        assert log(result) == "ABCDE"
        assert acknowledged(result) == [0, 1, 2, 3, 4]
    assert [v for letter, v in batches(never) if letter == "C"] == ["accepted"]
    assert [v for letter, v in batches(lost) if letter == "C"] == ["accepted", "duplicate"]
    assert [v for letter, v in batches(died) if letter == "C"] == ["accepted", "duplicate"], "the new leader has its state"


@every_client
def test_b6_acks_1_loses_what_was_not_replicated_and_acks_all_does_not(client: ClientName) -> None:
    one, every = runs("B6", client).values()
    for result in (one, every):
        assert result.met, result.differences
    assert (log(one), acknowledged(one)) == ("ABCF", [0, 1, 2, 3, 4, 3]), "D and E were acknowledged, and F has D's offset"
    assert [found.kind for found in one.audit.findings] == ["lost", "lost"]
    assert (log(every), acknowledged(every), every.audit.findings) == ("ABCDEF", [0, 1, 2, 3, 4, 5], [])
    assert len([letter for letter, verdict in batches(every) if letter == "D"]) == 2, "each of the two leaders has stored D"


@every_client
def test_b7_without_idempotence_the_record_is_stored_twice(client: ClientName) -> None:
    result = run("B7", client)
    assert result.met, result.differences
    assert log(result).count("C") == 2 * log(result).count("D")
    assert {row.verdict for row in result.rows} == {"accepted"}


@every_library
def test_b8_delivery_semantics_side_by_side(client: ClientName) -> None:
    counted = {
        name: (
            result.outcome.counts.sent,
            result.outcome.counts.stored,
            result.outcome.counts.lost,
            result.outcome.counts.doubled,
        )
        for name, result in runs("B8", client).items()
    }
    at_most_once = {(10, 9, 1, 0)}
    if client == "confluent":
        # This happened once on a busy machine. Probably librdkafka wrote another record to the connection before it noticed the
        # close.
        at_most_once.add((10, 8, 2, 0))
    assert counted.pop("at most once: acks=0") in at_most_once
    assert counted == {
        "at least once: acks=all, retries": (10, 11, 0, 1),
        "exactly once: idempotence": (10, 10, 0, 0),
        "exactly once: transactions": (10, 10, 0, 0),
    }


@every_client
def test_b9_what_idempotence_does_not_cover(client: ClientName) -> None:
    restarted, elsewhere, twice, six = runs("B9", client).values()
    for result in (restarted, elsewhere, twice, six):
        assert result.met, result.differences
    assert log(restarted) == log(twice) == "ABCDEE"
    ids = [record.producer_id for record in restarted.log if record.value == b"E"]
    assert len(set(ids)) == 2, "the record is stored twice, with two producer ids"
    assert (log(elsewhere), log(elsewhere, partition=1)) == ("ABCDE", "E")
    one, other = (record for record in twice.log if record.value == b"E")
    assert (one.producer_id, one.sequence + 1) == (other.producer_id, other.sequence), "one producer, two sequences"
    assert six.outcome.name == ("duplicates" if client == "wire" else "refuses")
    told_apart = [found.kind for result in (restarted, elsewhere, twice, six) for found in result.audit.findings]
    kinds = ["session_duplicate", "partition_duplicate", "application_duplicate", "epoch_duplicate"]
    assert told_apart == kinds[: 4 if client == "wire" else 3]


@every_client
def test_b10_what_a_client_does_on_out_of_order(client: ClientName) -> None:
    """docs/how-to/scenarios.md describes the results. F is sent after each earlier record has been acknowledged or has
    failed.
    """
    result = run("B10", client)
    assert result.met, result.differences
    failed = "".join(each.value for each in result.journal.told if each.error)
    pairs = list(dict.fromkeys((row.producer_id, row.producer_epoch) for row in result.rows))
    stories = {
        "wire": ("", [(0, 0), (0, 1)]),
        "kafka-python": ("C", [(0, 0), (1, 0)]),
        "aiokafka": ("CDEF", [(0, 0)]),
        "confluent": ("CDEF", [(0, 0)]),
    }
    assert ("".join(sorted(failed)), pairs) == stories[client], "the failed records, and the producer ids and epochs"
    assert log(result) == "".join(letter for letter in "ABCDEF" if letter not in failed)


@every_client
def test_b11_a_retry_overtakes_unless_the_producer_is_idempotent(client: ClientName) -> None:
    without, having = runs("B11", client).values()
    assert without.differences + having.differences == []
    assert log(without) == ("ABCDE" if client == "aiokafka" else "ACDEB")
    assert log(having) == "ABCDE"


@every_library
def test_b12_the_consumers_half(client: ClientName) -> None:
    after, transaction, output = runs("B12", client).values()
    for result in (after, transaction, output):
        assert result.met, result.differences
    assert [r.value for r in after.log if r.topic == "results"] == [
        b"A@0",
        b"B@1",
        b"C@2",
        b"D@3",
        b"C@2",
        b"D@3",
        b"E@4",
        b"F@5",
    ]
    assert [r.value for r in output.log if r.topic == "results"] == [b"A@0", b"B@1", b"C@2", b"D@3", b"E@4", b"F@5"]
    aborted = [r.value for r in transaction.log if r.topic == "results" and not r.control]
    assert aborted.count(b"C@2") == 2, "the crashed worker's record is stored"
    assert transaction.outcome.counts.stored == 6, "read_committed consumers do not get the aborted record"


# If the broker has another rule, the flow must fail. Otherwise the flow would prove nothing.


def other_rules(name: str, **rules: object) -> tuple[Scenario, Part]:
    scenario = find(name)
    part = scenario.parts[0]
    return scenario, replace(part, broker=replace(part.broker, rules=rules))


@pytest.mark.parametrize(
    ("name", "rules", "outcome"),
    [
        ("B2", {"window": 1}, "duplicates"),  # a window of one batch no longer has D
        ("B4", {"window": 6}, "recovers"),
        ("B11", {"gap": "accept"}, "reorders"),
    ],
    ids=["B2, window 1", "B4, window 6", "B11, gaps accepted"],
)
def test_a_broker_that_decides_otherwise_is_noticed(name: str, rules: dict[str, object], outcome: str) -> None:
    scenario, part = other_rules(name, **rules)
    if name == "B11":
        part = replace(scenario.parts[1], broker=part.broker)
    result = play(scenario, part, "wire")
    assert (result.outcome.name, result.met) == (outcome, False)


def test_without_its_fault_b7_doubles_nothing_and_that_is_a_difference() -> None:
    scenario = find("B7")
    result = play(scenario, replace(scenario.parts[0], faults=[]), "kafka-python")
    assert (result.outcome.name, result.met) == ("recovers", False)
